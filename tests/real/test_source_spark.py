"""Run the flows of Spark queries on real brokers of every version, also when brokers and drivers die."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.real.servers import RealCluster
from tests.real.worlds import real_world
from tests.spark.killed_driver import POINTS
from tests.spark.kills import a_killed_driver_loses_and_repeats_nothing
from tests.spark.test_flows import EVERYWHERE, MASTER_SLAVE, TWO_BROKERS, Flow, each_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.real, pytest.mark.spark]


@each_of(EVERYWHERE)
def test_one_broker(spark: SparkSession, real_cluster: RealCluster, tmp_path: Path, flow: Flow) -> None:
    """Each flow for one broker passes on a real one."""
    flow(spark, real_world(real_cluster), tmp_path)


@each_of(TWO_BROKERS)
def test_two_brokers(spark: SparkSession, real_two_brokers: RealCluster, tmp_path: Path, flow: Flow) -> None:
    """Each flow in which one of two brokers stops passes on real servers."""
    flow(spark, real_world(real_two_brokers), tmp_path)


@each_of(MASTER_SLAVE)
def test_master_and_slave(spark: SparkSession, real_master_slave: RealCluster, tmp_path: Path, flow: Flow) -> None:
    """Each flow in which a master stops passes on real servers."""
    flow(spark, real_world(real_master_slave), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_killed_driver(spark: SparkSession, real_cluster: RealCluster, tmp_path: Path, point: str) -> None:
    """If a driver is killed at any point of a micro-batch and runs again, no row is lost or repeated."""
    a_killed_driver_loses_and_repeats_nothing(spark, real_world(real_cluster), tmp_path, point)
