"""Contenders that run as Spark queries, in one session with two task slots, into Spark's `noop` sink."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession

from pyspark_rocketmq.decode.columns import Layout, default_columns
from tests.bench.bench_broker import BenchBroker
from tests.bench.bench_settings import FEW, SLOTS, Shape
from tests.bench.ready_rows import READY, ROWS, ReadySource
from tests.bench.rounds import Contender, Run
from tests.bench.usage import Groups, named, tree
from tests.spark.fixtures import LOG_OPTION, spark_environment

NO_MAP = ",".join(name for name in default_columns(Layout.ROCKETMQ) if name != "properties")
STREAM_S = 900


@dataclass(frozen=True)
class BenchSpark:
    """A Spark session, with methods that return queries in it as contenders."""

    session: SparkSession

    @property
    def processes(self) -> Groups:
        """The processes of Spark by label, for a `Meter`: the JVM; and Python, which is driver, planner and workers."""
        return {
            "JVM": lambda: named(tree(self._jvm), "java"),
            "Python": lambda: [os.getpid(), *self.python_processes()],
        }

    def python_processes(self) -> list[int]:
        """Return the ids of the Python processes that Spark has started: planners, daemons and workers."""
        return named(tree(self._jvm), "python")

    @property
    def _jvm(self) -> int:
        return int(cast(Any, self.session.sparkContext)._gateway.proc.pid)

    def batch(self, bench_broker: BenchBroker, shape: Shape, name: str, *, no_map: bool) -> Contender:
        """Return the contender that reads a topic of this shape with our source as a batch."""
        options = reading(bench_broker, shape, {"columns": NO_MAP} if no_map else {})
        table = self.table(name, "rocketmq", options, shape.messages, bench_broker.processes)
        return self._awake(table, "rocketmq", reading(bench_broker, FEW, {}))

    def ready(self, bench_broker: BenchBroker, shape: Shape, name: str, *, no_map: bool) -> Contender:
        """Return the contender that reads from `ReadySource` as many rows as a topic of this shape has."""
        self.session.dataSource.register(ReadySource)
        columns = {"columns": NO_MAP} if no_map else {}
        options = {**reading(bench_broker, shape, columns), ROWS: str(shape.messages)}
        table = self.table(name, READY, options, shape.messages, bench_broker.processes)
        return self._awake(table, READY, {**options, ROWS: str(SLOTS)})

    def table(self, name: str, source: str, options: Mapping[str, str], messages: int, broker: Groups) -> Contender:
        """Return a contender that reads the data source `source` as a batch; its first run checks the row count."""
        counted = False

        def run(_count: int) -> Run:
            nonlocal counted
            frame = self.session.read.format(source).options(**options).load()
            if not counted:
                found = frame.count()
                assert found == messages, f"{name}: {found} rows of {messages}"
                counted = True
            return Run(messages, seconds_of(lambda: write_nowhere(frame)))

        return Contender(name, run, {**self.processes, **broker}, messages, 0)

    def stream(self, bench_broker: BenchBroker, shape: Shape, name: str, *, no_map: bool = False) -> Contender:
        """Return the contender that streams a topic of this shape with `availableNow`; the start is timed, too."""
        options = reading(
            bench_broker, shape, {"startingOffsets": "earliest", **({"columns": NO_MAP} if no_map else {})}
        )
        stream = self.ending_stream(name, "rocketmq", options, shape.messages, bench_broker.processes)
        return self._awake(stream, "rocketmq", reading(bench_broker, FEW, {}))

    def ending_stream(
        self, name: str, source: str, options: Mapping[str, str], messages: int, broker: Groups
    ) -> Contender:
        """Return a contender that reads the data source `source` as a stream with `availableNow`."""
        return Contender(
            name,
            lambda _: self._drain_stream(source, options),
            {**self.processes, **broker},
            messages,
            0,
        )

    def _awake(self, contender: Contender, source: str, few: Mapping[str, str]) -> Contender:
        """Return the contender with a `wake` that reads a few rows, so that its Python workers run when it is measured.

        Spark ends a Python worker that was idle for a minute, and a round takes longer. Spark has separate workers for
        a source that the session has registered, for an installed one, and for creating a source. So the rows come from
        the contender's own source.
        """
        load = self.session.read.format(source).options(**few).load
        return replace(contender, wake=lambda: write_nowhere(load()))

    def _drain_stream(self, source: str, options: Mapping[str, str]) -> Run:
        with fresh_folder() as checkpoint:
            began = time.perf_counter()
            frame = self.session.readStream.format(source).options(**options).load()
            writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
            query = writer.trigger(availableNow=True).start()
            assert query.awaitTermination(STREAM_S), "the query did not end"
            seconds = time.perf_counter() - began
            return Run(sum(int(each["numInputRows"]) for each in query.recentProgress), seconds)


def reading(bench_broker: BenchBroker, shape: Shape, more: Mapping[str, str]) -> dict[str, str]:
    """Return the reader options for a topic of this shape, with one task for each slot, and the options in `more`."""
    common = {
        "nameServer": bench_broker.name_server,
        "subscribe": bench_broker.topic(shape),
        "maxPartitions": str(SLOTS),
    }
    return {**common, **more}


def write_nowhere(frame: DataFrame) -> None:
    """Run the query and discard its rows."""
    frame.write.format("noop").mode("overwrite").save()


def seconds_of(act: Callable[[], object]) -> float:
    """Return the seconds that calling `act` takes."""
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


@contextmanager
def fresh_folder() -> Iterator[str]:
    """Yield the path of a new folder for a checkpoint; delete the folder after the `with` block."""
    folder = tempfile.mkdtemp(prefix="rocketmq-bench-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def open_spark(**more: str) -> Iterator[BenchSpark]:
    """Open a session with two task slots, whose Python workers use Unix sockets; stop it after the `with` block."""
    os.environ.update(spark_environment())
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.shuffle.partitions": str(SLOTS),
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": LOG_OPTION,
        **more,
    }
    builder = SparkSession.builder.master(f"local[{SLOTS}]").appName("bench")
    session = builder.config(map=cast("dict[str, Any]", settings)).getOrCreate()
    try:
        yield BenchSpark(session)
    finally:
        session.stop()
