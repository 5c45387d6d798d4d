"""Run the flows of a Spark query on the stub."""

from __future__ import annotations

from collections.abc import Callable
from inspect import getmembers, isfunction
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.flows.stub_servers import start_stub, stub_world
from tests.flows.world import World
from tests.spark import flows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

Flow = Callable[["SparkSession", World, Path], None]

FLOWS: list[Flow] = [
    flow
    for name, flow in getmembers(flows, isfunction)
    if flow.__module__ == flows.__name__ and not name.startswith("_")
]
TWO_BROKERS, MASTER_SLAVE = (
    [flow for flow in FLOWS if flow.__name__.startswith(kind)] for kind in ("two_brokers", "master_slave")
)
EVERYWHERE = [flow for flow in FLOWS if flow not in TWO_BROKERS + MASTER_SLAVE]


def each_of(wanted: list[Flow]) -> pytest.MarkDecorator:
    """Return a decorator that parametrizes a test with the flows which `wanted` selects, under their names."""
    return pytest.mark.parametrize("flow", wanted, ids=lambda flow: flow.__name__)


@each_of(EVERYWHERE)
def test_one_broker(spark: SparkSession, tmp_path: Path, flow: Flow) -> None:
    """Each flow for one broker passes on the stub."""
    with start_stub() as stub:
        flow(spark, stub_world(stub), tmp_path)


@each_of(TWO_BROKERS)
def test_two_brokers(spark: SparkSession, two_broker_world: World, tmp_path: Path, flow: Flow) -> None:
    """Each flow in which one of two brokers stops passes on the stub."""
    flow(spark, two_broker_world, tmp_path)


@each_of(MASTER_SLAVE)
def test_master_and_slave(spark: SparkSession, master_slave_world: World, tmp_path: Path, flow: Flow) -> None:
    """Each flow in which a master stops passes on the stub."""
    flow(spark, master_slave_world, tmp_path)
