"""Sources of rows that cost nothing: they are read once, and handed to Spark again and again.

They measure the way from a Python worker into Spark, which any source has to pay.
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
"""The option that sets the number of rows."""


@dataclass
class RowCount(InputPartition):
    """The number of rows of one task."""

    rows: int


class ReadyReader(DataSourceReader):
    """A reader that yields the first batch of a topic again and again."""

    def __init__(self, options: dict[str, str], rows: int) -> None:
        self._options = options
        self._rows = rows

    def partitions(self) -> Sequence[InputPartition]:
        """Return a task for each slot."""
        return [RowCount(self._rows // SLOTS) for _ in range(SLOTS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task."""
        assert isinstance(partition, RowCount)
        batch = _first_batch(tuple(sorted(self._options.items())))
        for handed_over in range(0, partition.rows, batch.num_rows):
            yield batch.slice(0, partition.rows - handed_over)


@cache
def _first_batch(options: tuple[tuple[str, str], ...]) -> pa.RecordBatch:
    source = RocketMQDataSource(dict(options))
    reader = source.reader(source.schema())
    return next(iter(reader.read(reader.partitions()[0])))


class ReadySource(DataSource):
    """A source with a topic's schema and ready rows."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return READY

    def schema(self) -> StructType:
        """Return the schema of our source."""
        return RocketMQDataSource(self._reading()).schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of ready rows."""
        return ReadyReader(self._reading(), int(self.options[ROWS]))

    def _reading(self) -> dict[str, str]:
        return {name: value for name, value in self.options.items() if name.lower() != ROWS.lower()}


class InstantRowReader(DataSourceStreamReader):
    """A reader that always has a next batch, of one row that is made on the spot."""

    def initialOffset(self) -> dict[str, Any]:
        """Return the offset before the first row."""
        return {"row": 0}

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        """Return the offset one row further."""
        return {"row": start["row"] + 1}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return one task."""
        return [RowCount(1)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the row, with our columns and the time at which it is made."""
        now = {
            "topic": "t",
            "brokerName": "b",
            "queueId": 0,
            "queueOffset": 0,
            "storeTimestamp": time.time_ns() // 1000,
        }
        yield pa.RecordBatch.from_pylist([now], schema=arrow_schema(default_columns(Layout.ROCKETMQ)))


class InstantRowSource(DataSource):
    """The cheapest Python source of one row."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return INSTANT_ROW

    def schema(self) -> StructType:
        """Return the schema of our source."""
        return RocketMQDataSource({"nameServer": "localhost:9876", "subscribe": "t"}).schema()

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader of instant rows."""
        return InstantRowReader()
