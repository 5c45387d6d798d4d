"""Are real brokers of every version read and published to as the stub is? The flows are the stub's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.flows.scenarios import Scenario, each_of
from tests.flows.world import until
from tests.real.servers import RealCluster
from tests.real.worlds import real_world
from tests.source.test_flows import EVERYWHERE, EXPIRY, MASTER_SLAVE, TWO_BROKERS
from tests.spark.queries import Sink, run_to_end

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.real


@each_of(EVERYWHERE)
def test_one_broker(real_cluster: RealCluster, scenario: Scenario) -> None:
    """The flows that need nothing else."""
    scenario(real_world(real_cluster))


@each_of(TWO_BROKERS)
def test_two_brokers(real_two_brokers: RealCluster, scenario: Scenario) -> None:
    """One of which stops."""
    scenario(real_world(real_two_brokers))


@each_of(MASTER_SLAVE)
def test_master_and_slave(real_master_slave: RealCluster, scenario: Scenario) -> None:
    """The master stops."""
    scenario(real_world(real_master_slave))


@pytest.mark.slow
@each_of(EXPIRY)
def test_expiry(real_cluster: RealCluster, scenario: Scenario) -> None:
    """Real brokers delete nothing in their first minute."""
    scenario(real_world(real_cluster))


@pytest.mark.spark
def test_spark_reads_a_real_broker(spark: SparkSession, real_cluster: RealCluster, tmp_path: Path) -> None:
    """A batch, a stream, its restart, and what is published in the end."""
    world = real_world(real_cluster)
    queues, group = world.make_topic(2), world.make_group()
    options = {"nameServer": world.name_server, "subscribe": queues[0].topic, "maxOffsetsPerTrigger": "30"}
    for queue in queues:
        world.fill(queue, 50)
    assert (
        spark.read.format("rocketmq").options(nameServer=world.name_server, subscribe=queues[0].topic).load().count()
        == 100
    )
    reader = spark.readStream.format("rocketmq").options(**options, startingOffsets="earliest", consumerGroup=group)
    sink = Sink()
    run_to_end(reader.load(), sink, tmp_path)
    world.fill(queues[0], 5)
    run_to_end(reader.load(), sink, tmp_path)
    assert sorted(row.queueOffset for row in sink.rows) == sorted([*range(55), *range(50)])
    wanted = {queues[0]: 55, queues[1]: 50}
    until(lambda: world.cluster.offsets.fetch_committed(group, queues) == wanted, "positions are published")
