"""Measure all contenders that write to eight queues; write docs/benchmarks/sink.md."""

from __future__ import annotations

import pytest

from tests.bench.bench_broker import NO_RETENTION, BenchBroker, open_bench_broker
from tests.bench.bench_settings import ROUNDS
from tests.bench.goals import ratio, spark_write_limit
from tests.bench.profiles import SENDING, add_profile
from tests.bench.report import Report, report_of
from tests.bench.rounds import Spread, measure_in_rounds
from tests.bench.rows_to_write import cached_rows
from tests.bench.sink_contenders import (
    BATCHES,
    JAVA_ASYNC,
    JAVA_SYNC,
    QUEUES,
    RAW_SENDS,
    SEND_ENGINE,
    SPARK_WRITE,
    TASKS,
    WRITINGS,
    Readable,
    Writing,
    open_sending_processes,
)
from tests.bench.sink_sparks import save, sink_options, spark_contenders, stored_rows, worker_peaks_mib
from tests.bench.sparks import BenchSpark, open_spark

pytestmark = [pytest.mark.bench, pytest.mark.real]

TOPIC = "bench_sink"
COMPARED_ROWS = 64
ABOUT = (
    "All contenders write the same rows, which are in memory, with a body, a tag, a key and two properties, to the "
    "same topic. A run's rate counts until the last acknowledgement; then the broker goes on to put rows from its log "
    "into queues, where they can be read and are counted, and its processor time includes that. Java: one "
    "producer and one thread, which also makes the messages; async with the producer's own back-pressure and its "
    "default limits. Raw sockets send frames that were prepared before, as many in flight as our engine, over one "
    "connection. *Encode + send* has record batches of up to 10,000 rows and 4 MiB, and one thread. Spark writes a "
    "DataFrame that it keeps in memory, with two tasks; *rows discarded* is a Python sink that drops its rows. "
    "One by one, an eighth of the rows is written. Between runs the broker's log is emptied."
)


def test_sink(real_version: str) -> None:
    with (
        open_bench_broker(real_version, **NO_RETENTION) as bench_broker,
        report_of("sink", "Writing", ABOUT, RocketMQ=bench_broker.cluster.version) as report,
    ):
        bench_broker.empty_topic(TOPIC, QUEUES)
        with open_spark() as spark:
            _check_rows(bench_broker, spark)
            for writing in WRITINGS:
                _measure(report, bench_broker, spark, writing)
        _add_spark_ratios(report)
        with open_spark() as spark:
            _measure_memory(report, bench_broker, spark)


def _check_rows(bench_broker: BenchBroker, spark: BenchSpark) -> None:
    """Raise `AssertionError` unless all contenders write the same rows."""
    writing, found = Writing(BATCHES[0], 100), {}
    frame = cached_rows(spark.session, writing.size, COMPARED_ROWS)
    with open_sending_processes(bench_broker, writing) as senders:
        for number, name in enumerate((*writing.names, SPARK_WRITE)):
            topic = bench_broker.empty_topic(f"{TOPIC}_{number}", QUEUES)
            if name == SPARK_WRITE:
                save(frame, "rocketmq", sink_options(bench_broker, topic, writing.batch))
            else:
                senders.contender(bench_broker, topic, writing, name).run(COMPARED_ROWS)
            Readable(bench_broker, topic).wait(COMPARED_ROWS)
            found[name] = stored_rows(spark, bench_broker, topic)
    for name, rows in found.items():
        assert len(rows) == COMPARED_ROWS and rows == found[JAVA_SYNC], f"{name} writes other rows than {JAVA_SYNC}"


def _measure(report: Report, bench_broker: BenchBroker, spark: BenchSpark, writing: Writing) -> None:
    readable = Readable(bench_broker, TOPIC)
    with open_sending_processes(bench_broker, writing) as senders:
        contenders = [senders.contender(bench_broker, TOPIC, writing, name) for name in writing.names]
        ours, discarding = spark_contenders(spark, bench_broker, TOPIC, writing)
        contenders = [*map(readable.watch, [*contenders, ours]), discarding]
        report.add_measurements(str(writing), measure_in_rounds(contenders, ROUNDS), best_of=[JAVA_SYNC])
        _add_readable(report, writing, readable)
        bench_broker.empty_log()
        task, parameters = TASKS[SEND_ENGINE](writing)
        parameters |= {"topic": TOPIC, "count": writing.rows}
        add_profile(report, f"{writing}, {SEND_ENGINE}", senders.python, SENDING, task, **parameters)


def _add_readable(report: Report, writing: Writing, readable: Readable) -> None:
    """Add a table of the rates until the last row can be read, without the warm-up."""
    spreads = {name: Spread.of(rates[1:]) for name, rates in readable.rates.items()}
    bound = spreads[RAW_SENDS].median
    rows = [(name, spread, f"{spread.median / bound:.2f}") for name, spread in spreads.items()]
    report.add_table(f"{writing}, until all rows can be read", ["", "rows a second", f"÷ {RAW_SENDS}"], rows)


def _add_spark_ratios(report: Report) -> None:
    """Add a table of the rates of Spark's writes ÷ those of other contenders, and the limits of these ratios."""
    lines = []
    for writing in WRITINGS:
        for other in (JAVA_SYNC, JAVA_ASYNC, RAW_SENDS):
            value = ratio(writing, SPARK_WRITE, other)(report.result)
            limit = spark_write_limit(writing, other)(report.result)
            if value and limit:
                lines.append((f"{SPARK_WRITE} ÷ {other}, {writing}", f"{value:.2f}", f"{limit:.2f}"))
    report.add_table("Through Spark", ["", "ratio", "limit"], lines)


def _measure_memory(report: Report, bench_broker: BenchBroker, spark: BenchSpark) -> None:
    small, large = worker_peaks_mib(spark, bench_broker, TOPIC, BATCHES[0])
    report.collect("worker's peak, 0.5 GB written", small, "MiB")
    report.collect("worker's peak, 5 GB written", large, "MiB")
    report.collect("5 GB ÷ 0.5 GB", large / small)
    report.add_collected("Peak memory of one Python worker")
