"""Where queries and groups stand after real brokers lost messages, forgot positions, or raised minima late."""

from __future__ import annotations

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
"""Files of a megabyte, looked at as often as brokers do by themselves."""
_DELETE_EXPIRED_COMMIT_LOG = 329


def reading(world: World, queue: MessageQueue, group: str, **given: str) -> ReaderOptions:
    """Options of a query that publishes for a group and lives with losses."""
    raw = {"subscribe": queue.topic, "consumerGroup": group, "failOnDataLoss": "false"}
    return options_for(world, **{**raw, **given})


def make_anew(cluster: RealCluster, queue: MessageQueue, count: int) -> None:
    """Delete a topic and make it again, with so many messages."""
    world = real_world(cluster)
    world.cluster.admin.delete_topic(queue.topic)
    until(lambda: cluster.broker.max_offset(queue.topic, 0) == 0, "the queue is gone")
    world.cluster.admin.create_topic(TopicConfig(topic_name=queue.topic, read_queue_nums=1, write_queue_nums=1))
    until(lambda: bool(world.route_names(queue.topic)), "the topic is routed again")
    world.fill(queue, count)


def committed(cluster: RealCluster, queue: MessageQueue, group: str) -> int | None:
    """Where the group stands."""
    return real_world(cluster).cluster.offsets.fetch_committed(group, [queue]).get(queue)


def run_until(run: Run, cluster: RealCluster, queue: MessageQueue, group: str, offset: int) -> None:
    """Trigger until the group stands there."""
    until(lambda: run.trigger() is None and committed(cluster, queue, group) == offset, f"the group is at {offset}")


def test_the_position_follows_a_query_down_after_a_loss(real_cluster: RealCluster) -> None:
    """A topic that was made anew ends before what was published."""
    world = real_world(real_cluster)
    queue, group = world.make_queue(), world.make_group()
    world.fill(queue, 40)
    with Run(reading(world, queue, group)) as run:
        run.read_until(40)
        run_until(run, real_cluster, queue, group, 40)
        make_anew(real_cluster, queue, 25)
        until(lambda: run.trigger() == [], "the loss is judged")
        world.fill(queue, 5)
        assert [row.offset for row in run.read_until(5)] == list(range(25, 30))
        run_until(run, real_cluster, queue, group, 30)


def test_a_position_may_outlive_its_queue(real_cluster: RealCluster) -> None:
    """Brokers before 5 keep positions of topics that are deleted; a member goes on at the checkpoint's then."""
    world = real_world(real_cluster)
    queue, group = world.make_queue(), world.make_group()
    shared = reading(world, queue, group, groupMembership="shared", startingOffsets="group", rebalanceInterval="1s")
    world.fill(queue, 15)
    checkpoint = Checkpoint()
    with Run(shared, checkpoint) as run:
        run.read_until(15)
        run_until(run, real_cluster, queue, group, 15)
    world.cluster.offsets.commit(group, {queue: 40})
    make_anew(real_cluster, queue, 25)
    assert committed(real_cluster, queue, group) == world.by_version({"4.9": 40, "5.": None})
    with Run(shared, checkpoint) as run:
        assert [row.offset for row in run.read_until(10)] == list(range(15, 25))


def test_a_broker_that_was_killed_is_told_again_though_nothing_is_new(real_cluster: RealCluster) -> None:
    """By a query that looks again once a minute, here every second, and is not even triggered."""
    world, broker = real_world(real_cluster), real_cluster.broker
    queue, group = world.make_queue(), world.make_group()
    with Run(reading(world, queue, group), rhythm=PlannerRhythm(commit_check_s=1.0)) as run:
        world.fill(queue, 10)
        run.read_until(10)
        run_until(run, real_cluster, queue, group, 10)
        until(lambda: has_written(broker, queue.topic, group, 10), "the broker has written that down")
        world.fill(queue, 5)
        run.read_until(5)
        run_until(run, real_cluster, queue, group, 15)
        broker.kill()
        assert has_written(broker, queue.topic, group, 10)
        broker.start()
        until(lambda: committed(real_cluster, queue, group) == 15, "15 is published again")


def lose_first_file(broker: Broker) -> None:
    """Have retention take the first file of the commit log, which brokers do not do in their first minute."""
    first = Path(broker.home) / "store" / "commitlog" / f"{0:020d}"
    broker.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"fileReservedTime=0")
    broker.ask(_DELETE_EXPIRED_COMMIT_LOG)
    wait_until(lambda: not first.exists(), "the first file is gone", EXPIRE_SECONDS)


@pytest.mark.slow
def test_earliest_is_what_can_be_read(real_clusters: ClusterKeeper) -> None:
    """Also while the queue's minimum lags behind what retention took: no row of the plan is missing."""
    cluster = real_clusters.cluster(options=SMALL_FILES)
    world = real_world(cluster)
    queue = world.make_queue()
    for _ in range(30):
        world.fill(queue, 100, size=1800)
    lose_first_file(cluster.broker)
    options = options_for(world, subscribe=queue.topic)
    with Run(options) as run:
        assert run.plan()
        [planned] = [each for task in run.partitions() for each in task.ranges]
        assert planned.is_front_open and planned.start > 0
        assert [row.offset for row in run.read()][-1:] == [planned.end - 1]
    assert world.read(queue, planned.start)[0].queue_offset == planned.start
