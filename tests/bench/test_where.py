"""Compare reading one second of a million messages with `read_where` and with `where`; print the times, write no page.

The stub serves them, from a process of its own: only its clock can pass a day in seconds.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, timedelta
from pathlib import Path
from statistics import median

import pytest
from pyspark.sql import DataFrame, SparkSession

from pyspark_rocketmq import read_where
from tests.bench.bench_settings import ROUNDS
from tests.bench.sparks import open_spark

pytestmark = pytest.mark.bench

ROOT = Path(__file__).parents[2]
TOPIC, MESSAGES = "day", 1_000_000
GOAL = 0.3


@pytest.fixture
def name_server() -> Iterator[str]:
    """The name server of a stub with a million messages, stored over a day."""
    command = [sys.executable, "-m", "tests.bench.spread_broker", TOPIC, str(MESSAGES)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin and process.stdout
        yield process.stdout.readline().strip()
        process.stdin.close()


def load(spark: SparkSession, name_server: str, condition: str, narrows: bool) -> DataFrame:
    """Return the rows of the topic that meet a condition, which narrows the read or not."""
    options = {"nameServer": name_server, "subscribe": TOPIC}
    if narrows:
        return read_where(spark, options, condition)
    return spark.read.format("rocketmq").options(**options).load().where(condition)


def test_one_second_of_a_million_messages(name_server: str) -> None:
    """The rows of one second take at most `GOAL` of the time that reading all messages takes."""
    with open_spark() as spark:
        session = spark.session
        times = load(session, name_server, "queueOffset = 62000", False).selectExpr("storeTimestamp AS at")
        first = times.orderBy("at").head()
        assert first
        at = first["at"].astimezone(UTC)
        start, end = (f"TIMESTAMP '{each:%Y-%m-%d %H:%M:%S.%f}Z'" for each in (at, at + timedelta(seconds=1)))
        where = f"storeTimestamp >= {start} AND storeTimestamp < {end}"
        seconds: dict[bool, list[float]] = {False: [], True: []}
        counts = set()
        for number in range(2 * ROUNDS + 2):
            narrows = bool(number % 2)
            began = time.perf_counter()
            counts.add(load(session, name_server, where, narrows).count())
            if number >= 2:  # The first two runs warm up.
                seconds[narrows].append(time.perf_counter() - began)
        plain, narrowed = median(seconds[False]), median(seconds[True])
        print(f"\n{counts} rows of {MESSAGES}: {plain:.2f} s, narrowed {narrowed:.2f} s, ratio {narrowed / plain:.3f}")
        print(f"  all times {seconds}, load {os.getloadavg()[0]:.1f}")
        assert len(counts) == 1 and narrowed / plain <= GOAL
