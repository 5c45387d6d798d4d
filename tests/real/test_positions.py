"""Test positions of queries and groups after real brokers lost messages or offsets, or raised a minimum late."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from pyspark_rocketmq.model import MessageQueue
from pyspark_rocketmq.options import ReaderOptions
from pyspark_rocketmq.source.rhythm import PlannerRhythm
from pyspark_rocketmq.wire.bodies import TopicConfig
from pyspark_rocketmq.wire.codes import RequestCode
from tests.flows.world import World, until
from tests.real.fixtures import ClusterKeeper, both_profiles
from tests.real.servers import EXPIRE_SECONDS, Broker, RealCluster, wait_until
from tests.real.test_failover import has_written
from tests.real.worlds import real_world
from tests.source.driving import Checkpoint, Run, options_for

pytestmark = [pytest.mark.real, both_profiles]

SMALL_FILES = {"mappedFileSizeCommitLog": "1048576", "cleanResourceInterval": "10000"}
"""Broker options: commit log files of a megabyte, checked for expiry at RocketMQ's own interval."""
_DELETE_EXPIRED_COMMIT_LOG = 329


def options_of(world: World, queue: MessageQueue, group: str, **given: str) -> ReaderOptions:
    """Return the options of a query that commits for a group and tolerates losses."""
    raw = {"subscribe": queue.topic, "consumerGroup": group, "failOnDataLoss": "false"}
    return options_for(world, **{**raw, **given})


def remake_topic(cluster: RealCluster, queue: MessageQueue, count: int) -> None:
    """Delete the topic of a queue, create it again, and send `count` messages to it."""
    world = real_world(cluster)
    world.cluster.admin.delete_topic(queue.topic)
    until(lambda: cluster.broker.max_offset(queue.topic, 0) == 0, "the queue is gone")
    world.cluster.admin.create_topic(TopicConfig(topic_name=queue.topic, read_queue_nums=1, write_queue_nums=1))
    until(lambda: bool(world.route_names(queue.topic)), "the topic is routed again")
    world.fill(queue, count)


def committed(cluster: RealCluster, queue: MessageQueue, group: str) -> int | None:
    """Return the group's committed offset in the queue, or None."""
    return real_world(cluster).cluster.offsets.fetch_committed(group, [queue]).get(queue)


def run_until(run: Run, cluster: RealCluster, queue: MessageQueue, group: str, offset: int) -> None:
    """Run triggers of the query until the group's committed offset is `offset`."""
    until(lambda: run.trigger() is None and committed(cluster, queue, group) == offset, f"the group is at {offset}")


def test_the_position_follows_a_query_down_after_a_loss(real_cluster: RealCluster) -> None:
    """If a remade topic ends before the group's offset, the query tolerates the loss and commits lower offsets."""
    world = real_world(real_cluster)
    queue, group = world.make_queue(), world.make_group()
    world.fill(queue, 40)
    with Run(options_of(world, queue, group)) as run:
        run.read_until(40)
        run_until(run, real_cluster, queue, group, 40)
        remake_topic(real_cluster, queue, 25)
        until(lambda: run.trigger() == [], "the loss is judged")
        world.fill(queue, 5)
        assert [row.offset for row in run.read_until(5)] == list(range(25, 30))
        run_until(run, real_cluster, queue, group, 30)


def test_a_position_may_outlive_its_queue(real_cluster: RealCluster) -> None:
    """A member reads from its checkpoint, although brokers before 5 keep the offset of a deleted topic."""
    world = real_world(real_cluster)
    queue, group = world.make_queue(), world.make_group()
    shared = options_of(world, queue, group, groupMembership="shared", startingOffsets="group", rebalanceInterval="1s")
    world.fill(queue, 15)
    checkpoint = Checkpoint()
    with Run(shared, checkpoint) as run:
        run.read_until(15)
        run_until(run, real_cluster, queue, group, 15)
    world.cluster.offsets.commit(group, {queue: 40})
    remake_topic(real_cluster, queue, 25)
    assert committed(real_cluster, queue, group) == world.by_version({"4.9": 40, "5.": None})
    with Run(shared, checkpoint) as run:
        assert [row.offset for row in run.read_until(10)] == list(range(15, 25))


def test_a_lost_commit_is_repeated_by_an_idle_query(real_cluster: RealCluster) -> None:
    """If a broker loses a committed offset, an idle query notices it at its next check and commits again."""
    world, broker = real_world(real_cluster), real_cluster.broker
    queue, group = world.make_queue(), world.make_group()
    with Run(options_of(world, queue, group), rhythm=PlannerRhythm(commit_check_s=1.0)) as run:
        world.fill(queue, 10)
        run.read_until(10)
        run_until(run, real_cluster, queue, group, 10)
        until(lambda: has_written(broker, queue.topic, group, 10), "the broker has saved that")
        world.fill(queue, 5)
        run.read_until(5)
        run_until(run, real_cluster, queue, group, 15)
        broker.kill()
        assert has_written(broker, queue.topic, group, 10)
        broker.start()
        until(lambda: committed(real_cluster, queue, group) == 15, "15 is committed again")


def delete_oldest_files(broker: Broker) -> None:
    """Let retention delete the oldest files of the commit log; wait for it, which takes a minute or more."""
    log = Path(broker.home) / "store" / "commitlog"
    broker.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"fileReservedTime=0")
    broker.ask(_DELETE_EXPIRED_COMMIT_LOG)
    wait_until(lambda: not (log / f"{0:020d}").exists(), "the first file is gone", EXPIRE_SECONDS)
    before: list[str] = []
    while (left := sorted(os.listdir(log))) != before:
        before = left
        time.sleep(1)
    broker.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"fileReservedTime=72")


@pytest.mark.slow
def test_earliest_is_what_can_be_read(real_clusters: ClusterKeeper) -> None:
    """With `earliest` a plan begins at the first message that can be read, although the minimum is still lower."""
    cluster = real_clusters.cluster(options=SMALL_FILES)
    world = real_world(cluster)
    queues = [world.make_queue() for _ in range(2)]
    for _ in range(30):
        world.fill(queues[0], 100, size=1800)
        world.fill(queues[1], 30, size=900)
    delete_oldest_files(cluster.broker)
    with Run(options_for(world, subscribe=",".join(queue.topic for queue in queues))) as run:
        assert run.plan()
        planned = {each.queue: each for task in run.partitions() for each in task.ranges}
        rows = run.read()
    starts = {queue: planned[queue].start for queue in queues}
    assert all(each.is_front_open for each in planned.values())
    for queue, start in starts.items():
        assert [row.offset for row in rows if row.queue == queue] == list(range(start, planned[queue].end))
    until(lambda: world.cluster.offsets.fetch_min(queues) == starts, "the minimum is raised to where the plan begins")
