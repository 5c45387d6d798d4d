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
from tests.flows.stub_servers import start_stub, stub_world
from tests.spark.killed_writer import Kill
from tests.spark.sink_kills import (
    EXECUTORS,
    LOCAL,
    SHAPES,
    VICTIMS,
    Schedule,
    Written,
    check_deduplicated,
    draw_schedule,
    run_schedule,
    stub_disturbances,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SEEDS = [int(os.environ["SINK_SEED"])] if "SINK_SEED" in os.environ else range(60)


@pytest.fixture(scope="module")
def stub() -> Iterator[StubCluster]:
    """A stub with one broker."""
    with start_stub() as stub:
        yield stub
        stub.faults.clear()


def run_on_stub(stub: StubCluster, folder: Path, schedule: Schedule) -> Written:
    """Run a schedule on the stub; return what the query wrote."""
    world = stub_world(stub)
    return run_schedule(world, stub_disturbances(stub, world), folder, schedule)


AS_READ, ROW_ID, MOVED = SHAPES
ESSENTIAL = [
    Schedule(
        -1, LOCAL, AS_READ, (Kill("worker", "some", 0), Kill("broker", "some", 1), Kill("driver", "committed", 2))
    ),
    pytest.param(
        Schedule(-2, LOCAL, ROW_ID, (Kill("replies", "some", 0), Kill("committer", "commit", 1))),
        marks=pytest.mark.slow,
    ),
    pytest.param(
        Schedule(-3, EXECUTORS, AS_READ, (Kill("executor", "some", 0), Kill("stopped", "some", 1))),
        marks=pytest.mark.slow,
    ),
    pytest.param(
        Schedule(
            -4, LOCAL, MOVED, (Kill("busy", "before", 0), Kill("driver", "all", 1), Kill("committer", "commit", 2))
        ),
        marks=pytest.mark.slow,
    ),
]


@pytest.mark.parametrize("schedule", ESSENTIAL, ids=str)
def test_a_kill_loses_nothing_and_repeats_ids(
    spark: SparkSession, stub: StubCluster, tmp_path: Path, schedule: Schedule
) -> None:
    """After kills nothing is missing, and a reader that drops repeated message ids reads exactly the input."""
    written = run_on_stub(stub, tmp_path, schedule)
    assert written.repeats > 0
    if schedule.shape.repeats_ids:
        check_deduplicated(spark, stub_world(stub), written, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_schedule_loses_nothing(stub: StubCluster, tmp_path: Path, seed: int) -> None:
    """After a random schedule of kills nothing is missing, and no two rows share a message id."""
    schedule = draw_schedule(seed, tuple(VICTIMS))
    print(schedule)
    print(f"{run_on_stub(stub, tmp_path, schedule).repeats} messages repeat a row")
