"""Test on the stub that a driver which is killed at any point of a micro-batch loses and repeats no row."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.flows.stub_servers import start_stub, stub_world
from tests.flows.world import World
from tests.spark.killed_driver import POINTS
from tests.spark.kills import a_killed_driver_loses_and_repeats_nothing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def one_broker() -> Iterator[World]:
    """The world of a stub with one broker."""
    with start_stub() as stub:
        yield stub_world(stub)


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_driver_loses_and_repeats_nothing(
    spark: SparkSession, one_broker: World, tmp_path: Path, point: str
) -> None:
    """If a driver is killed at a point of a micro-batch and runs again, each row is written once."""
    a_killed_driver_loses_and_repeats_nothing(spark, one_broker, tmp_path, point)
