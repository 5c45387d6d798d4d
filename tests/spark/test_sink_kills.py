"""Test on the stub that a query which writes loses no row when processes are killed, and repeats rows by their ids.

`make test` runs one kill of each kind; the schedules of many seeds are slow. SINK_SEED replays one schedule.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from broker_stub import StubCluster
from pyspark_rocketmq.model import MessageQueue
from tests.flows.stub_servers import start_stub, stub_world
from tests.spark.sink_kills import FIXED, Schedule, Written, draw_schedule, run_schedule, stub_disturbances
from tests.spark.sink_rows import Arrived, check_deduplicated, inversions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SEEDS = [int(os.environ["SINK_SEED"])] if "SINK_SEED" in os.environ else range(60)
SCHEDULES = [FIXED[0], *(pytest.param(schedule, marks=pytest.mark.slow) for schedule in FIXED[1:])]


@pytest.fixture
def stub() -> Iterator[StubCluster]:
    """A stub with one broker, for one schedule: it keeps all messages in memory."""
    with start_stub() as stub:
        yield stub
        stub.faults.clear()


def run_on_stub(stub: StubCluster, folder: Path, schedule: Schedule) -> Written:
    """Run a schedule on the stub; return what the query wrote."""
    world = stub_world(stub)
    return run_schedule(world, stub_disturbances(stub, world), folder, schedule)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_a_kill_loses_nothing_and_repeats_ids(
    spark: SparkSession, stub: StubCluster, tmp_path: Path, schedule: Schedule
) -> None:
    """After kills nothing is missing, and a reader that drops repeated message ids reads exactly the input."""
    written = run_on_stub(stub, tmp_path, schedule)
    assert written.repeats > 0
    if schedule.shape.repeats_ids:
        check_deduplicated(spark, stub_world(stub), written.wanted, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_schedule_loses_nothing(stub: StubCluster, tmp_path: Path, seed: int) -> None:
    """After a random schedule of kills nothing is missing, and no two rows share a message id."""
    schedule = draw_schedule(seed)
    print(schedule)
    print(f"{run_on_stub(stub, tmp_path, schedule).repeats} messages repeat a row")


def test_an_inversion_is_seen() -> None:
    """A first copy behind a later row of its key is an inversion; a repeat, another key and another queue are none."""

    def arrived(offset: int, line: int, key: str = "k0", queue: int = 0) -> Arrived:
        row = f"0 {line} 0 {key} good x"
        return Arrived(MessageQueue("orders", "broker-a", queue), offset, f"id of {row}", row)

    ordered = [arrived(0, 1), arrived(1, 3), arrived(2, 1), arrived(3, 2, "k1"), arrived(0, 2, queue=1)]
    assert inversions(ordered) == []
    assert inversions([*ordered, arrived(4, 2)]) == [arrived(4, 2)]
