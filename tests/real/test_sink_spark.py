"""Run the flows of DataFrames that are written to topics on real brokers of every version, also when processes die."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pyspark_rocketmq.cluster.names import Namespace
from tests.real.fixtures import ClusterKeeper, both_profiles, slow_by_default
from tests.real.servers import RealCluster
from tests.real.worlds import real_world
from tests.spark.killed_writer import Kill
from tests.spark.sink_kills import (
    FIXED,
    LOCAL,
    MANY_KEYS,
    Schedule,
    Written,
    draw_schedule,
    real_disturbances,
    run_schedule,
)
from tests.spark.sink_rows import SHAPES, check_deduplicated, read_topic
from tests.spark.test_sink_flows import CLOSED, EVERYWHERE, GUARDED, TWO_BROKERS, Flow, each_of
from tests.spark.test_sink_kills import SEEDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.real, pytest.mark.spark]


@slow_by_default
@each_of(EVERYWHERE)
def test_one_broker(spark: SparkSession, real_cluster: RealCluster, tmp_path: Path, flow: Flow) -> None:
    """Each flow for one broker passes on a real one."""
    flow(spark, real_world(real_cluster), tmp_path)


@pytest.mark.slow
@both_profiles
@each_of(TWO_BROKERS)
def test_two_brokers(spark: SparkSession, real_two_brokers: RealCluster, tmp_path: Path, flow: Flow) -> None:
    """Each flow in which one of two brokers stops passes on real servers."""
    flow(spark, real_world(real_two_brokers), tmp_path)


@pytest.mark.slow
@each_of(CLOSED)
def test_no_topics_are_made(spark: SparkSession, real_clusters: ClusterKeeper, tmp_path: Path, flow: Flow) -> None:
    """Each flow for a cluster that creates no topics passes on a real one."""
    flow(spark, real_world(real_clusters.cluster(options={"autoCreateTopicEnable": "false"})), tmp_path)


@pytest.mark.slow
@each_of(GUARDED)
def test_access_control(spark: SparkSession, real_acl: RealCluster, tmp_path: Path, flow: Flow) -> None:
    """Flows pass with the release's own access control."""
    flow(spark, real_world(real_acl), tmp_path)


@pytest.mark.slow
@each_of(GUARDED)
def test_tls(spark: SparkSession, real_tls: RealCluster, tmp_path: Path, flow: Flow) -> None:
    """Flows pass on servers that speak TLS only."""
    flow(spark, real_world(real_tls), tmp_path)


@pytest.mark.slow
@each_of(GUARDED)
def test_namespace(spark: SparkSession, real_cluster: RealCluster, tmp_path: Path, flow: Flow) -> None:
    """Flows pass for a user with a namespace."""
    world = real_world(real_cluster)
    flow(spark, replace(world, options={**world.options, "namespace": Namespace("tenant")}), tmp_path)


def run_on(cluster: RealCluster, folder: Path, schedule: Schedule) -> Written:
    """Run a schedule on a real cluster; return what the query wrote."""
    return run_schedule(real_world(cluster), real_disturbances(cluster), folder, schedule)


@pytest.mark.slow
@pytest.mark.parametrize("schedule", FIXED, ids=str)
def test_kills(spark: SparkSession, real_cluster: RealCluster, tmp_path: Path, schedule: Schedule) -> None:
    """After kills nothing is missing, and a reader that drops repeated message ids reads exactly the input."""
    written = run_on(real_cluster, tmp_path, schedule)
    assert written.repeats > 0
    if schedule.shape.repeats_ids:
        check_deduplicated(spark, real_world(real_cluster), written.wanted, tmp_path)


@pytest.mark.slow
def test_a_failed_task_keeps_the_order(real_cluster: RealCluster, tmp_path: Path) -> None:
    """If a task fails in the middle, because a broker stands still, rows of a key are in order all the same."""
    shape = replace(SHAPES["keys"], options={"ordering": "key", "retryTimesWhenSendFailed": "0"})
    schedule = Schedule(-13, LOCAL, shape, (Kill("frozen", "some", 1),))
    run_on(real_cluster, tmp_path, schedule)
    assert "SINK_WRITE" in (tmp_path / "run-0.log").read_text()


@pytest.mark.slow
@both_profiles
def test_many_keys_stay_in_order(real_two_brokers: RealCluster, tmp_path: Path) -> None:
    """200,000 rows of 1,000 keys over 16 queues are in order by key, although brokers and a worker are killed."""
    written = run_on(real_two_brokers, tmp_path, MANY_KEYS)
    [(topic, rows)] = written.wanted.items()
    queues = {message.queue for message in read_topic(real_world(real_two_brokers), topic, MANY_KEYS.shape)}
    assert (len(rows), len(queues)) == (200_000, 16)
    print(f"{written.repeats} messages repeat a row")


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_schedule_loses_nothing(real_cluster: RealCluster, tmp_path: Path, seed: int) -> None:
    """After a random schedule of kills nothing is missing, and no two rows share a message id."""
    schedule = draw_schedule(seed)
    print(schedule)
    print(f"{run_on(real_cluster, tmp_path, schedule).repeats} messages repeat a row")
