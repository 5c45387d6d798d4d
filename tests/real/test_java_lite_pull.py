"""Test groups, commits and notifications of the official lite pull consumers."""

from __future__ import annotations

import pytest

from tests.real.java_clients import JavaClients, JavaObject, eventually, message, queue
from tests.real.java_fixtures import ScenarioServer

pytestmark = pytest.mark.real

POLL_MS = 500


def send(clients: JavaClients, topic: str, *bodies: str, **properties: str) -> None:
    """Send one message for each body, to the four queues of the topic in turn."""
    producer = clients.producer(f"{topic}_producers")
    for number, body in enumerate(bodies):
        producer.call("send", message(topic, body, **properties), queue(topic, "broker-a", number % 4))


def subscriber(
    clients: JavaClients, group: str, topic: str, expression: object = "*", **settings: object
) -> JavaObject:
    """Return a started lite pull consumer that reads a whole topic from its beginning."""
    given = {"consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "autoCommitIntervalMillis": 1000, **settings}
    reader = clients.lite_pull_consumer(group, **given)
    reader.call("subscribe", topic, expression)
    return reader.start()


def poll_until(readers: list[JavaObject], *bodies: str) -> list[set[str]]:
    """Poll all readers until together they have received these bodies; return the bodies of each reader."""
    had: list[set[str]] = [set() for _ in readers]

    def polled() -> bool:
        for reader, own in zip(readers, had, strict=True):
            own.update(found["body"] for found in reader.call("poll", POLL_MS))
        return set(bodies) <= set().union(*had)

    eventually(polled, f"{bodies} are polled, not only {had}")
    return had


def test_every_broadcast_reader_gets_everything(any_clients: JavaClients, topic: str, unique: str) -> None:
    """In broadcasting mode each reader receives all messages."""
    readers = [subscriber(any_clients, unique, topic, messageModel="BROADCASTING") for _ in range(2)]

    send(any_clients, topic, *"abcd")

    for reader in readers:
        poll_until([reader], *"abcd")


def test_readers_share_a_topic(any_clients: JavaClients, topic: str, unique: str) -> None:
    """Two readers of a group hold two queues each, and together receive all messages."""
    readers = [subscriber(any_clients, unique, topic) for _ in range(2)]
    eventually(lambda: [len(reader.call("assignment")) for reader in readers] == [2, 2], "the queues are shared")

    send(any_clients, topic, *"abcd")
    first, second = poll_until(readers, *"abcd")

    assert first and second
    assert first | second == set("abcd")


def test_polled_messages_are_committed_by_and_by(
    any_clients: JavaClients, java_server: ScenarioServer, topic: str, unique: str
) -> None:
    """With autoCommit, a poll commits the messages that earlier polls returned."""
    reader = subscriber(any_clients, unique, topic)
    send(any_clients, topic, *"abcd")
    poll_until([reader], *"abcd")

    def committed() -> bool:
        reader.call("poll", POLL_MS)
        return java_server.committed(unique, topic) == 4

    eventually(committed, "all four are committed")


def test_commit_on_command(any_clients: JavaClients, java_server: ScenarioServer, topic: str, unique: str) -> None:
    """Without autoCommit, messages are committed only when the reader calls `commitSync`."""
    reader = subscriber(any_clients, unique, topic, autoCommit=False)
    send(any_clients, topic, *"abcd")
    poll_until([reader], *"abcd")
    assert java_server.committed(unique, topic) == 0

    reader.call("commitSync")

    eventually(lambda: java_server.committed(unique, topic) == 4, "all four are committed")


def test_expressions_select(any_clients: JavaClients, topic: str, unique: str) -> None:
    """A reader that subscribes with SQL92 gets only messages whose properties meet the condition."""
    for number in range(4):
        send(any_clients, topic, f"m{number}", number=str(number))

    reader = subscriber(any_clients, unique, topic, {"sql": "number > 1"})

    assert poll_until([reader], "m2", "m3") == [{"m2", "m3"}]


def test_growth_of_a_topic_is_noticed(
    clients: JavaClients, java_server: ScenarioServer, topic: str, unique: str
) -> None:
    """If a topic gets more queues, a registered listener is called with all of them."""
    reader = clients.lite_pull_consumer(unique, topicMetadataCheckIntervalMillis=500).start()
    reader.call("registerTopicMessageQueueChangeListener", topic, {"report": reader.name})

    java_server.create_topic(topic, queues=6)

    def notified() -> set[int]:
        return {
            queue["queueId"] for change in clients.events(reader.name, "queues changed") for queue in change["queues"]
        }

    clients.wait(lambda: notified() == set(range(6)), "the listener is called with six queues")
    assert len(reader.call("fetchMessageQueues", topic)) == 6
