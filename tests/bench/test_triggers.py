"""Measure small micro-batches, and the latency of single messages; write docs/benchmarks/triggers.md."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import pytest

from tests.bench.bench_broker import BenchBroker
from tests.bench.bench_settings import IS_QUICK, ROUNDS
from tests.bench.report import Report, report_of
from tests.bench.sparks import BenchSpark, open_spark
from tests.bench.triggers import TICKING, Progress, instant_rows, one_by_one, triggers_of

pytestmark = [pytest.mark.bench, pytest.mark.real]

TRIGGERS = 10 if IS_QUICK else 25
"""The number of triggers that one round measures."""
WARMING = 10
ABOUT = (
    "Queries with trigger 0 and two slots. *No task*: our reader over 8 queues, whose offset gets a counter so "
    "that every trigger has a new offset and no range; everything else is as in production. *Rate*: Spark's "
    "`rate-micro-batch` with one row in one partition. *One message*: sent when the previous batch is done; the "
    "clock runs from the broker's store timestamp until `foreachBatch` has collected it. *A row at hand*: a "
    "Python source that makes its row at once, collected the same way; the clock runs from the begin of the "
    "trigger to the log of its end."
)


def test_triggers(bench_broker: BenchBroker) -> None:
    topic = bench_broker.empty_topic("bench_triggers")
    with (
        report_of("triggers", "Small triggers", ABOUT, RocketMQ=bench_broker.cluster.version) as report,
        open_spark() as spark,
    ):
        _round(spark, bench_broker, topic, WARMING)
        rounds = [_round(spark, bench_broker, topic, TRIGGERS) for _ in range(ROUNDS)]
        _note(report, rounds)


class Round:
    """The medians of one round of measured triggers, in milliseconds."""

    def __init__(
        self,
        rate: Sequence[Progress],
        empty: Sequence[Progress],
        single: Sequence[Progress],
        latencies: Sequence[float],
        instant_rows: Sequence[Progress],
    ) -> None:
        self.rate = median(each["triggerExecution"] for each in rate)
        self.empty = median(each["triggerExecution"] for each in empty)
        self.latest_offset = median(each["latestOffset"] for each in empty)
        self.single = median(each["triggerExecution"] for each in single)
        self.latency = median(latencies)
        self.instant_rows = median(each["triggerExecution"] - each["commitOffsets"] for each in instant_rows)


def _round(spark: BenchSpark, bench_broker: BenchBroker, topic: str, count: int) -> Round:
    reading = {"nameServer": bench_broker.name_server, "subscribe": topic, "startingOffsets": "latest"}
    a_row = {"rowsPerBatch": "1", "numPartitions": "1"}
    rate = triggers_of(spark.session, "rate-micro-batch", a_row, count, rows=1)
    empty = triggers_of(spark.session, TICKING, reading, count, rows=0)
    single, latencies = one_by_one(spark.session, bench_broker.name_server, topic, count)
    least = instant_rows(spark.session, count)
    counts = [len(found) for found in (rate, empty, single, latencies, least)]
    assert counts == [count] * 5, f"{counts} triggers and arrivals of {count}"
    found = Round(rate, empty, single, latencies, least)
    print(f"  rate {found.rate} ms, empty {found.empty} ms, one message {found.latency:.0f} ms", flush=True)
    return found


def _note(report: Report, rounds: Sequence[Round]) -> None:
    for each in rounds:
        report.collect("rate-micro-batch, one row", each.rate, "ms")
        report.collect("no task", each.empty, "ms")
        report.collect("one message in one queue, whole trigger", each.single, "ms")
        report.collect("one message, stored until seen, p50", each.latency, "ms")
        report.collect("a row at hand, until seen", each.instant_rows, "ms")
        report.collect("latestOffset", each.latest_offset, "ms")
        report.collect("empty ÷ rate", each.empty / each.rate)
        report.collect("latency ÷ empty", each.latency / each.empty)
        report.collect("a row at hand ÷ empty", each.instant_rows / each.empty)
    report.add_collected(f"Medians of {TRIGGERS} triggers, over {len(rounds)} rounds")
