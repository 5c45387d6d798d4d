"""Test on real brokers what docs/reference/rocketmq-tools.md says of RocketMQ's own tools and a query."""

from __future__ import annotations

import pytest

from pyspark_rocketmq.model import MessageQueue, retry_topic
from pyspark_rocketmq.options import ReaderOptions
from tests.flows.world import World, fresh, until
from tests.real.servers import RealCluster
from tests.real.worlds import real_world
from tests.source.driving import Checkpoint, options_for, quick_run

pytestmark = pytest.mark.real


def committed(world: World, group: str, queue: MessageQueue) -> int | None:
    """Return the group's position in a queue."""
    return world.cluster.offsets.fetch_committed(group, [queue]).get(queue)


def query(world: World, group: str, queue: MessageQueue, **options: str) -> ReaderOptions:
    """Return the options of a query that reads the queue's topic and commits for the group."""
    return options_for(world, subscribe=queue.topic, consumerGroup=group, **options)


def test_a_reset_does_not_move_a_query(real_cluster: RealCluster) -> None:
    """`resetOffsetByTime` moves the group, but no query with a checkpoint; a new query begins at the group's position.

    The query's next commit is its own position again.
    """
    world, group, checkpoint = real_world(real_cluster), fresh("query"), Checkpoint()
    queue = world.make_queue()
    world.fill(queue, 5)
    with quick_run(query(world, group, queue), checkpoint) as run:
        assert len(run.drain()) == 5
        until(lambda: run.trigger() is None and committed(world, group, queue) == 5, "the position is committed")
    until(lambda: bool(world.route_names(retry_topic(group))), "the retry topic is routed")

    real_cluster.admin("resetOffsetByTime", "-g", group, "-t", queue.topic, "-s", "0")

    assert committed(world, group, queue) == 0
    with quick_run(query(world, group, queue, commitOffsets="none", startingOffsets="group")) as new:
        assert [row.offset for row in new.drain()] == [0, 1, 2, 3, 4]
    world.fill(queue, 2)
    with quick_run(query(world, group, queue), checkpoint) as run:
        assert [row.offset for row in run.drain()] == [5, 6]
        until(lambda: run.trigger() is None and committed(world, group, queue) == 7, "its own position is back")
