"""Measure single triggers of streaming queries that run without pauses, by Spark's own progress reports."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StructType

from pyspark_rocketmq.client.producer import Producer
from pyspark_rocketmq.client.settings import ProducerSettings
from pyspark_rocketmq.cluster.settings import ClusterSettings
from pyspark_rocketmq.datasource import RocketMQDataSource
from pyspark_rocketmq.model import Message, parse_addresses
from pyspark_rocketmq.source.stream import StreamReader
from tests.bench.ready_rows import INSTANT_ROW, InstantRowSource
from tests.bench.sparks import fresh_folder

Progress = Mapping[str, int]
"""The milliseconds that each phase of a trigger took."""

TICKING = "rocketmq-ticking"
WAIT_TIMEOUT_S = 120
_KEPT = "spark.sql.streaming.numRecentProgressUpdates"
_ALL = "1000"
_WARMING = 5
_GLANCE_S = 0.1
"""Seconds between two checks of a query's progress; each check costs the JVM some milliseconds."""


class TickingReader(DataSourceStreamReader):
    """Our stream reader with a counter in its offset, so that Spark always finds a new batch, even without messages."""

    def __init__(self, reader: StreamReader) -> None:
        self._reader = reader

    def initialOffset(self) -> dict[str, Any]:
        """Return our reader's initial offset with counter 0."""
        return {"tick": 0, "at": self._reader.initialOffset()}

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        """Return our reader's latest offset with the counter increased by one."""
        latest = getattr(self._reader, "latestOffset")  # noqa: B009  # the releases differ in its arguments
        return {"tick": start["tick"] + 1, "at": latest(start["at"], limit)}

    def getDefaultReadLimit(self) -> Any:
        """Return our reader's default read limit."""
        return getattr(self._reader, "getDefaultReadLimit")()  # noqa: B009

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return our reader's tasks between the two offsets."""
        return self._reader.partitions(start["at"], end["at"])

    def read(self, partition: InputPartition) -> Any:
        """Return the record batches that our reader yields for a task."""
        return self._reader.read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Commit the offset with our reader."""
        self._reader.commit(end["at"])

    def stop(self) -> None:
        """Stop our reader."""
        self._reader.stop()


class TickingSource(DataSource):
    """Our data source with a `TickingReader`."""

    @classmethod
    def name(cls) -> str:
        """Return the name that Spark's `format` gets."""
        return TICKING

    def schema(self) -> StructType:
        """Return the schema of our source."""
        return RocketMQDataSource(dict(self.options)).schema()

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return a `TickingReader` around the stream reader of our source."""
        reader = RocketMQDataSource(dict(self.options)).streamReader(schema)
        assert isinstance(reader, StreamReader)
        return TickingReader(reader)


def triggers_of(
    session: SparkSession, source: str, options: Mapping[str, str], count: int, *, rows: int
) -> list[Progress]:
    """Run a query of this source; return the phases of `count` triggers with `rows` rows each, after a warm-up."""
    session.dataSource.register(TickingSource)
    frame = session.readStream.format(source).options(**options).load()
    return _triggers(session, frame.writeStream.format("noop"), count, rows)


def _triggers(session: SparkSession, writer: DataStreamWriter, count: int, rows: int) -> list[Progress]:
    session.conf.set(_KEPT, _ALL)
    with fresh_folder() as checkpoint:
        query = writer.option("checkpointLocation", checkpoint).trigger(processingTime="0 seconds").start()
        try:
            _wait_for_batch(query, count + _WARMING)
            return _durations(query, rows)[_WARMING : count + _WARMING]
        finally:
            query.stop()


class Arrivals:
    """A function for `foreachBatch` that records each row's latency, from its store timestamp until now."""

    def __init__(self) -> None:
        self.latencies: list[float] = []
        self._seen = threading.Event()

    def __call__(self, frame: DataFrame, _batch_id: int) -> None:
        """Collect the rows of the batch, and record their latencies in milliseconds."""
        rows = frame.select("storeTimestamp").collect()
        now = time.time()
        self.latencies += [(now - row.storeTimestamp.timestamp()) * 1000 for row in rows]
        if rows:
            self._seen.set()

    def wait_for_next(self, send: Any) -> None:
        """Call `send`, which sends a message, and wait until a batch has it."""
        self._seen.clear()
        send()
        assert self._seen.wait(WAIT_TIMEOUT_S), "a message was not seen"


def one_by_one(session: SparkSession, name_server: str, topic: str, count: int) -> tuple[list[Progress], list[float]]:
    """Send messages one at a time to a running query; return their triggers' phases, and their latencies in ms."""
    arrivals = Arrivals()
    session.conf.set(_KEPT, _ALL)
    settings = ClusterSettings(parse_addresses(name_server))
    with fresh_folder() as checkpoint, Producer(settings, ProducerSettings(group="bench_one_by_one")) as producer:
        reading = {"nameServer": name_server, "subscribe": topic, "startingOffsets": "latest"}
        frame = session.readStream.format("rocketmq").options(**reading).load()
        writer = frame.writeStream.foreachBatch(arrivals).option("checkpointLocation", checkpoint)
        query = writer.trigger(processingTime="0 seconds").start()
        try:
            for number in range(count + _WARMING):
                _wait_for_batch(query, number)  # Otherwise the message waits until that batch is logged.
                arrivals.wait_for_next(lambda: producer.send(Message(topic, b"x" * 1024)))
            _wait_for_batch(query, count + _WARMING)
            return _durations(query, rows=1)[-count:], arrivals.latencies[-count:]
        finally:
            query.stop()


def instant_rows(session: SparkSession, count: int) -> list[Progress]:
    """Run a query of `InstantRowSource` whose rows `foreachBatch` collects; return the phases of `count` triggers."""
    session.dataSource.register(InstantRowSource)
    frame = session.readStream.format(INSTANT_ROW).load()
    return _triggers(session, frame.writeStream.foreachBatch(Arrivals()), count, rows=1)


def _batch_id(query: StreamingQuery) -> int:
    """Return the id of the last finished batch, or -1 if there is none."""
    progress = query.lastProgress
    return int(progress["batchId"]) if progress else -1


def _durations(query: StreamingQuery, rows: int) -> list[Progress]:
    """Return the phases of those recent triggers whose batch had `rows` rows."""
    found = [each for each in query.recentProgress if "addBatch" in each["durationMs"]]
    return [each["durationMs"] for each in found if each["numInputRows"] == rows]


def _wait_for_batch(query: StreamingQuery, number: int) -> None:
    deadline = time.monotonic() + WAIT_TIMEOUT_S
    while _batch_id(query) < number:
        assert query.isActive, f"the query ended: {query.exception()}"
        assert time.monotonic() < deadline, "the query is too slow"
        time.sleep(_GLANCE_S)
