"""Measure single triggers by Spark's own progress reports, of queries that run as often as they can."""

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
"""Milliseconds of a trigger, by phase."""

TICKING = "rocketmq-ticking"
WAIT_TIMEOUT_S = 120
_KEPT = "spark.sql.streaming.numRecentProgressUpdates"
_ALL = "1000"
_WARMING = 5
_GLANCE_S = 0.1
"""The interval, in seconds, of looking at a query; each look costs the JVM some milliseconds."""


class TickingReader(DataSourceStreamReader):
    """Our reader with a counter in its offset, so that there is always a next batch, mostly without ranges."""

    def __init__(self, reader: StreamReader) -> None:
        self._reader = reader

    def initialOffset(self) -> dict[str, Any]:
        """Return the reader's offset, at tick 0."""
        return {"tick": 0, "at": self._reader.initialOffset()}

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        """Return the reader's offset, one tick later."""
        latest = getattr(self._reader, "latestOffset")  # noqa: B009  # the releases differ in its arguments
        return {"tick": start["tick"] + 1, "at": latest(start["at"], limit)}

    def getDefaultReadLimit(self) -> Any:
        """Return the reader's limit."""
        return getattr(self._reader, "getDefaultReadLimit")()  # noqa: B009

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the reader's tasks."""
        return self._reader.partitions(start["at"], end["at"])

    def read(self, partition: InputPartition) -> Any:
        """Return the reader's batches."""
        return self._reader.read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Pass the commit to the reader."""
        self._reader.commit(end["at"])

    def stop(self) -> None:
        """Stop the reader."""
        self._reader.stop()


class TickingSource(DataSource):
    """Our source with a ticking reader."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return TICKING

    def schema(self) -> StructType:
        """Return the schema of our source."""
        return RocketMQDataSource(dict(self.options)).schema()

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the ticking reader."""
        reader = RocketMQDataSource(dict(self.options)).streamReader(schema)
        assert isinstance(reader, StreamReader)
        return TickingReader(reader)


def triggers_of(
    session: SparkSession, source: str, options: Mapping[str, str], count: int, *, rows: int
) -> list[Progress]:
    """Return `count` triggers of a warm query, each of which has `rows` rows."""
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
    """A `foreachBatch` function that records the latency of each row."""

    def __init__(self) -> None:
        self.latencies: list[float] = []
        self._seen = threading.Event()

    def __call__(self, frame: DataFrame, _batch_id: int) -> None:
        """Collect the batch and record the time."""
        rows = frame.select("storeTimestamp").collect()
        now = time.time()
        self.latencies += [(now - row.storeTimestamp.timestamp()) * 1000 for row in rows]
        if rows:
            self._seen.set()

    def wait_for_next(self, send: Any) -> None:
        """Send a message, and wait until it is collected."""
        self._seen.clear()
        send()
        assert self._seen.wait(WAIT_TIMEOUT_S), "a message was not seen"


def one_by_one(session: SparkSession, name_server: str, topic: str, count: int) -> tuple[list[Progress], list[float]]:
    """Return triggers of one message in one queue each, and the latency of each message in milliseconds."""
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
                _wait_for_batch(query, number)  # A message sent while the last batch is logged would wait for that.
                arrivals.wait_for_next(lambda: producer.send(Message(topic, b"x" * 1024)))
            _wait_for_batch(query, count + _WARMING)
            return _durations(query, rows=1)[-count:], arrivals.latencies[-count:]
        finally:
            query.stop()


def instant_rows(session: SparkSession, count: int) -> list[Progress]:
    """Return triggers of one row each, which the source makes at once and `foreachBatch` collects."""
    session.dataSource.register(InstantRowSource)
    frame = session.readStream.format(INSTANT_ROW).load()
    return _triggers(session, frame.writeStream.foreachBatch(Arrivals()), count, rows=1)


def _batch_id(query: StreamingQuery) -> int:
    """Return the last finished batch."""
    progress = query.lastProgress
    return int(progress["batchId"]) if progress else -1


def _durations(query: StreamingQuery, rows: int) -> list[Progress]:
    """Return the phases of triggers that ran a batch of `rows` rows."""
    found = [each for each in query.recentProgress if "addBatch" in each["durationMs"]]
    return [each["durationMs"] for each in found if each["numInputRows"] == rows]


def _wait_for_batch(query: StreamingQuery, number: int) -> None:
    deadline = time.monotonic() + WAIT_TIMEOUT_S
    while _batch_id(query) < number:
        assert query.isActive, f"the query ended: {query.exception()}"
        assert time.monotonic() < deadline, "the query is too slow"
        time.sleep(_GLANCE_S)
