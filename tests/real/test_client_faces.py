"""Test our producer, pull consumer and dead letters together with official clients, on real brokers and on the stub."""

from __future__ import annotations

import time

import pytest

from pyspark_rocketmq.client.dead_letters import DeadLetters
from pyspark_rocketmq.client.message import ReceivedMessage
from pyspark_rocketmq.client.producer import TransactionResolution
from pyspark_rocketmq.client.pull_consumer import PullConsumer
from pyspark_rocketmq.client.results import DEAD_LETTER, later
from pyspark_rocketmq.model import Message, MessageQueue
from pyspark_rocketmq.pull.settings import Subscription
from tests.real.java_clients import JavaClients, eventually
from tests.real.java_fixtures import ScenarioServer
from tests.real.our_clients import Log, Ours

pytest_plugins = ["tests.real.client_fixtures"]
pytestmark = pytest.mark.real


@pytest.fixture
def java_server(mixed_server: ScenarioServer) -> ScenarioServer:
    """The server of these tests: a real broker of every version under test, then the stub."""
    return mixed_server


@pytest.fixture
def clients(mixed_clients: JavaClients) -> JavaClients:
    """Official clients of release 5.3.3, connected to the same server."""
    return mixed_clients


def poll_all(consumer: PullConsumer, count: int) -> list[ReceivedMessage]:
    """Poll until `count` messages have come; return them."""
    end, messages = time.monotonic() + 45, list[ReceivedMessage]()
    while len(messages) < count:
        assert time.monotonic() < end, f"{len(messages)} of {count} messages"
        messages.extend(consumer.poll(0.5))
    return messages


def test_official_consumers_read_what_we_send(clients: JavaClients, ours: Ours, topic: str, unique: str) -> None:
    """A Java consumer receives our messages unchanged, whichever way they are sent."""
    producer, large = ours.producer(), "abc" * 3000
    producer.send(Message(topic, b"single", "tag", "key", {"colour": "red"}, flag=5))
    producer.send(Message(topic, large.encode()))
    producer.send_batch([Message(topic, b"first of two"), Message(topic, b"second of two")])
    producer.send_oneway(Message(topic, b"one-way"))
    producer.send_ordered(Message(topic, b"ordered"), "key")
    producer.send(Message(topic, b"delayed", delay_level=2))
    reader = clients.push_consumer(unique, {topic: "*"})

    reader.wait_for_bodies("single", large, "first of two", "second of two", "one-way", "ordered", "delayed")
    found = {delivery["body"]: delivery for delivery in reader.deliveries}
    assert found["single"]["properties"].items() >= {"TAGS": "tag", "KEYS": "key", "colour": "red"}.items()
    assert found["single"]["flag"] == 5


def test_transactions_end_as_told_or_as_asked(clients: JavaClients, ours: Ours, topic: str, unique: str) -> None:
    """A committed message is delivered, a rolled back one is not, and an open one after its check."""
    asked: list[bytes] = []

    def check(message: ReceivedMessage) -> TransactionResolution:
        asked.append(message.body)  # A slow broker may also check a transaction that has just ended.
        return TransactionResolution.ROLLBACK if message.body == b"ROLLBACK" else TransactionResolution.COMMIT

    producer = ours.producer(f"{unique}_producers", check)
    for fate in TransactionResolution:
        producer.send_in_transaction(Message(topic, fate.name.encode()), lambda _, fate=fate: fate)  # type: ignore[misc]
    reader = clients.push_consumer(unique, {topic: "*"})

    reader.wait_for_bodies("COMMIT", "UNKNOWN")
    assert set(reader.bodies) == {"COMMIT", "UNKNOWN"}
    assert b"UNKNOWN" in asked


def test_pull_consumers_share_with_each_other(ours: Ours, topic: str, unique: str) -> None:
    """If two of our pull consumers subscribe, each holds two of four queues, and together they get all messages."""

    def share(member: PullConsumer) -> int:
        return sum(queue.topic == topic for queue in member.queues)

    first = ours.pulling(unique, subscriptions={topic: Subscription()})
    eventually(lambda: share(first) == 4, "the first holds all queues")
    members = [first, ours.pulling(unique, subscriptions={topic: Subscription()})]
    eventually(lambda: [share(member) for member in members] == [2, 2], "both hold two queues")
    producer = ours.producer()
    for number in range(8):
        producer.send(Message(topic, b"%d" % number), MessageQueue(topic, "broker-a", number % 4))

    assert {message.body for member in members for message in poll_all(member, 4)} == {b"%d" % n for n in range(8)}


def test_assigned_queues_are_read_sought_and_committed(ours: Ours, topic: str, unique: str) -> None:
    """Our pull consumer reads an assigned queue from 0, from an offset and from a time, and commits an offset."""
    queue = MessageQueue(topic, "broker-a", 0)
    producer = ours.producer()
    for number in range(10):
        producer.send(Message(topic, b"%d" % number), queue)
    consumer = ours.pulling(unique, auto_commit=False)
    consumer.assign([queue])
    messages = poll_all(consumer, 10)
    assert [message.body for message in messages] == [b"%d" % number for number in range(10)]

    consumer.seek(queue, 8)
    assert [message.offset for message in poll_all(consumer, 2)] == [8, 9]
    consumer.seek_to_time(queue, messages[0].store_timestamp_ms)
    assert poll_all(consumer, 1)[0].offset == 0
    consumer.commit({queue: 7})
    assert consumer.committed(queue) == 7


def test_dead_letters_are_revived(clients: JavaClients, ours: Ours, topic: str, unique: str) -> None:
    """If a dead letter is sent again, a Java consumer of its original topic receives it."""
    ours.producer().send(Message(topic, b"poison", "tag", "key", {"colour": "red"}))
    member = ours.member(unique, Log(lambda _: later(DEAD_LETTER)))
    letters = DeadLetters(ours.settings, unique)
    eventually(lambda: list(letters.read()), "there is a dead letter")
    member.close()
    report = letters.resend(ours.producer())
    reader = clients.push_consumer(f"{unique}_java", {topic: "*"})

    def stored_at() -> set[tuple[int, int]]:
        return {(each["queueId"], each["queueOffset"]) for each in reader.deliveries}

    clients.wait(lambda: len(stored_at()) == 2, "the first one and the one sent again")
    assert str(report) == "1 sent again, 0 failed, 0 not wanted"
    assert len({each["properties"]["UNIQ_KEY"] for each in reader.deliveries}) == 1
    assert {each["properties"]["colour"] for each in reader.deliveries} == {"red"}
