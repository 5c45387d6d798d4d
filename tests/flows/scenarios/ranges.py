"""Scenarios of the pull engine: it reads each message of a range once and in order."""

from __future__ import annotations

import pytest

from pyspark_rocketmq.errors import DataLossError, RocketMQError
from pyspark_rocketmq.model import MessageQueue, QueueRange
from pyspark_rocketmq.pull.process_queue import FlowLimits
from pyspark_rocketmq.pull.settings import PullSettings, Subscription
from pyspark_rocketmq.wire.bodies import TopicConfig
from tests.flows.reading import RecordingPolicy, offsets_of, read_all, whole
from tests.flows.world import World, until


def ranges_of_several_queues(world: World) -> None:
    """Check that each range is read from its start (included) to its end (excluded)."""
    queues = world.make_topic(3)
    for queue in queues:
        world.fill(queue, 120)
    wanted = [QueueRange(queues[0], 0, 120), QueueRange(queues[1], 30, 90), QueueRange(queues[2], 119, 120)]

    found = offsets_of(read_all(world.cluster, wanted))

    assert found == {queue: list(range(start, end)) for queue, start, end, _ in wanted}


def tags_leave_holes(world: World) -> None:
    """Check that a read by tag returns the matching messages only, across long intervals without a match."""
    queue = _striped_queue(world)

    reading = read_all(world.cluster, [whole(queue, 160)], _only("rare"))

    assert offsets_of(reading) == {queue: [*range(40, 45), *range(115, 120)]}


def sql_leaves_holes(world: World) -> None:
    """Check that a read by SQL92 returns the matching messages only, across long intervals without a match."""
    queue = _striped_queue(world)

    reading = read_all(world.cluster, [whole(queue, 160)], _only("kind = 'rare'", "SQL92"))

    assert offsets_of(reading) == {queue: [*range(40, 45), *range(115, 120)]}


def range_without_any_match(world: World) -> None:
    """Check that a range in which no message matches is read to its end without a loss."""
    queue = _striped_queue(world)

    assert offsets_of(read_all(world.cluster, [whole(queue, 160)], _only("missing"))) == {}


def narrowest_limits_still_finish(world: World) -> None:
    """Check that all messages of two queues are read with limits of one message, one MiB and an offset span of one."""
    queues = world.make_topic(2)
    for queue in queues:
        world.fill(queue, 100)
    settings = PullSettings(limits=FlowLimits(1, 1, 1), batch_size=8)

    found = offsets_of(read_all(world.cluster, [whole(queue, 100) for queue in queues], settings))

    assert found == {queue: list(range(100)) for queue in queues}


def large_messages_come_few_at_a_time(world: World) -> None:
    """Check that all messages are read although one response of a broker cannot hold them."""
    queue = world.make_queue()
    world.fill(queue, 12, size=100_000)

    assert offsets_of(read_all(world.cluster, [whole(queue, 12)])) == {queue: list(range(12))}


def queue_made_anew_went_back(world: World) -> None:
    """Check a queue that ends before the planned end: a tolerant policy records the loss, a strict one raises it."""
    queue = _remade_queue(world, was=20, holds=5)

    reading = read_all(world.cluster, [whole(queue, 20)])
    assert offsets_of(reading) == {queue: list(range(5))}
    assert reading.losses == [("ends earlier", queue, 20, 5)]

    with pytest.raises(DataLossError):
        list(read_all(world.cluster, [whole(queue, 20)], policy=RecordingPolicy(fails=True)))


def deleted_topic_ends_reading(world: World) -> None:
    """Check that reading a deleted topic raises an error that names it, after `stall_timeout_s` at the latest."""
    queue = world.make_queue()
    world.fill(queue, 10)
    world.cluster.admin.delete_topic(queue.topic)

    with pytest.raises(RocketMQError, match=queue.topic):
        list(read_all(world.cluster, [whole(queue, 10)], PullSettings(stall_timeout_s=1)))


def _striped_queue(world: World) -> MessageQueue:
    """Return a queue of 160 messages, ten of which are of the kind `rare`: the offsets 40 to 44 and 115 to 119."""
    queue = world.make_queue()
    for count, kind in ((40, "common"), (5, "rare"), (70, "common"), (5, "rare"), (40, "common")):
        world.fill(queue, count, TAGS=kind, kind=kind)
    return queue


def _only(expression: str, expression_type: str = "TAG") -> PullSettings:
    return PullSettings(subscription=Subscription(expression, expression_type))


def _remade_queue(world: World, was: int, holds: int) -> MessageQueue:
    """Fill a queue with `was` messages, delete and remake its topic, send `holds` messages; return the queue."""
    queue = world.make_queue()
    world.fill(queue, was)
    world.cluster.admin.delete_topic(queue.topic)
    until(lambda: not world.route_names(queue.topic), "the topic is gone")
    world.cluster.admin.create_topic(TopicConfig(topic_name=queue.topic, read_queue_nums=1, write_queue_nums=1))
    until(lambda: world.route_names(queue.topic), "the topic is back")
    world.fill(queue, holds)
    return queue
