"""How is a single trigger looked at? By Spark's own account of queries that run as often as they can."""

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
from tests.bench.ready import AT_HAND, AtHandSource
from tests.bench.sparks import fresh_folder

Progress = Mapping[str, int]
"""Milliseconds of a trigger by what they were spent on."""

TICKING = "rocketmq-ticking"
PATIENCE_S = 120
_KEPT = "spark.sql.streaming.numRecentProgressUpdates"
_ALL = "1000"
_WARMING = 5
_GLANCE_S = 0.1
"""How often a query is looked at; each look costs the JVM some milliseconds that the triggers would have."""


class TickingReader(DataSourceStreamReader):
    """Our reader; its offset carries a counter, so that there is always a next batch, mostly of no range."""

    def __init__(self, reader: StreamReader) -> None:
        self._reader = reader

    def initialOffset(self) -> dict[str, Any]:
        """The reader's, at tick 0."""
        return {"tick": 0, "at": self._reader.initialOffset()}

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        """What the reader says, one tick later."""
        latest = getattr(self._reader, "latestOffset")  # noqa: B009  # the releases differ in its arguments
        return {"tick": start["tick"] + 1, "at": latest(start["at"], limit)}

    def getDefaultReadLimit(self) -> Any:
        """The reader's."""
        return getattr(self._reader, "getDefaultReadLimit")()  # noqa: B009

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The reader's."""
        return self._reader.partitions(start["at"], end["at"])

    def read(self, partition: InputPartition) -> Any:
        """The reader's."""
        return self._reader.read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """The reader's."""
        self._reader.commit(end["at"])

    def stop(self) -> None:
        """The reader's."""
        self._reader.stop()


class TickingSource(DataSource):
    """Our source with such a reader."""

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return TICKING

    def schema(self) -> StructType:
        """Ours."""
        return RocketMQDataSource(dict(self.options)).schema()

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """The ticking one."""
        reader = RocketMQDataSource(dict(self.options)).streamReader(schema)
        assert isinstance(reader, StreamReader)
        return TickingReader(reader)


def triggers_of(
    session: SparkSession, source: str, options: Mapping[str, str], count: int, *, rows: int
) -> list[Progress]:
    """So many triggers of a query, once it is warm; each of them has so many rows."""
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
    """What `foreachBatch` has seen, and when."""

    def __init__(self) -> None:
        self.latencies: list[float] = []
        self._seen = threading.Event()

    def __call__(self, frame: DataFrame, _batch_id: int) -> None:
        """Collect the batch, and look at the clock."""
        rows = frame.select("storeTimestamp").collect()
        now = time.time()
        self.latencies += [(now - row.storeTimestamp.timestamp()) * 1000 for row in rows]
        if rows:
            self._seen.set()

    def wait_for_next(self, send: Any) -> None:
        """Send, and wait until it is here."""
        self._seen.clear()
        send()
        assert self._seen.wait(PATIENCE_S), "a message was not seen"


def one_by_one(session: SparkSession, name_server: str, topic: str, count: int) -> tuple[list[Progress], list[float]]:
    """Triggers of one message in one queue each, and how long each message was on its way."""
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


def at_hand(session: SparkSession, count: int) -> list[Progress]:
    """Triggers of one row each that `foreachBatch` collects, of a source that has it at hand."""
    session.dataSource.register(AtHandSource)
    frame = session.readStream.format(AT_HAND).load()
    return _triggers(session, frame.writeStream.foreachBatch(Arrivals()), count, rows=1)


def _batch_id(query: StreamingQuery) -> int:
    """Of the last batch that is done."""
    progress = query.lastProgress
    return int(progress["batchId"]) if progress else -1


def _durations(query: StreamingQuery, rows: int) -> list[Progress]:
    """Of triggers that ran a batch of so many rows."""
    found = [each for each in query.recentProgress if "addBatch" in each["durationMs"]]
    return [each["durationMs"] for each in found if each["numInputRows"] == rows]


def _wait_for_batch(query: StreamingQuery, number: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while _batch_id(query) < number:
        assert query.isActive, f"the query ended: {query.exception()}"
        assert time.monotonic() < deadline, "the query is too slow"
        time.sleep(_GLANCE_S)
