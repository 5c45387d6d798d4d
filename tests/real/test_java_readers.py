"""Test the official lite pull and pull consumers on a real broker and on the stub."""

from __future__ import annotations

import pytest

from tests.real.java_clients import CALLBACK, JavaClients, JavaObject, Json, eventually, message, queue
from tests.real.java_fixtures import ScenarioServer

pytestmark = pytest.mark.real

POLL_MS = 1000


def send_in_order(clients: JavaClients, topic: str, *bodies: str, **properties: str) -> list[Json]:
    """Send one message for each body to queue 0; return the send results."""
    producer = clients.producer(f"{topic}_producers")
    return [producer.call("send", message(topic, body, **properties), queue(topic, "broker-a", 0)) for body in bodies]


def poll(consumer: JavaObject, count: int) -> list[str]:
    """Poll until `count` messages have come; return their bodies."""
    bodies: list[str] = []

    def polled() -> bool:
        bodies.extend(found["body"] for found in consumer.call("poll", POLL_MS))
        return len(bodies) >= count

    eventually(polled, f"{count} messages are polled, not only {bodies}")
    return bodies


def test_lite_pull_subscribes_and_commits(
    clients: JavaClients, java_server: ScenarioServer, topic: str, unique: str
) -> None:
    """A subscriber gets the messages of its tag; after a commit and restart it gets only later ones."""
    send_in_order(clients, topic, "a", "b", TAGS="kept")
    send_in_order(clients, topic, "x", TAGS="other")
    first = clients.lite_pull_consumer(unique, autoCommit=False, consumeFromWhere="CONSUME_FROM_FIRST_OFFSET")
    first.call("subscribe", topic, "kept")
    first.start()

    assert poll(first, 2) == ["a", "b"]
    first.call("commit", {f"{topic}/broker-a/0": 2}, True)
    eventually(lambda: java_server.committed(unique, topic) == 2, "the commit, sent one way, is stored")
    first.shutdown()
    send_in_order(clients, topic, "c", TAGS="kept")
    second = clients.lite_pull_consumer(unique)
    second.call("subscribe", topic, "kept")
    second.start()

    assert poll(second, 1) == ["c"]


def test_lite_pull_seeks_in_assigned_queues(clients: JavaClients, single_queue_topic: str, unique: str) -> None:
    """After a seek, an assigned queue is read from the offset of the seek.

    The test seeks when all messages are read, because a response in flight may still be delivered after a seek.
    """
    topic, only = single_queue_topic, queue(single_queue_topic, "broker-a", 0)
    send_in_order(clients, topic, *"abcde")
    reader = clients.lite_pull_consumer(unique, autoCommit=False).start()
    reader.call("assign", [only])

    assert poll(reader, 5) == list("abcde")
    reader.call("seek", only, 3)
    assert poll(reader, 2) == ["d", "e"]
    reader.call("seekToBegin", only)
    assert poll(reader, 5) == list("abcde")
    reader.call("seekToEnd", only)
    send_in_order(clients, topic, "f")
    assert poll(reader, 1) == ["f"]


def test_lite_pull_pauses_and_resumes(clients: JavaClients, single_queue_topic: str, unique: str) -> None:
    """A paused queue returns no message, except from the pull in flight, until it is resumed."""
    topic, only = single_queue_topic, queue(single_queue_topic, "broker-a", 0)
    reader = clients.lite_pull_consumer(unique, autoCommit=False).start()
    reader.call("assign", [only])
    reader.call("seekToBegin", only)

    reader.call("pause", [only])
    send_in_order(clients, topic, "under way")
    early = [found["body"] for found in reader.call("poll", 5 * POLL_MS)]
    send_in_order(clients, topic, "quiet")
    assert reader.call("poll", 2 * POLL_MS) == []
    reader.call("resume", [only])

    assert early + poll(reader, 2 - len(early)) == ["under way", "quiet"]


def test_lite_pull_finds_offsets_by_time(clients: JavaClients, single_queue_topic: str, unique: str) -> None:
    """A search by time returns the offset of the first message since then, or the end; a commit is stored."""
    topic, only = single_queue_topic, queue(single_queue_topic, "broker-a", 0)
    send_in_order(clients, topic, "early", "late")
    puller = clients.pull_consumer(f"{unique}_puller")
    stored = [found["storeTimestamp"] for found in puller.call("pull", only, "*", 0, 32)["msgFoundList"]]
    reader = clients.lite_pull_consumer(unique).start()
    reader.call("assign", [only])

    assert reader.call("offsetForTimestamp", only, stored[0]) == 0
    assert reader.call("offsetForTimestamp", only, stored[1] + 1000) == 2
    reader.call("commit", {f"{topic}/broker-a/0": 1}, True)
    eventually(lambda: reader.call("committed", only) == 1, "the commit, sent one way, is stored")


def test_pull_tells_how_it_ended(clients: JavaClients, single_queue_topic: str, unique: str) -> None:
    """The status of a pull is found, nothing new, no match or illegal offset, each with the next offset."""
    topic, only = single_queue_topic, queue(single_queue_topic, "broker-a", 0)
    send_in_order(clients, topic, "a", "b", "c", TAGS="red")
    puller = clients.pull_consumer(unique)

    def pulled(expression: str, offset: int) -> tuple[str, int, int, int]:
        result = puller.call("pull", only, expression, offset, 32)
        return result["pullStatus"], result["nextBeginOffset"], result["minOffset"], result["maxOffset"]

    eventually(lambda: pulled("*", 0) == ("FOUND", 3, 0, 3), "all are dispatched to their queue")
    assert pulled("red", 1) == ("FOUND", 3, 0, 3)
    assert pulled("*", 3) == ("NO_NEW_MSG", 3, 0, 3)
    assert pulled("blue", 0) == ("NO_MATCHED_MSG", 3, 0, 3)
    assert pulled("*", 9) == ("OFFSET_ILLEGAL", 3, 0, 3)


def test_pull_takes_no_more_than_it_asked_for(clients: JavaClients, single_queue_topic: str, unique: str) -> None:
    """A pull returns at most the requested number, and with SQL92 only matching messages.

    The client sends SQL92 only after a heartbeat whose response shows that the broker supports it.
    """
    topic, only = single_queue_topic, queue(single_queue_topic, "broker-a", 0)
    for number in range(6):
        send_in_order(clients, topic, f"m{number}", number=str(number))
    puller = clients.pull_consumer(unique)

    result = puller.call("pull", only, "*", 1, 2)
    by_number = {"sql": "number >= 4"}
    selected = eventually(lambda: puller.call("pull", only, by_number, 0, 32), "the broker's version is known")

    assert [found["body"] for found in result["msgFoundList"]] == ["m1", "m2"]
    assert result["nextBeginOffset"] == 3
    assert [found["body"] for found in selected["msgFoundList"]] == ["m4", "m5"]


def test_blocking_pull_is_answered_by_the_next_message(
    clients: JavaClients, single_queue_topic: str, unique: str
) -> None:
    """A long poll at the end of a queue returns the next message as soon as it arrives."""
    topic, only = single_queue_topic, queue(single_queue_topic, "broker-a", 0)
    puller = clients.pull_consumer(unique)
    sender = clients.producer(f"{unique}_producers")

    held = clients.begin(puller, "pullBlockIfNotFound", only, "*", 0, 32)
    sender.call("send", message(topic, "awaited"))
    result = held()

    assert [found["body"] for found in result["msgFoundList"]] == ["awaited"]


def test_pull_with_callback(clients: JavaClients, single_queue_topic: str, unique: str) -> None:
    """The callback of an asynchronous pull gets the result that a synchronous pull would return."""
    only = queue(single_queue_topic, "broker-a", 0)
    send_in_order(clients, single_queue_topic, "a")

    result = clients.pull_consumer(unique).call("pull", only, "*", 0, 32, CALLBACK)

    assert (result["pullStatus"], result["nextBeginOffset"]) == ("FOUND", 1)


def test_pull_consumer_asks_for_offsets(clients: JavaClients, topic: str, unique: str) -> None:
    """A pull consumer reads queues and bounds of a topic, and stores and reads its group's offset."""
    first, *_ = send_in_order(clients, topic, "a", "b")
    puller, queue_0 = clients.pull_consumer(unique), queue(topic, "broker-a", 0)

    assert len(puller.call("fetchSubscribeMessageQueues", topic)) == 4
    eventually(lambda: puller.call("maxOffset", queue_0) == 2, "both are dispatched to their queue")
    assert puller.call("minOffset", queue_0) == 0
    assert puller.call("searchOffset", queue_0, 0) == 0
    assert puller.call("viewMessage", topic, first["offsetMsgId"])["body"] == "a"
    puller.call("updateConsumeOffset", queue_0, 2)
    puller.call("persist", queue_0)
    eventually(lambda: puller.call("fetchConsumeOffset", queue_0, True) == 2, "the offset, sent one way, is stored")
