"""Test the official push consumers on a real broker and on the stub."""

from __future__ import annotations

from typing import Any

import pytest

from tests.real.java_clients import JavaClients, JavaError, JavaObject, eventually, message, queue
from tests.real.java_fixtures import ScenarioServer

pytestmark = pytest.mark.real

LATER = {"status": "RECONSUME_LATER"}
SUSPEND = {"status": "SUSPEND_CURRENT_QUEUE_A_MOMENT", "suspendMs": 200}
DONE: dict[str, Any] = {}


def send(clients: JavaClients, topic: str, *bodies: str, **properties: str) -> None:
    """Send one message for each body, to the four queues of the topic in turn."""
    producer = clients.producer(f"{topic}_producers")
    for number, body in enumerate(bodies):
        producer.call("send", message(topic, body, **properties), queue(topic, "broker-a", number % 4))


def send_in_order(clients: JavaClients, topic: str, *bodies: str) -> None:
    """Send one message for each body to queue 0."""
    producer = clients.producer(f"{topic}_producers")
    for body in bodies:
        producer.call("send", message(topic, body), queue(topic, "broker-a", 0))


def wait_committed(server: ScenarioServer, group: str, topic: str, count: int) -> None:
    """Wait until a group has committed `count` messages; its commits are one-way, so the last may come late."""
    eventually(lambda: server.committed(group, topic) == count, f"{count} messages are committed for {group}")


def test_every_message_is_delivered_once(
    any_clients: JavaClients, java_server: ScenarioServer, topic: str, unique: str
) -> None:
    """A consumer gets every message, in order within a queue; a restarted one continues from the group's offset."""
    bodies = [f"m{n}" for n in range(20)]
    send(any_clients, topic, *bodies)

    first = any_clients.push_consumer(unique, {topic: "*"}, consumeThreadMin=1, consumeThreadMax=1)
    deliveries = first.wait_for(20)
    wait_committed(java_server, unique, topic, 20)
    first.shutdown()
    send(any_clients, topic, "after")
    second = any_clients.push_consumer(unique, {topic: "*"})

    assert sorted(first.bodies) == sorted(bodies)
    for number in range(4):
        offsets = [delivery["queueOffset"] for delivery in deliveries if delivery["queueId"] == number]
        assert offsets == [0, 1, 2, 3, 4]
    assert [delivery["body"] for delivery in second.wait_for(1)] == ["after"]


def test_new_group_at_the_end_reads_a_small_queue_whole(any_clients: JavaClients, topic: str, unique: str) -> None:
    """A new group with CONSUME_FROM_LAST_OFFSET reads a small queue from offset 0.

    The broker answers 0 for a group without offset if the queue still begins at 0 and is small.
    """
    send_in_order(any_clients, topic, "before")

    consumer = any_clients.push_consumer(unique, {topic: "*"}, consumeFromWhere="CONSUME_FROM_LAST_OFFSET")

    assert consumer.wait_for(1)[0]["body"] == "before"


def test_orderly_consumption_keeps_order_through_suspension(any_clients: JavaClients, topic: str, unique: str) -> None:
    """If an orderly listener suspends at a message, it gets the message again, with its count, before later ones."""
    send_in_order(any_clients, topic, "a", "b", "c")

    consumer = any_clients.push_consumer(unique, {topic: "*"}, {"b": [SUSPEND, SUSPEND, DONE]}, orderly=True)
    deliveries = consumer.wait_for(5)

    assert [delivery["body"] for delivery in deliveries] == ["a", "b", "b", "b", "c"]
    assert [delivery["reconsumeTimes"] for delivery in deliveries] == [0, 0, 1, 2, 0]


def test_orderly_consumption_gives_up_after_its_maximum(any_clients: JavaClients, topic: str, unique: str) -> None:
    """If an orderly listener suspends too often at a message, it becomes a dead letter and the queue continues."""
    send_in_order(any_clients, topic, "stuck", "next")
    script = {"stuck": [SUSPEND]}

    consumer = any_clients.push_consumer(unique, {topic: "*"}, script, orderly=True, maxReconsumeTimes=1)
    any_clients.wait(lambda: "next" in consumer.bodies, "the queue goes on")

    assert consumer.bodies[:2] == ["stuck", "stuck"]
    assert [dead["body"] for dead in dead_letters(any_clients, unique, 1)] == ["stuck"]


def test_broadcast_reaches_every_member(
    any_clients: JavaClients, java_server: ScenarioServer, topic: str, unique: str
) -> None:
    """In broadcasting mode each member gets all messages, and commits nothing to the broker."""
    members = [any_clients.push_consumer(unique, {topic: "*"}, messageModel="BROADCASTING") for _ in range(2)]

    send(any_clients, topic, "x", "y", "z")

    for member in members:
        member.wait_for_bodies("x", "y", "z")
    assert java_server.committed(unique, topic) == 0


def assignments(members: list[JavaObject], topic: str) -> list[set[int]]:
    """Return for each member the ids of the topic's queues that it holds."""
    return [member.held_queues(topic) for member in members]


def test_members_share_and_inherit(
    any_clients: JavaClients, java_server: ScenarioServer, topic: str, unique: str
) -> None:
    """Two members hold two queues each; after one shuts down the other holds all four, and no message is lost."""
    members = [any_clients.push_consumer(unique, {topic: "*"}) for _ in range(2)]
    eventually(lambda: sorted(map(sorted, assignments(members, topic))) == [[0, 1], [2, 3]], "the queues are shared")

    send(any_clients, topic, *"abcd")
    wait_committed(java_server, unique, topic, 4)
    members[1].shutdown()
    eventually(lambda: assignments(members[:1], topic) == [{0, 1, 2, 3}], "the other inherits")
    send(any_clients, topic, *"efgh")
    members[0].wait_for_bodies(*"efgh")

    assert set(members[0].bodies + members[1].bodies) == set("abcdefgh")
    assert set(members[1].bodies) < set("abcd")


def test_messages_of_a_killed_member_are_delivered_again(
    any_clients: JavaClients, java_server: ScenarioServer, topic: str, unique: str
) -> None:
    """If a member is killed, another one gets its unfinished messages."""
    send(any_clients, topic, *"abcd")
    with JavaClients(any_clients.version, java_server.name_server) as other:
        stuck = {body: [{"waitMs": 600_000}] for body in "abcd"}
        doomed = other.push_consumer(unique, {topic: "*"}, stuck)
        doomed.wait_for(4)
        heir = any_clients.push_consumer(unique, {topic: "*"})
        other.kill()

    heir.wait_for_bodies(*"abcd")


def test_orderly_queues_are_inherited_after_their_lease(
    any_clients: JavaClients, java_server: ScenarioServer, topic: str, unique: str
) -> None:
    """If an orderly member is killed, another one reads its queues when its locks expire, after five seconds."""
    with JavaClients(any_clients.version, java_server.name_server) as other:
        stuck = {body: [{"waitMs": 600_000}] for body in "abcd"}
        send(any_clients, topic, *"abcd")  # Sent first, so that messages are delivered as soon as queues are locked.
        doomed = other.push_consumer(unique, {topic: "*"}, stuck, orderly=True)
        held = doomed.wait_for(4)
        heir = any_clients.push_consumer(unique, {topic: "*"}, orderly=True)
        other.kill()
    heir.wait_for_bodies(*"abcd")

    assert heir.deliveries[0]["deliveredMs"] - held[0]["deliveredMs"] > 2500


def test_failed_message_comes_again_through_the_retry_topic(any_clients: JavaClients, topic: str, unique: str) -> None:
    """A failed message is delivered again with its topic and body, its count of attempts and its original id."""
    script = {"bad": [LATER, {"status": "THROW"}, {"status": "NULL"}, DONE]}
    consumer = any_clients.push_consumer(unique, {topic: "*"}, script)

    send_in_order(any_clients, topic, "bad")
    deliveries = consumer.wait_for(4)

    assert [delivery["reconsumeTimes"] for delivery in deliveries] == [0, 1, 2, 3]
    assert {delivery["topic"] for delivery in deliveries} == {topic}
    origins = {delivery["properties"].get("ORIGIN_MESSAGE_ID") for delivery in deliveries[1:]}
    assert origins == {deliveries[0]["offsetMsgId"]}
    assert all(delivery["properties"]["RETRY_TOPIC"] == topic for delivery in deliveries[1:])


def dead_letters(clients: JavaClients, group: str, count: int) -> list[dict[str, Any]]:
    """Wait until a group has `count` dead letters; return their deliveries."""
    reader = clients.push_consumer(f"{group}_dead_letters", {f"%DLQ%{group}": "*"})
    return reader.wait_for(count)


def test_hopeless_message_ends_among_the_dead_letters(any_clients: JavaClients, topic: str, unique: str) -> None:
    """If a message fails at its last attempt, it becomes a dead letter and is not delivered again."""
    consumer = any_clients.push_consumer(unique, {topic: "*"}, {"poison": [LATER]}, maxReconsumeTimes=2)

    send_in_order(any_clients, topic, "poison")
    first, *_ = consumer.wait_for(3)
    dead = dead_letters(any_clients, unique, 1)[0]

    assert consumer.bodies == ["poison"] * 3
    assert (dead["topic"], dead["body"]) == (f"%DLQ%{unique}", "poison")
    assert dead["properties"]["ORIGIN_MESSAGE_ID"] == first["offsetMsgId"]
    assert dead["properties"]["RETRY_TOPIC"] == topic


def test_listener_may_give_up_at_once(any_clients: JavaClients, topic: str, unique: str) -> None:
    """If a listener sets a delay level below 0, the message becomes a dead letter without another attempt."""
    consumer = any_clients.push_consumer(unique, {topic: "*"}, {"hopeless": [{**LATER, "delayLevel": -1}]})

    send_in_order(any_clients, topic, "hopeless")
    consumer.wait_for(1)

    assert [dead["body"] for dead in dead_letters(any_clients, unique, 1)] == ["hopeless"]
    assert consumer.bodies == ["hopeless"]


def test_listener_may_accept_the_head_of_a_batch(any_clients: JavaClients, topic: str, unique: str) -> None:
    """If a listener sets ackIndex 1 for a batch of four, the third and fourth message are delivered again."""
    producer = any_clients.producer(f"{unique}_producers")
    producer.call("send", [message(topic, body) for body in "abcd"])

    consumer = any_clients.push_consumer(
        unique, {topic: "*"}, {"a": [{"ackIndex": 1}]}, consumeMessageBatchMaxSize=4, pullBatchSize=32
    )
    deliveries = consumer.wait_for(6)

    assert [delivery["body"] for delivery in deliveries[:4]] == list("abcd")
    assert {delivery["batchSize"] for delivery in deliveries[:4]} == {4}
    assert sorted(delivery["body"] for delivery in deliveries[4:]) == ["c", "d"]
    assert {delivery["reconsumeTimes"] for delivery in deliveries[4:]} == {1}


def test_tags_select(any_clients: JavaClients, topic: str, unique: str) -> None:
    """A consumer that subscribes to two tags gets only messages with one of them."""
    for tag in ("red", "blue", "green"):
        send(any_clients, topic, f"1 {tag}", f"2 {tag}", TAGS=tag)
    send(any_clients, topic, "untagged")

    consumer = any_clients.push_consumer(unique, {topic: "red || green"})
    send(any_clients, topic, "last", TAGS="red")
    any_clients.wait(lambda: "last" in consumer.bodies and len(consumer.bodies) >= 5, "the last one is delivered")

    assert sorted(consumer.bodies) == ["1 green", "1 red", "2 green", "2 red", "last"]


def test_sql_selects(any_clients: JavaClients, topic: str, unique: str) -> None:
    """A consumer that subscribes with SQL92 gets only messages whose properties meet the condition."""
    for price, colour in ((3, "red"), (7, "red"), (9, "blue"), (12, "red")):
        send(any_clients, topic, f"{price} {colour}", price=str(price), colour=colour)
    expression = "price BETWEEN 5 AND 20 AND colour = 'red' AND missing IS NULL"

    consumer = any_clients.push_consumer(unique, {topic: {"sql": expression}})
    consumer.wait_for(2)
    send(any_clients, topic, "19 red", price="19", colour="red")
    consumer.wait_for(3)

    assert sorted(consumer.bodies) == ["12 red", "19 red", "7 red"]


def test_broken_sql_is_refused_at_start(clients: JavaClients, topic: str, unique: str) -> None:
    """If a subscription's SQL92 is invalid, the consumer fails at its start with code 23."""
    with pytest.raises(JavaError) as refused:
        clients.push_consumer(unique, {topic: {"sql": "price >"}})

    assert refused.value.code == 23
