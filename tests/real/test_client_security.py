"""Test our consumers and producers on real brokers with access control, with TLS, and with a namespace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pyspark_rocketmq.client.message import ReceivedMessage
from pyspark_rocketmq.client.producer import TransactionResolution
from pyspark_rocketmq.client.results import RECONSUME_LATER, SUCCESS, Consumed
from pyspark_rocketmq.cluster.names import Namespace
from pyspark_rocketmq.cluster.settings import ClusterSettings
from pyspark_rocketmq.model import Message
from tests.real.java_clients import eventually
from tests.real.our_clients import Log, Ours, committed
from tests.real.servers import RealCluster
from tests.real.worlds import real_world

pytestmark = pytest.mark.real


@contextmanager
def our_clients(cluster: RealCluster, topic: str, settings: ClusterSettings | None = None) -> Iterator[Ours]:
    """Yield our clients, connected to a cluster with the settings it needs; close them after the `with` block."""
    ours = Ours(cluster.name_server, topic, settings or real_world(cluster).settings)
    try:
        yield ours
    finally:
        ours.close()


def use_clients(ours: Ours, group: str) -> None:
    """Send messages, one in a transaction; check that a concurrent and an orderly consumer get all of them.

    One message fails at first and is delivered again.
    """
    producer = ours.producer(f"{group}_producers")
    for body in (b"good", b"bad"):
        producer.send(Message(ours.topic, body))
    producer.send_in_transaction(Message(ours.topic, b"in a transaction"), lambda _: TransactionResolution.COMMIT)

    def answer(batch: list[ReceivedMessage]) -> Consumed:
        return RECONSUME_LATER if batch[0].body == b"bad" and not batch[0].reconsume_times else SUCCESS

    log, in_order = Log(answer), Log()  # type: ignore[arg-type]
    ours.member(group, log)
    ours.member(f"{group}_in_order", in_order, orderly=True)
    everything, cluster = {"bad", "good", "in a transaction"}, ours.cluster()
    eventually(lambda: set(log.bodies) == set(in_order.bodies) == everything, "all came to both")
    eventually(lambda: log.bodies.count("bad") > 1, "the failed message is delivered again")
    eventually(lambda: committed(ours, cluster, group) == 3, "everything is committed")
    assert {message.topic for message in log.messages} == {ours.topic}


def test_access_control(real_acl: RealCluster, unique: str) -> None:
    """Our clients work on brokers with access control, so every request is signed as the release requires."""
    real_acl.create_topic(unique)
    with our_clients(real_acl, unique) as ours:
        use_clients(ours, f"{unique}_group")


def test_tls(real_tls: RealCluster, unique: str) -> None:
    """Our clients work on servers that speak TLS only."""
    real_tls.create_topic(unique)
    with our_clients(real_tls, unique) as ours:
        use_clients(ours, f"{unique}_group")


def test_a_namespace(real_cluster: RealCluster, unique: str) -> None:
    """With a namespace the broker has prefixed topic names, while our messages have plain ones, also after a retry."""
    real_cluster.create_topic(f"SHOP%{unique}")
    settings = ClusterSettings(real_world(real_cluster).settings.name_servers, namespace=Namespace(prefix="SHOP"))
    with our_clients(real_cluster, unique, settings) as ours:
        use_clients(ours, f"{unique}_group")
