"""Members and producers sign requests, use TLS, and use a namespace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from broker_stub import Settings, TlsFiles
from pyspark_rocketmq.broker_errors import NoPermission
from pyspark_rocketmq.client.dead_letters import DeadLetters
from pyspark_rocketmq.client.message import ReceivedMessage
from pyspark_rocketmq.client.producer import TransactionResolution
from pyspark_rocketmq.client.results import DEAD_LETTER, RECONSUME_LATER, SUCCESS, later
from pyspark_rocketmq.cluster.names import Namespace
from pyspark_rocketmq.cluster.settings import ClusterSettings
from pyspark_rocketmq.cluster.signing import Credentials
from pyspark_rocketmq.errors import AddressNotAllowed, ConnectError, OptionError, SendError
from pyspark_rocketmq.model import Address, Message, MessageQueue, retry_topic
from pyspark_rocketmq.net.settings import NetSettings, TlsSettings
from pyspark_rocketmq.wire.bodies import SubscriptionGroupConfig
from tests.client.fixtures import GROUP, TOPIC, Group, Log, until

PKI = Path(__file__).parents[1] / "net" / "pki"
KEY, SECRET = "rocketmq", "12345678"
SPACE = Namespace(prefix="SHOP")


def guarded(make_group: Callable[..., Group], secret: str = SECRET) -> Group:
    """Return a group before a broker with access control; its clients sign with the given secret."""
    group = make_group(acl={KEY: SECRET})
    group.cluster_settings = replace(group.cluster_settings, credentials=Credentials(KEY, secret))
    return group


def encrypting(make_group: Callable[..., Group], trusted: str = "ca.pem") -> Group:
    """Return a group before servers that use TLS; its clients trust the given authority."""
    group = make_group(tls=TlsFiles(str(PKI / "server.pem"), str(PKI / "server.key")))
    net = replace(group.cluster_settings.net, tls=TlsSettings(trust_cert_path=str(PKI / trusted)))
    group.cluster_settings = replace(group.cluster_settings, net=net)
    return group


@pytest.mark.parametrize("world", [guarded, encrypting])
def test_everything_a_member_asks_is_signed_or_encrypted(
    make_group: Callable[..., Group], world: Callable[..., Group]
) -> None:
    """With signed requests, or over TLS, sending, transactions, pulling, locks, commits and send-backs work."""
    group, in_order = world(make_group), Log()
    producer = group.producer()
    for body in (b"good", b"bad"):
        producer.send(Message(TOPIC, body))
    producer.send_in_transaction(Message(TOPIC, b"in a transaction"), lambda _: TransactionResolution.COMMIT)
    log = Log(lambda batch: RECONSUME_LATER if batch[0].body == b"bad" else SUCCESS)
    group.concurrent(log)
    group.orderly(in_order, group="others")

    assert {message.body for message in log.wait_for(3)} == {b"good", b"bad", b"in a transaction"}
    in_order.wait_for(3)
    until(lambda: sum(group.committed().values()) == 3)
    assert [record.body for record in group.stub.messages("SCHEDULE_TOPIC_XXXX")] == [b"bad"]


@pytest.mark.parametrize("world", [guarded, encrypting])
def test_a_pull_consumer_signs_or_encrypts_too(make_group: Callable[..., Group], world: Callable[..., Group]) -> None:
    """With signed requests, or over TLS, a pull consumer reads and commits, with and without subscriptions."""
    group = world(make_group)
    group.put(*"abcd")
    member, alone = group.pulling(), group.pulling(group="others", subscriptions={})
    alone.assign(alone.fetch_queues(TOPIC))

    for consumer in (member, alone):
        bodies: set[bytes] = set()
        until(lambda bodies=bodies, consumer=consumer: bodies.update(_polled(consumer)) or len(bodies) == 4)  # type: ignore[misc]
        consumer.commit()
    assert sum(group.committed().values()) == 4


def test_a_wrong_secret_is_told_and_reads_nothing(
    make_group: Callable[..., Group], caplog: pytest.LogCaptureFixture
) -> None:
    """With a wrong secret a send raises, a member logs the refusal and gets no messages, and no text has the secret."""
    group = guarded(make_group, secret="a wrong secret")
    group.put("a")
    log = Log()
    group.concurrent(log)

    with pytest.raises(SendError) as refused:
        group.producer().send(Message(TOPIC, b"unwanted"))
    assert isinstance(refused.value.__cause__, NoPermission)
    until(lambda: "could not send a heartbeat to broker-a" in caplog.text)
    assert not log.messages
    assert "a wrong secret" not in caplog.text + str(refused.value)


def test_an_authority_that_is_not_trusted_is_told_at_the_start(make_group: Callable[..., Group]) -> None:
    """If a server's certificate is of an authority that the member does not trust, starting raises an error."""
    with pytest.raises(ConnectError, match="certificate"):
        encrypting(make_group, trusted="other_ca.pem").concurrent(Log())


def test_a_namespace_is_the_clusters_affair(make_group: Callable[..., Group]) -> None:
    """Brokers get names with the namespace's prefix, also of retries and dead letters; users see names without it."""
    group = make_group(topics={"SHOP%orders": 4})
    group.cluster_settings = replace(group.cluster_settings, namespace=SPACE)
    answers: dict[bytes, Any] = {b"bad": RECONSUME_LATER, b"never": later(DEAD_LETTER)}
    log = Log(lambda batch: answers.get(batch[0].body, SUCCESS) if batch[0].reconsume_times == 0 else SUCCESS)
    producer = group.producer()
    for body in (b"good", b"bad", b"never"):
        producer.send(Message(TOPIC, body))
    group.concurrent(log)

    assert {message.topic for message in log.wait_for(3)} == {TOPIC}
    until(lambda: sum(group.stub.offsets(f"SHOP%{GROUP}").values()) == 3)
    [waiting] = group.stub.messages("SCHEDULE_TOPIC_XXXX")
    assert waiting.properties["REAL_TOPIC"] == retry_topic(f"SHOP%{GROUP}")
    [letter] = DeadLetters(group.cluster_settings, GROUP).read()
    assert (letter.body, letter.topic) == (b"never", TOPIC)


@pytest.mark.parametrize("told", [TransactionResolution.COMMIT, TransactionResolution.UNKNOWN])
def test_transactions_end_within_a_namespace(make_group: Callable[..., Group], told: TransactionResolution) -> None:
    """With a namespace `execute` or `check` can commit; `check` gets the topic without the prefix."""
    group = make_group(topics={"SHOP%orders": 4}, frozen_clock=True)
    group.cluster_settings = replace(group.cluster_settings, namespace=SPACE)
    asked: list[str] = []

    def check(message: ReceivedMessage) -> TransactionResolution:
        asked.append(message.topic)
        return TransactionResolution.COMMIT

    group.producer(check).send_in_transaction(Message(TOPIC, b"x"), lambda _: told)
    if told is TransactionResolution.UNKNOWN:
        group.stub.clock.advance(Settings().transaction_check_interval_ms)
    until(lambda: [record.body for record in group.stub.messages("SHOP%orders")] == [b"x"])
    assert asked == [TOPIC] * (told is TransactionResolution.UNKNOWN)


@pytest.mark.parametrize("is_first_listed", [True, False])
def test_members_connect_to_allowed_brokers_only(
    make_group: Callable[..., Group], is_first_listed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """With `allowed_brokers` members and producers connect to no other brokers in routes, say which, and go on."""
    group, log = make_group(queues=1, brokers=2), Log()
    listed, stranger = ("broker-a", "broker-b") if is_first_listed else ("broker-b", "broker-a")
    addresses = {name: group.stub.broker_address(name) for name in (listed, stranger)}
    group.cluster_settings = replace(group.cluster_settings, allowed_brokers=f"10.0.0.0/8, {addresses[listed]}")
    for broker in (listed, stranger):
        group.stub.put(TOPIC, broker.encode(), broker=broker)
    group.concurrent(log)

    assert [message.body for message in log.wait_for(1)] == [listed.encode()]
    until(lambda: f"address {addresses[stranger]}" in caplog.text)
    assert "ADDRESS_NOT_ALLOWED" in caplog.text
    producer = group.producer()
    assert {producer.send(Message(TOPIC, b"x")).queue.broker_name for _ in range(4)} == {listed}
    with pytest.raises(SendError, match="1 failed, 0 unknown") as refused:
        producer.send(Message(TOPIC, b"x"), MessageQueue(TOPIC, stranger, 0))
    assert isinstance(refused.value.__cause__, AddressNotAllowed)
    assert {each.broker_name for each in group.stub.connections()} == {listed}


def test_a_member_leaves_a_replica_that_is_not_allowed_for_its_master(make_group: Callable[..., Group]) -> None:
    """If a broker suggests a replica that is not allowed, a member warns and goes on at the master."""
    group, log = make_group(1, slaves=1), Log()
    group.cluster().admin.create_group(SubscriptionGroupConfig(group_name=GROUP, broker_id=1))
    master, _ = group.stub.run(lambda: [str(broker.address) for broker in group.stub.state.brokers])
    group.cluster_settings = replace(group.cluster_settings, allowed_brokers=master)
    group.put(*"abc")
    group.concurrent(log, pull_batch_size=1)
    assert [message.body for message in log.wait_for(3)] == [b"a", b"b", b"c"]


@pytest.mark.parametrize("given", ["", "10.0.0.1/8", ["10.0.0.1"]])
def test_allowed_brokers_are_checked_where_they_are_given(given: Any) -> None:
    """Text that is no list of hosts and networks, or a value that is no text, is refused by name."""
    with pytest.raises(OptionError, match="allowed_brokers"):
        ClusterSettings((Address("ns", 9876),), allowed_brokers=given)


def test_allowed_brokers_alone_decide_about_connections() -> None:
    """Connections follow `allowed_brokers` after each change of the settings, and no other value of `net.allowed`."""
    settings = ClusterSettings((Address("ns", 9876),), allowed_brokers="10.0.0.1")
    allowed = settings.net.allowed
    assert allowed is not None and allowed.addresses == {Address("ns", 9876)}
    assert replace(settings, allowed_brokers=None).net == NetSettings()
    assert replace(settings, net=NetSettings(connect_timeout_s=1)).net.allowed == allowed
    moved = replace(settings, name_servers=(Address("other", 9876),)).net.allowed
    assert moved is not None and moved.addresses == {Address("other", 9876)}


def _polled(consumer: Any) -> set[bytes]:
    return {message.body for message in consumer.poll(0.1)}
