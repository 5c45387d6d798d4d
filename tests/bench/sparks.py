"""How does a query run in the bench? In one warm session with two slots, into Spark's `noop` sink."""

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
from tests.bench.plan import FEW, SLOTS, Shape
from tests.bench.ready import READY, ROWS, ReadySource
from tests.bench.rounds import Contender, Run
from tests.bench.stage import Stage
from tests.bench.usage import Groups, named, tree
from tests.spark.fixtures import LOG_OPTION, spark_environment

NO_MAP = ",".join(name for name in default_columns(Layout.ROCKETMQ) if name != "properties")
STREAM_S = 900


@dataclass(frozen=True)
class BenchSpark:
    """A session, and queries in it as contenders."""

    session: SparkSession

    @property
    def processes(self) -> Groups:
        """The JVM, and all Python: the driver's, the workers', the planner's."""
        gateway = cast(Any, self.session.sparkContext)._gateway
        jvm = int(gateway.proc.pid)
        return {
            "JVM": lambda: named(tree(jvm), "java"),
            "Python": lambda: [os.getpid(), *named(tree(jvm), "python")],
        }

    def batch(self, stage: Stage, shape: Shape, name: str, *, no_map: bool) -> Contender:
        """A topic as a table."""
        options = reading(stage, shape, {"columns": NO_MAP} if no_map else {})
        table = self.table(name, "rocketmq", options, shape.messages, stage.processes)
        return self._awake(table, "rocketmq", reading(stage, FEW, {}))

    def ready(self, stage: Stage, shape: Shape, name: str, *, no_map: bool) -> Contender:
        """As many rows as the topic has, ready before they are wanted."""
        self.session.dataSource.register(ReadySource)
        columns = {"columns": NO_MAP} if no_map else {}
        options = {**reading(stage, shape, columns), ROWS: str(shape.messages)}
        table = self.table(name, READY, options, shape.messages, stage.processes)
        return self._awake(table, READY, {**options, ROWS: str(SLOTS)})

    def table(self, name: str, source: str, options: Mapping[str, str], messages: int, broker: Groups) -> Contender:
        """Any source's table, written nowhere; the first run counts its rows."""
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

    def stream(self, stage: Stage, shape: Shape, name: str, *, no_map: bool = False) -> Contender:
        """A topic as a stream that ends, its start included."""
        options = reading(stage, shape, {"startingOffsets": "earliest", **({"columns": NO_MAP} if no_map else {})})
        stream = self.ending_stream(name, "rocketmq", options, shape.messages, stage.processes)
        return self._awake(stream, "rocketmq", reading(stage, FEW, {}))

    def ending_stream(
        self, name: str, source: str, options: Mapping[str, str], messages: int, broker: Groups
    ) -> Contender:
        """Any source's stream with `availableNow`."""
        return Contender(
            name,
            lambda _: self._drain_stream(source, options),
            {**self.processes, **broker},
            messages,
            0,
        )

    def _awake(self, contender: Contender, source: str, few: Mapping[str, str]) -> Contender:
        """Spark ends its Python workers when they were idle for a minute, which is less than a round takes.

        Those that read a source of the session's own are others than those of an installed one, and so are those that
        make a source; hence a few rows of the same one are read, from the beginning.
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


def reading(stage: Stage, shape: Shape, more: Mapping[str, str]) -> dict[str, str]:
    """Options that read one topic, with a task for each slot."""
    common = {"nameServer": stage.name_server, "subscribe": stage.topic(shape), "maxPartitions": str(SLOTS)}
    return {**common, **more}


def write_nowhere(frame: DataFrame) -> None:
    """Produce every row."""
    frame.write.format("noop").mode("overwrite").save()


def seconds_of(act: Callable[[], object]) -> float:
    """How long it takes."""
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


@contextmanager
def fresh_folder() -> Iterator[str]:
    """For a checkpoint, gone after the block."""
    folder = tempfile.mkdtemp(prefix="rocketmq-bench-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def open_spark(**more: str) -> Iterator[BenchSpark]:
    """A session with two slots whose workers are reached through Unix sockets."""
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
