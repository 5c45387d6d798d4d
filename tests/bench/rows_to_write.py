"""Make the rows that all contenders write: as record batches for the engine, and as DataFrames for Spark.

The official producer sends the same rows (java/Sending.java): a body, a tag, a key, and two properties of the user.
They are few enough to stay in memory, and are written again and again.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa

from tests.bench.bench_settings import SLOTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 60_000
BATCH_ROWS = 10_000
"""The rows of a record batch; Spark hands over as many at a time by default."""
PIECE_BYTES = 4 * 2**20
DIGITS = 10
TAG = "bench"
REGION = "north"
SHOPS = ("ulm", "lyon", "paris", "berlin", "hamburg", "new-york", "stockholm")
_STEP, _MODULUS = 7919, 1_000_003


def record_batches(size: int, count: int) -> Iterator[pa.RecordBatch]:
    """Yield record batches of `count` rows together, whose bodies have `size` bytes; the rows repeat after `ROWS`.

    A task of our sink also cuts large record batches into pieces of 4 MiB.
    """
    ready = _ready_batches(size)
    for begin in range(0, count, BATCH_ROWS):
        batch = ready[begin // BATCH_ROWS % len(ready)].slice(0, count - begin)
        rows = batch.num_rows * PIECE_BYTES // max(batch.nbytes, 1)
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)


@cache
def _ready_batches(size: int) -> list[pa.RecordBatch]:
    return [_record_batch(range(begin, begin + BATCH_ROWS), size) for begin in range(0, ROWS, BATCH_ROWS)]


def _record_batch(numbers: range, size: int) -> pa.RecordBatch:
    properties = [[("region", REGION), ("shop", SHOPS[number % len(SHOPS)])] for number in numbers]
    return pa.RecordBatch.from_pydict(
        {
            "body": pa.array([f"{number:010d}".encode().ljust(size, b".") for number in numbers], pa.binary()),
            "tags": pa.array([TAG] * len(numbers), pa.string()),
            "keys": pa.array([f"order-{number * _STEP % _MODULUS}" for number in numbers], pa.string()),
            "properties": pa.array(properties, pa.map_(pa.string(), pa.string())),
        }
    )


def whole_rounds(count: int) -> int:
    """Return `count` rounded down to a multiple of `ROWS`, or `count` itself if it is smaller than `ROWS`."""
    return count // ROWS * ROWS or count


def cached_rows(session: SparkSession, size: int, count: int) -> DataFrame:
    """Return a DataFrame of `count` rows, which repeats up to `ROWS` rows that Spark keeps in memory.

    It has as many partitions as there are task slots. `count` is a result of `whole_rounds`.
    """
    from pyspark.sql import functions as f

    kept = min(ROWS, count)
    frame = _made_rows(session, size, kept).persist()
    assert frame.count() == kept
    times = f.explode(f.sequence(f.lit(1), f.lit(count // kept)))
    return frame.select(*frame.columns, times.alias("time")).drop("time")


def kafka_rows(session: SparkSession, size: int, count: int) -> DataFrame:
    """Return the rows of `cached_rows` with the columns of Spark's Kafka sink: properties as headers, and no tag."""
    headers = "transform(map_entries(properties), each -> struct(each.key, cast(each.value AS BINARY) AS value))"
    rows = cached_rows(session, size, count)
    return rows.selectExpr("body AS value", "keys AS key", f"{headers} AS headers")


def _made_rows(session: SparkSession, size: int, count: int) -> DataFrame:
    from pyspark.sql import functions as f

    number = f.col("id")
    digits = f.lpad(number.cast("string"), DIGITS, "0")
    shop = f.element_at(f.array(*map(f.lit, SHOPS)), (number % len(SHOPS) + 1).cast("int"))
    return session.range(0, count, 1, SLOTS).select(
        f.rpad(digits, size, ".").cast("binary").alias("body"),
        f.lit(TAG).alias("tags"),
        f.concat(f.lit("order-"), (number * _STEP % _MODULUS).cast("string")).alias("keys"),
        f.create_map(f.lit("region"), f.lit(REGION), f.lit("shop"), shop).alias("properties"),
    )
