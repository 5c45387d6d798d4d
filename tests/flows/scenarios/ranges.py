"""Scenarios of the pull engine: each message of a range is read once and in order."""

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
    """Read each range from its start to before its end."""
    queues = world.make_topic(3)
    for queue in queues:
        world.fill(queue, 120)
    wanted = [QueueRange(queues[0], 0, 120), QueueRange(queues[1], 30, 90), QueueRange(queues[2], 119, 120)]

    found = offsets_of(read_all(world.cluster, wanted))

    assert found == {queue: list(range(start, end)) for queue, start, end, _ in wanted}


def tags_leave_holes(world: World) -> None:
    """Read by tag; long stretches without a match are skipped."""
    queue = _striped_queue(world)

    reading = read_all(world.cluster, [whole(queue, 160)], _only("rare"))

    assert offsets_of(reading) == {queue: [*range(40, 45), *range(115, 120)]}


def sql_leaves_holes(world: World) -> None:
    """Read by SQL92; long stretches without a match are skipped."""
    queue = _striped_queue(world)

    reading = read_all(world.cluster, [whole(queue, 160)], _only("kind = 'rare'", "SQL92"))

    assert offsets_of(reading) == {queue: [*range(40, 45), *range(115, 120)]}


def range_without_any_match(world: World) -> None:
    """Read a range in which nothing matches."""
    queue = _striped_queue(world)

    assert offsets_of(read_all(world.cluster, [whole(queue, 160)], _only("missing"))) == {}


def narrowest_limits_still_finish(world: World) -> None:
    """Read two queues with limits of one message, one mebibyte and a span of one."""
    queues = world.make_topic(2)
    for queue in queues:
        world.fill(queue, 100)
    settings = PullSettings(limits=FlowLimits(1, 1, 1), batch_size=8)

    found = offsets_of(read_all(world.cluster, [whole(queue, 100) for queue in queues], settings))

    assert found == {queue: list(range(100)) for queue in queues}


def large_messages_come_few_at_a_time(world: World) -> None:
    """Read messages that exceed a broker's bytes per response."""
    queue = world.make_queue()
    world.fill(queue, 12, size=100_000)

    assert offsets_of(read_all(world.cluster, [whole(queue, 12)])) == {queue: list(range(12))}


def queue_made_anew_went_back(world: World) -> None:
    """Read a queue that ends before the planned end; the policy decides whether that is an error."""
    queue = _remade_queue(world, was=20, holds=5)

    reading = read_all(world.cluster, [whole(queue, 20)])
    assert offsets_of(reading) == {queue: list(range(5))}
    assert reading.losses == [("ends earlier", queue, 20, 5)]

    with pytest.raises(DataLossError):
        list(read_all(world.cluster, [whole(queue, 20)], policy=RecordingPolicy(fails=True)))


def deleted_topic_ends_reading(world: World) -> None:
    """Read a deleted topic: the error names it, and reading ends in time."""
    queue = world.make_queue()
    world.fill(queue, 10)
    world.cluster.admin.delete_topic(queue.topic)

    with pytest.raises(RocketMQError, match=queue.topic):
        list(read_all(world.cluster, [whole(queue, 10)], PullSettings(stall_timeout_s=1)))


def _striped_queue(world: World) -> MessageQueue:
    """Return a queue of ten rare messages among a hundred and fifty common ones."""
    queue = world.make_queue()
    for count, kind in ((40, "common"), (5, "rare"), (70, "common"), (5, "rare"), (40, "common")):
        world.fill(queue, count, TAGS=kind, kind=kind)
    return queue


def _only(expression: str, expression_type: str = "TAG") -> PullSettings:
    return PullSettings(subscription=Subscription(expression, expression_type))


def _remade_queue(world: World, was: int, holds: int) -> MessageQueue:
    """Return a queue that held more messages before its topic was deleted and made anew."""
    queue = world.make_queue()
    world.fill(queue, was)
    world.cluster.admin.delete_topic(queue.topic)
    until(lambda: not world.route_names(queue.topic), "the topic is gone")
    world.cluster.admin.create_topic(TopicConfig(topic_name=queue.topic, read_queue_nums=1, write_queue_nums=1))
    until(lambda: world.route_names(queue.topic), "the topic is back")
    world.fill(queue, holds)
    return queue
