"""Data sources whose rows are in memory already, so that Spark's own cost can be measured.

They measure the transfer of rows from a Python worker to Spark's JVM, which every Python source must pay for.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from pyspark_rocketmq.datasource import RocketMQDataSource
from pyspark_rocketmq.decode.columns import Layout, default_columns
from pyspark_rocketmq.decode.decoder import arrow_schema
from tests.bench.bench_settings import SLOTS

READY, INSTANT_ROW = "rocketmq-ready", "row-at-hand"
ROWS = "readyRows"
"""The option for the number of rows that `ReadySource` yields."""


@dataclass
class RowCount(InputPartition):
    """A task that yields this number of rows."""

    rows: int


class ReadyReader(DataSourceReader):
    """A batch reader that reads the first record batch of a topic once, and yields it again and again."""

    def __init__(self, options: dict[str, str], rows: int) -> None:
        self._options = options
        self._rows = rows

    def partitions(self) -> Sequence[InputPartition]:
        """Return a task for each task slot, which together have all rows."""
        return [RowCount(self._rows // SLOTS) for _ in range(SLOTS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield record batches with the number of rows of this task."""
        assert isinstance(partition, RowCount)
        batch = _first_batch(tuple(sorted(self._options.items())))
        for begin in range(0, partition.rows, batch.num_rows):
            yield batch.slice(0, partition.rows - begin)


@cache
def _first_batch(options: tuple[tuple[str, str], ...]) -> pa.RecordBatch:
    source = RocketMQDataSource(dict(options))
    reader = source.reader(source.schema())
    return next(iter(reader.read(reader.partitions()[0])))


class ReadySource(DataSource):
    """A data source with the schema of our source, whose reader is a `ReadyReader`."""

    @classmethod
    def name(cls) -> str:
        """Return the name that Spark's `format` gets."""
        return READY

    def schema(self) -> StructType:
        """Return the schema of our source."""
        return RocketMQDataSource(self._reading()).schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a `ReadyReader` with the number of rows that the option sets."""
        return ReadyReader(self._reading(), int(self.options[ROWS]))

    def _reading(self) -> dict[str, str]:
        return {name: value for name, value in self.options.items() if name.lower() != ROWS.lower()}


class InstantRowReader(DataSourceStreamReader):
    """A stream reader that always has a next batch: one row, made when the task runs."""

    def initialOffset(self) -> dict[str, Any]:
        """Return the offset 0, before the first row."""
        return {"row": 0}

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        """Return the start offset plus one row."""
        return {"row": start["row"] + 1}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return one task of one row."""
        return [RowCount(1)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a record batch of one row, with our columns; its store timestamp is the current time."""
        now = {
            "topic": "t",
            "brokerName": "b",
            "queueId": 0,
            "queueOffset": 0,
            "storeTimestamp": time.time_ns() // 1000,
        }
        yield pa.RecordBatch.from_pylist([now], schema=arrow_schema(default_columns(Layout.ROCKETMQ)))


class InstantRowSource(DataSource):
    """A data source with the schema of our source, whose reader is an `InstantRowReader`."""

    @classmethod
    def name(cls) -> str:
        """Return the name that Spark's `format` gets."""
        return INSTANT_ROW

    def schema(self) -> StructType:
        """Return the schema of our source."""
        return RocketMQDataSource({"nameServer": "localhost:9876", "subscribe": "t"}).schema()

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return an `InstantRowReader`."""
        return InstantRowReader()
