"""Test changes of official push consumers while they run, and their less common settings."""

from __future__ import annotations

import pytest

from tests.real.java_clients import JavaClients, Json, eventually, message, queue
from tests.real.java_fixtures import ScenarioServer

pytestmark = pytest.mark.real


def send_in_order(clients: JavaClients, topic: str, *bodies: str, **properties: str) -> None:
    """Send one message for each body to queue 0."""
    producer = clients.producer(f"{topic}_producers")
    for body in bodies:
        producer.call("send", message(topic, body, **properties), queue(topic, "broker-a", 0))


def test_suspended_consumer_rests(any_clients: JavaClients, single_queue_topic: str, unique: str) -> None:
    """A suspended consumer gets no message, except from the pull in flight, until it is resumed."""
    consumer, other = (any_clients.push_consumer(f"{unique}_{n}", {single_queue_topic: "*"}) for n in range(2))
    send_in_order(any_clients, single_queue_topic, "before")
    consumer.wait_for_bodies("before")

    consumer.call("suspend")
    for body in ("under way", "next", "last"):
        send_in_order(any_clients, single_queue_topic, body)
        other.wait_for_bodies(body)
    while_suspended = consumer.bodies
    consumer.call("resume")

    assert "last" not in while_suspended
    consumer.wait_for_bodies("under way", "next", "last")


def test_topics_are_taken_up_and_given_up(
    any_clients: JavaClients, java_server: ScenarioServer, topic: str, single_queue_topic: str, unique: str
) -> None:
    """A running consumer that subscribes to a second topic gets its messages; after it unsubscribes it gets none."""
    consumer = any_clients.push_consumer(unique, {topic: "*"})
    consumer.call("subscribe", single_queue_topic, "*")
    send_in_order(any_clients, single_queue_topic, "second topic")
    consumer.wait_for_bodies("second topic")

    consumer.call("unsubscribe", topic)
    eventually(lambda: consumer.held_queues(topic) == set(), "the first topic's queues are given up")
    send_in_order(any_clients, topic, "unwanted")
    send_in_order(any_clients, single_queue_topic, "wanted")
    consumer.wait_for_bodies("wanted")

    assert "unwanted" not in consumer.bodies
    assert consumer.held_queues(single_queue_topic) == {0}


def test_changed_subscription_counts_from_here_on(
    any_clients: JavaClients, single_queue_topic: str, unique: str
) -> None:
    """If a running consumer changes its tags, they apply to later messages only.

    The pull in flight is still filtered by the old tags, so the test ends that pull by a message first.
    """
    consumer = any_clients.push_consumer(unique, {single_queue_topic: "red"})
    send_in_order(any_clients, single_queue_topic, "blue before", TAGS="blue")
    send_in_order(any_clients, single_queue_topic, "red", TAGS="red")
    consumer.wait_for_bodies("red")

    consumer.call("subscribe", single_queue_topic, "red || blue")
    eventually(
        lambda: _subscribed(any_clients, unique, single_queue_topic) == "red || blue",
        "the broker has the new subscription",
    )
    send_in_order(any_clients, single_queue_topic, "red again", TAGS="red")
    consumer.wait_for_bodies("red again")
    send_in_order(any_clients, single_queue_topic, "blue after", TAGS="blue")
    consumer.wait_for_bodies("blue after")

    assert "blue before" not in consumer.bodies


def _subscribed(clients: JavaClients, group: str, topic: str) -> object:
    return clients.admin().call("examineConsumerConnectionInfo", group)["subscriptionTable"][topic]["subString"]


@pytest.mark.parametrize("place", ["CONSUME_FROM_FIRST_OFFSET", "CONSUME_FROM_LAST_OFFSET", "CONSUME_FROM_TIMESTAMP"])
def test_new_group_reads_a_young_queue_from_its_beginning(
    any_clients: JavaClients, topic: str, unique: str, place: str
) -> None:
    """If a queue still begins at offset 0, a new group starts at 0, whatever its `consumeFromWhere` says."""
    send_in_order(any_clients, topic, "before")

    consumer = any_clients.push_consumer(
        unique, {topic: "*"}, consumeFromWhere=place, consumeTimestamp="20380101000000"
    )

    consumer.wait_for_bodies("before")


def test_narrow_thresholds_let_everything_through(
    any_clients: JavaClients, single_queue_topic: str, unique: str
) -> None:
    """A consumer whose flow control allows one message at a time receives all messages in order."""
    bodies = [f"m{n}" for n in range(6)]
    send_in_order(any_clients, single_queue_topic, *bodies)
    narrow: Json = {"pullBatchSize": 1, "pullThresholdForQueue": 1, "consumeConcurrentlyMaxSpan": 1, "pullInterval": 5}

    consumer = any_clients.push_consumer(
        unique, {single_queue_topic: "*"}, consumeThreadMin=1, consumeThreadMax=1, **narrow
    )

    assert [delivery["body"] for delivery in consumer.wait_for(6)] == bodies


def test_strategy_decides_the_assignment(any_clients: JavaClients, topic: str, unique: str) -> None:
    """With the circular allocation strategy each of two members holds every second queue."""
    circle = "AllocateMessageQueueAveragelyByCircle"
    members = [any_clients.push_consumer(unique, {topic: "*"}, allocateMessageQueueStrategy=circle) for _ in range(2)]

    def assignments() -> list[list[int]]:
        return sorted(sorted(member.held_queues(topic)) for member in members)

    eventually(lambda: assignments() == [[0, 2], [1, 3]], "each has every second queue")


@pytest.mark.parametrize("mode", ["PULL", "POP"])
def test_broker_may_be_asked_for_the_assignment(
    clients: JavaClients, java_server: ScenarioServer, topic: str, unique: str, mode: str
) -> None:
    """If the broker assigns the queues, a consumer gets every message, whether it pulls or pops."""
    admin = clients.admin()
    admin.call("createAndUpdateSubscriptionGroupConfig", str(java_server.broker), {"groupName": unique})
    admin.call("setMessageRequestMode", str(java_server.broker), topic, unique, mode, 0, 5000)

    consumer = clients.push_consumer(unique, {topic: "*"}, clientRebalance=False)
    eventually(lambda: consumer.held_queues(topic) or mode == "POP", "the consumer has its queues")
    send_in_order(clients, topic, "a", "b")

    consumer.wait_for_bodies("a", "b")


def test_trace_tells_of_the_consumption(any_clients: JavaClients, topic: str, unique: str) -> None:
    """If message trace is on, a consumer records its deliveries and their results in the trace topic."""
    tracer = any_clients.create(
        "client.consumer.DefaultMQPushConsumer", unique, True, None, consumeFromWhere="CONSUME_FROM_FIRST_OFFSET"
    )
    tracer.call("subscribe", topic, "*")
    tracer.listen({})
    tracer.start()
    reader = any_clients.push_consumer(f"{unique}_readers", {"RMQ_SYS_TRACE_TOPIC": "*"})

    send_in_order(any_clients, topic, "watched")
    message_id = tracer.wait_for(1)[0]["msgId"]

    def is_traced(what: str) -> bool:
        return any(what in body and message_id in body for body in reader.bodies)

    any_clients.wait(lambda: is_traced("SubBefore") and is_traced("SubAfter"), "the consumption is traced")
