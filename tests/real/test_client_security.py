"""Are our members and producers served by real brokers that check keys, encrypt, or hold a namespace's topics?"""

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
def before(cluster: RealCluster, topic: str, settings: ClusterSettings | None = None) -> Iterator[Ours]:
    """Our clients before a cluster, with what it takes to be served."""
    ours = Ours(cluster.name_server, topic, settings or real_world(cluster).settings)
    try:
        yield ours
    finally:
        ours.close()


def work(ours: Ours, group: str) -> None:
    """Send, end a transaction, consume concurrently, have a failure sent back, and consume in order, locks and all."""
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
    eventually(lambda: log.bodies.count("bad") > 1, "what failed came again")
    eventually(lambda: committed(ours, cluster, group) == 3, "the group stands behind everything")
    assert {message.topic for message in log.messages} == {ours.topic}


def test_access_control(real_acl: RealCluster, unique: str) -> None:
    """Everything that a member and a producer ask is signed as the release wants it."""
    real_acl.create_topic(unique)
    with before(real_acl, unique) as ours:
        work(ours, f"{unique}_group")


def test_tls(real_tls: RealCluster, unique: str) -> None:
    """Everything travels encrypted."""
    real_tls.create_topic(unique)
    with before(real_tls, unique) as ours:
        work(ours, f"{unique}_group")


def test_a_namespace(real_cluster: RealCluster, unique: str) -> None:
    """The broker knows the prefixed names; ours are the plain ones, of retried messages too."""
    real_cluster.create_topic(f"SHOP%{unique}")
    settings = ClusterSettings(real_world(real_cluster).settings.name_servers, namespace=Namespace(prefix="SHOP"))
    with before(real_cluster, unique, settings) as ours:
        work(ours, f"{unique}_group")
