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
    LOCAL,
    SHAPES,
    VICTIMS,
    Schedule,
    check_deduplicated,
    draw_schedule,
    real_disturbances,
    run_schedule,
)
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


@pytest.mark.slow
def test_kills(spark: SparkSession, real_cluster: RealCluster, tmp_path: Path) -> None:
    """If a worker, the broker and the driver are killed in turn, nothing is missing, and repeats keep their ids."""
    kills = (Kill("worker", "some", 0), Kill("broker", "some", 1), Kill("driver", "committed", 2))
    schedule = Schedule(-1, LOCAL, SHAPES[0], kills)
    world = real_world(real_cluster)
    written = run_schedule(world, real_disturbances(real_cluster), tmp_path, schedule)
    assert written.repeats > 0
    check_deduplicated(spark, world, written, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_schedule_loses_nothing(real_cluster: RealCluster, tmp_path: Path, seed: int) -> None:
    """After a random schedule of kills nothing is missing, and no two rows share a message id."""
    victims = tuple(victim for victim in VICTIMS if victim != "busy")
    schedule = draw_schedule(seed, victims)
    print(schedule)
    written = run_schedule(real_world(real_cluster), real_disturbances(real_cluster), tmp_path, schedule)
    print(f"{written.repeats} messages repeat a row")
