"""A running consumer can subscribe to topics and unsubscribe from them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

import pytest

from broker_stub.long_polling import CHECK_INTERVAL_MS
from pyspark_rocketmq.client import Subscription
from pyspark_rocketmq.errors import LocalProtocolError, OptionError, RocketMQError
from pyspark_rocketmq.model import MessageQueue, retry_topic
from tests.client.fixtures import GROUP, QUICK, TOPIC, Group, Log, until

OTHER = "refunds"


def _topics(group: Group) -> set[str]:
    """Return the topics that brokers have as subscriptions of the group."""
    [seen] = group.cluster().groups.fetch_consumer_connections(GROUP, TOPIC).values()
    return set(seen.subscription_table)


def _expression(group: Group) -> str:
    """Return the expression that brokers have for the group's subscription of the topic."""
    [seen] = group.cluster().groups.fetch_consumer_connections(GROUP, TOPIC).values()
    return seen.subscription_table[TOPIC].sub_string


@pytest.fixture
def two_topics(make_group: Callable[..., Group]) -> Group:
    """Return a group before a broker with two topics."""
    return make_group(topics={TOPIC: 2, OTHER: 2})


@pytest.mark.parametrize("make", [Group.concurrent, Group.orderly], ids=["concurrent", "orderly"])
def test_a_topic_is_added_while_running(make: Callable[..., object], two_topics: Group) -> None:
    """After `subscribe` messages of the new topic arrive, earlier ones too, and brokers list the topic."""
    log = Log()
    consumer = make(two_topics, log)
    two_topics.stub.put(OTHER, b"before")
    consumer.subscribe(OTHER)  # type: ignore[attr-defined]
    two_topics.put("other topic")

    assert {message.topic for message in log.wait_for(2)} == {TOPIC, OTHER}
    until(lambda: _topics(two_topics) == {TOPIC, OTHER, retry_topic(GROUP)})


def test_the_first_topic_may_be_added_while_running(two_topics: Group) -> None:
    """If a consumer without subscriptions subscribes, it sends a heartbeat at once and gets the topic's messages."""
    log = Log()
    consumer = two_topics.concurrent(log, subscriptions={}, rhythm=replace(QUICK, heartbeat_s=3600))
    two_topics.put("a")
    consumer.subscribe(TOPIC)

    log.wait_for(1)


def test_a_topic_is_dropped_while_running(two_topics: Group) -> None:
    """After `unsubscribe` the topic's positions are committed and its queues given up; other topics are consumed."""
    log = Log()
    consumer = two_topics.concurrent(log, subscriptions=[TOPIC, OTHER])
    two_topics.stub.put(OTHER, b"done", queue_id=0)
    log.wait_for(1)
    consumer.unsubscribe(OTHER)
    until(lambda: all(queue.topic != OTHER for queue in consumer.queues) and consumer.queues)
    until(lambda: _topics(two_topics) == {TOPIC, retry_topic(GROUP)})

    assert two_topics.committed(OTHER)[0] == 1
    two_topics.stub.put(OTHER, b"unseen")
    two_topics.put("a")
    log.wait_for(2)
    assert log.bodies == [b"done", b"a"]


def test_the_listener_of_queues_is_told_what_was_dropped(two_topics: Group) -> None:
    """After `unsubscribe` the queue listener is called once: with the topic, its queues, and none of the member's."""
    told: list[tuple[str, int, int]] = []

    def note(topic: str, every: Collection[MessageQueue], ours: Collection[MessageQueue]) -> None:
        told.append((topic, len(every), len(ours)))

    consumer = two_topics.concurrent(Log(), subscriptions=[TOPIC, OTHER], queue_listener=note)
    until(lambda: {(TOPIC, 2, 2), (OTHER, 2, 2)} <= set(told))
    consumer.unsubscribe(OTHER)
    until(lambda: (OTHER, 2, 0) in told)
    consumer.subscribe(OTHER)
    until(lambda: told.count((OTHER, 2, 2)) == 2)
    assert told.count((OTHER, 2, 0)) == 1


def test_an_orderly_consumer_unlocks_what_it_drops(two_topics: Group) -> None:
    """After `unsubscribe` an orderly consumer releases the locks of the topic's queues."""
    consumer = two_topics.orderly(Log(), subscriptions=[TOPIC, OTHER])
    until(lambda: {queue.topic for queue in two_topics.stub.locks(GROUP)} >= {TOPIC, OTHER})
    consumer.unsubscribe(OTHER)

    until(lambda: all(queue.topic != OTHER for queue in two_topics.stub.locks(GROUP)))


def test_subscribing_again_changes_the_expression(two_topics: Group) -> None:
    """If a topic is subscribed to again, the new expression applies to all later pulls."""
    log = Log()
    consumer = two_topics.concurrent(log, tags="a")
    two_topics.put("first", tags="a", queue_id=0)
    log.wait_for(1)
    consumer.subscribe(TOPIC, "a")
    consumer.subscribe(TOPIC, Subscription("b"))
    two_topics.put("wakes the waiting pull", tags="c", queue_id=0)
    two_topics.put("wakes the waiting pull", tags="c", queue_id=1)
    until(lambda: two_topics.committed().get(0) == 2)
    two_topics.put("second", tags="b", queue_id=0)

    log.wait_for(2)
    assert log.bodies == [b"first", b"second"]


def test_a_held_pull_loses_no_message_of_the_new_expression(two_topics: Group) -> None:
    """If the broker answers a pull that it held with the new subscription, the messages reach the listener."""
    log = Log()
    consumer = two_topics.concurrent(log, tags="a")
    two_topics.put("first", tags="a", queue_id=0)
    log.wait_for(1)
    consumer.subscribe(TOPIC, "b")
    until(lambda: _expression(two_topics) == "b")
    two_topics.put("second", tags="b", queue_id=0)
    two_topics.stub.clock.advance(CHECK_INTERVAL_MS)

    log.wait_for(2)
    assert log.bodies == [b"first", b"second"]


def test_the_groups_own_retry_topic_is_refused(two_topics: Group) -> None:
    """If a consumer subscribes to its group's retry topic, whose messages no filter may drop, `subscribe` raises."""
    consumer = two_topics.concurrent(Log())
    with pytest.raises(OptionError) as refused:
        consumer.subscribe(retry_topic(GROUP), "paid")
    assert refused.value.option == "topic"


def test_a_pull_consumer_subscribes_as_well(two_topics: Group) -> None:
    """A pull consumer with subscriptions can subscribe to a topic and unsubscribe from it."""
    consumer = two_topics.pulling()
    consumer.subscribe(OTHER)
    two_topics.stub.put(OTHER, b"x")
    until(lambda: [message.body for message in consumer.poll(0.05)] == [b"x"])
    consumer.unsubscribe(OTHER)

    until(lambda: all(queue.topic != OTHER for queue in consumer.queues))


def test_a_filter_that_a_broker_refuses_changes_nothing(two_topics: Group) -> None:
    """If a broker refuses the filter, `subscribe` raises, and the consumer keeps its subscriptions."""
    consumer = two_topics.concurrent(Log())
    until(lambda: consumer.queues)
    with pytest.raises(RocketMQError, match="23"):
        consumer.subscribe(OTHER, Subscription("size >", "SQL92"))
    assert OTHER not in _topics(two_topics)


def test_what_cannot_be_subscribed_is_refused(two_topics: Group) -> None:
    """Invalid topics and filters, topics not subscribed to, and consumers that do not run raise errors."""
    consumer, given = two_topics.concurrent(Log()), two_topics.pulling(subscriptions={})
    for topic in ("a topic", "", None, 3):
        with pytest.raises(OptionError):
            consumer.subscribe(topic)  # type: ignore[arg-type]
    with pytest.raises(OptionError):
        consumer.subscribe(OTHER, 3)  # type: ignore[arg-type]
    for topic in (OTHER, retry_topic(GROUP)):
        with pytest.raises(OptionError, match="not subscribed"):
            consumer.unsubscribe(topic)
    with pytest.raises(LocalProtocolError):
        given.subscribe(OTHER)
    consumer.close()
    with pytest.raises(LocalProtocolError):
        consumer.subscribe(OTHER)
