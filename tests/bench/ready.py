"""What does Spark take for rows that cost nothing to get? They are read once, and then handed over again and again.

So what is measured is the way from a Python worker into Spark: what any source has to pay.
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
from tests.bench.plan import SLOTS

READY, AT_HAND = "rocketmq-ready", "row-at-hand"
ROWS = "readyRows"
"""The option that says how many rows there are."""


@dataclass
class Share(InputPartition):
    """What one task hands over."""

    rows: int


class ReadyReader(DataSourceReader):
    """The first batch of a topic, again and again."""

    def __init__(self, options: dict[str, str], rows: int) -> None:
        self._options = options
        self._rows = rows

    def partitions(self) -> Sequence[InputPartition]:
        """A task for each slot."""
        return [Share(self._rows // SLOTS) for _ in range(SLOTS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """So many rows."""
        assert isinstance(partition, Share)
        batch = _first_batch(tuple(sorted(self._options.items())))
        for handed_over in range(0, partition.rows, batch.num_rows):
            yield batch.slice(0, partition.rows - handed_over)


@cache
def _first_batch(options: tuple[tuple[str, str], ...]) -> pa.RecordBatch:
    source = RocketMQDataSource(dict(options))
    reader = source.reader(source.schema())
    return next(iter(reader.read(reader.partitions()[0])))


class ReadySource(DataSource):
    """A topic's schema, and rows that are ready."""

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return READY

    def schema(self) -> StructType:
        """That of our source."""
        return RocketMQDataSource(self._reading()).schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        """The one that has its rows."""
        return ReadyReader(self._reading(), int(self.options[ROWS]))

    def _reading(self) -> dict[str, str]:
        return {name: value for name, value in self.options.items() if name.lower() != ROWS.lower()}


class AtHandReader(DataSourceStreamReader):
    """Always a next batch, of one row that is made on the spot."""

    def initialOffset(self) -> dict[str, Any]:
        """Before the first row."""
        return {"row": 0}

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        """One row further."""
        return {"row": start["row"] + 1}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """One."""
        return [Share(1)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The row, with our columns: when it was made."""
        now = {
            "topic": "t",
            "brokerName": "b",
            "queueId": 0,
            "queueOffset": 0,
            "storeTimestamp": time.time_ns() // 1000,
        }
        yield pa.RecordBatch.from_pylist([now], schema=arrow_schema(default_columns(Layout.ROCKETMQ)))


class AtHandSource(DataSource):
    """What is the least that a Python source takes for one row?"""

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return AT_HAND

    def schema(self) -> StructType:
        """That of our source."""
        return RocketMQDataSource({"nameServer": "localhost:9876", "subscribe": "t"}).schema()

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """The one with a row at hand."""
        return AtHandReader()
