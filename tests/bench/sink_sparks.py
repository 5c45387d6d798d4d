"""Contenders that write as Spark queries: our sink, a sink that discards its rows, and any other sink.

All write rows that Spark keeps in memory, with a task for each task slot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from tests.bench.bench_broker import BenchBroker
from tests.bench.bench_settings import MESSAGES, SLOTS
from tests.bench.rounds import Contender, Run
from tests.bench.rows_to_write import cached_rows, whole_rounds
from tests.bench.sink_contenders import DISCARDED, SPARK_WRITE, Writing
from tests.bench.sparks import BenchSpark, seconds_of
from tests.bench.usage import Groups, peaks_mib, reset_peaks

DISCARDING = "rows-discarded"
HALF_A_GB, FIVE_GB = whole_rounds(MESSAGES // 4), 10 * whole_rounds(MESSAGES // 4)
"""Numbers of rows of 1 KiB: with the usual 2,000,000 messages, 0.5 and 5 GB."""

MakeRows = Callable[[SparkSession, int, int], DataFrame]
"""A function that returns rows with bodies of a size, in a given number."""


class DiscardingWriter(DataSourceArrowWriter):
    """A batch writer that receives the rows of a task and discards them."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Receive all record batches."""
        for _ in iterator:
            pass
        return WriterCommitMessage()


class DiscardingSink(DataSource):
    """A data source that can only be written, by a `DiscardingWriter`: what Spark itself needs for a Python sink."""

    @classmethod
    def name(cls) -> str:
        """Return the name that Spark's `format` gets."""
        return DISCARDING

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return a `DiscardingWriter`."""
        return DiscardingWriter()


def spark_contenders(spark: BenchSpark, bench_broker: BenchBroker, topic: str, writing: Writing) -> list[Contender]:
    """Return the contenders that write with our sink, and that hand all rows to a `DiscardingWriter`."""
    spark.session.catalog.clearCache()
    spark.session.dataSource.register(DiscardingSink)
    options = sink_options(bench_broker, topic, writing.batch)
    return [
        our_sink(spark, bench_broker, topic, writing, SPARK_WRITE, options),
        spark_write(spark, writing, DISCARDED, DISCARDING, {}, bench_broker.processes),
    ]


def our_sink(
    spark: BenchSpark, bench_broker: BenchBroker, topic: str, writing: Writing, name: str, options: Mapping[str, str]
) -> Contender:
    """Return the contender that writes with our sink, in an emptied log."""
    contender = spark_write(spark, writing, name, "rocketmq", options, bench_broker.processes)

    def wake() -> None:
        bench_broker.empty_log()
        contender.wake()

    return replace(contender, wake=wake)


def spark_write(
    spark: BenchSpark,
    writing: Writing,
    name: str,
    sink: str,
    options: Mapping[str, str],
    broker: Groups,
    make_rows: MakeRows = cached_rows,
) -> Contender:
    """Return a contender that writes rows to a sink of Spark; its `wake` writes a few, so that Python workers run."""
    counts = {writing.rows, writing.warm_up, SLOTS}
    frames = {count: make_rows(spark.session, writing.size, count) for count in counts}

    def write(count: int) -> Run:
        return Run(count, seconds_of(lambda: save(frames[count], sink, options)))

    # The driver's Python process does not write; it only asks the broker how many rows can be read.
    processes = {**spark.processes, "Python": spark.python_processes, **broker}
    return Contender(name, write, processes, writing.rows, writing.warm_up, lambda: write(SLOTS))


def sink_options(bench_broker: BenchBroker, topic: str, batch: int) -> dict[str, str]:
    """Return the options of our sink."""
    return {"nameServer": bench_broker.name_server, "topic": topic, "sendBatchSize": str(batch)}


def save(frame: DataFrame, sink: str, options: Mapping[str, str]) -> None:
    """Append the rows to a sink."""
    frame.write.format(sink).options(**options).mode("append").save()


def stored_rows(spark: BenchSpark, bench_broker: BenchBroker, topic: str) -> list[tuple[bytes, list[tuple[str, str]]]]:
    """Return bodies and properties of all rows in a topic, sorted, without message ids."""
    options = {"nameServer": bench_broker.name_server, "subscribe": topic, "includeSystemProperties": "true"}
    frame = spark.session.read.format("rocketmq").options(**options).load().select("body", "properties")
    rows = [(bytes(row.body), dict(row.properties)) for row in frame.collect()]
    return sorted((body, sorted(each for each in named.items() if each[0] != "UNIQ_KEY")) for body, named in rows)


def worker_peaks_mib(spark: BenchSpark, bench_broker: BenchBroker, topic: str, batch: int) -> tuple[float, float]:
    """Write 0.5 GB, and then 5 GB, with one task each; return the peak memory of its Python worker in each write."""
    options = sink_options(bench_broker, topic, batch)
    spark.session.catalog.clearCache()
    small, large = (_worker_peak_mib(spark, bench_broker, options, count) for count in (HALF_A_GB, FIVE_GB))
    return small, large


def _worker_peak_mib(spark: BenchSpark, bench_broker: BenchBroker, options: Mapping[str, str], count: int) -> float:
    bench_broker.empty_log()
    frame = cached_rows(spark.session, 1024, count).coalesce(1)
    reset_peaks(spark.python_processes())
    save(frame, "rocketmq", options)
    return max(peaks_mib(spark.python_processes()))
