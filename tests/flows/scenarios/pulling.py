"""Scenarios of a single pull: at offsets with and without messages, with filters, and as a long poll."""

from __future__ import annotations

import pytest

from pyspark_rocketmq.broker_errors import SubscriptionParseFailed, TopicNotExist
from pyspark_rocketmq.cluster.servers import request_fields
from pyspark_rocketmq.model import MessageQueue
from pyspark_rocketmq.net.connection import Connection
from pyspark_rocketmq.net.deadline import Deadline
from pyspark_rocketmq.net.pool import pool_for
from pyspark_rocketmq.pull.port import PullOutcome, PullStatus
from pyspark_rocketmq.pull.remoting import read_outcome
from pyspark_rocketmq.wire.commands import GetMaxOffsetRequestHeader
from pyspark_rocketmq.wire.record import decode_records
from tests.flows.world import WAIT_TIMEOUT_S, World, now_ms, pull_request


def messages_are_found(world: World) -> None:
    """Check that a pull returns the requested number of messages, the bounds and the next offset."""
    queue = world.make_queue()
    world.fill(queue, 10)

    outcome = world.pull(queue, 2, count=4)

    assert outcome.status is PullStatus.FOUND
    assert [record.queue_offset for record in decode_records(outcome.body)] == [2, 3, 4, 5]
    assert (outcome.next_offset, outcome.min_offset, outcome.max_offset) == (6, 0, 10)


def nothing_new_at_the_end(world: World) -> None:
    """Check that a pull at the end of an empty or a full queue returns NO_NEW and the same offset."""
    empty, full = world.make_topic(2)
    world.fill(full, 3)

    at_start, at_end = world.pull(empty, 0), world.pull(full, 3)

    assert (at_start.status, at_start.next_offset, at_start.max_offset) == (PullStatus.NO_NEW, 0, 0)
    assert (at_end.status, at_end.next_offset, at_end.max_offset) == (PullStatus.NO_NEW, 3, 3)


def no_match_by_tag_goes_on_behind(world: World) -> None:
    """Check that a pull whose tag matches nothing returns NO_MATCH and the offset after the messages it compared."""
    queue = world.make_queue()
    world.fill(queue, 10, TAGS="red")

    outcome = world.pull(queue, expression="blue")

    assert (outcome.status, outcome.next_offset) == (PullStatus.NO_MATCH, 10)


def tags_select(world: World) -> None:
    """Check that a pull by one tag, or by several, returns only the messages that have one of them."""
    queue = world.make_queue()
    for tag in ("red", "blue", "green", "red"):
        world.send(queue, tag.encode(), TAGS=tag)

    assert [record.queue_offset for record in world.read(queue, expression="red")] == [0, 3]
    assert [record.queue_offset for record in world.read(queue, expression="green || blue")] == [1, 2]


def sql_selects(world: World) -> None:
    """Check that a pull by an SQL92 condition returns the messages that meet it; one without the property does not."""
    queue = world.make_queue()
    for weight in ("1", "5", "9"):
        world.send(queue, b"x", weight=weight)
    world.send(queue)

    heavy = world.read(queue, expression="weight > 4", expression_type="SQL92")
    light = world.read(queue, expression="weight BETWEEN 0 AND 2", expression_type="SQL92")

    assert [record.queue_offset for record in heavy] == [1, 2]
    assert [record.queue_offset for record in light] == [0]


def no_match_by_sql_goes_on_behind(world: World) -> None:
    """Check that a pull whose SQL92 matches nothing returns NO_MATCH and the offset after the compared messages."""
    queue = world.make_queue()
    world.fill(queue, 5, weight="1")

    outcome = world.pull(queue, expression="weight > 4", expression_type="SQL92")

    assert (outcome.status, outcome.next_offset) == (PullStatus.NO_MATCH, 5)


def sql_that_means_nothing_selects_all(world: World) -> None:
    """Check that a broker ignores an invalid SQL92 expression in a pull and returns all messages."""
    queue = world.make_queue()
    world.fill(queue, 2, weight="1")

    assert len(world.read(queue, expression="weight >", expression_type="SQL92")) == 2


def empty_sql_is_refused(world: World) -> None:
    """Check that a broker refuses an empty SQL92 expression; the error names topic and queue."""
    queue = world.make_queue()

    with pytest.raises(SubscriptionParseFailed, match=rf"topic {queue.topic}.*queue 0"):
        world.pull(queue, expression="", expression_type="SQL92")


def pull_above_the_end_is_sent_back(world: World) -> None:
    """Check that a pull above the end returns OFFSET_MOVED, the bounds, and 0 or the end as next offset."""
    queue = world.make_queue()
    world.fill(queue, 5)

    outcome = world.pull(queue, 100)

    assert (outcome.status, outcome.min_offset, outcome.max_offset) == (PullStatus.OFFSET_MOVED, 0, 5)
    assert outcome.next_offset in (0, 5)


def held_pull_is_woken(world: World) -> None:
    """Check that the arrival of a message ends a long poll, and that the response contains it."""
    queue = world.make_queue()

    with pool_for(world.settings.net).connection(world.master(queue)) as connection:
        _send_waiting_pull(world, connection, queue, wait_ms=60_000)
        world.send(queue, b"wake up")
        outcome = _next_outcome(connection)

    assert [record.body for record in decode_records(outcome.body)] == [b"wake up"]


def held_pull_ends_in_time(world: World) -> None:
    """Check that a long poll without a new message is answered with NO_NEW, and not before its time is over."""
    queue, started = world.make_queue(), now_ms()

    with pool_for(world.settings.net).connection(world.master(queue)) as connection:
        _send_waiting_pull(world, connection, queue, wait_ms=500)
        outcome = _next_outcome(connection)

    assert (outcome.status, outcome.next_offset) == (PullStatus.NO_NEW, 0)
    assert now_ms() - started >= 500


def _send_waiting_pull(world: World, connection: Connection, queue: MessageQueue, wait_ms: int) -> None:
    """Send a long poll and then another request; return when the second is answered, so the broker has both."""
    pull = pull_request(queue, 0, wait_ms=wait_ms).header
    connection.submit(pull.code, request_fields(world.settings, pull))
    request = GetMaxOffsetRequestHeader(topic=queue.topic, queue_id=queue.queue_id)
    connection.call(request.code, request_fields(world.settings, request))


def _next_outcome(connection: Connection) -> PullOutcome:
    return read_outcome(connection.next_reply(Deadline.after(WAIT_TIMEOUT_S)).command)


def topic_the_broker_lacks_is_named(world: World) -> None:
    """Check that a pull of a topic that the broker has deleted is an error that names topic and broker."""
    queue = world.make_queue()
    request = world.cluster.brokers.locate(pull_request(queue, 0))
    world.cluster.admin.delete_topic(queue.topic)

    with pytest.raises(TopicNotExist, match=rf"topic {queue.topic}, broker {queue.broker_name}"):
        world.cluster.brokers.servers.ask(request)


def queues_are_apart(world: World) -> None:
    """Check that each queue of a topic numbers its messages separately."""
    first, second = world.make_topic(2)
    world.fill(first, 3)
    world.fill(second, 2)

    assert len(world.read(first)) == 3
    assert len(world.read(second)) == 2
