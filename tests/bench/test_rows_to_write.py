"""Test that all contenders of the sink's benchmark write the same rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from broker_stub import StubBroker
from tests.bench import worker
from tests.bench.rows_to_write import ROWS, record_batches, whole_rounds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SIZE = 100
Stored = list[tuple[bytes, str]]


def test_rows_repeat_until_there_are_enough() -> None:
    """Record batches have the wanted number of rows together; the rows repeat, and the last batch may be short."""
    table = pa.Table.from_batches(record_batches(SIZE, ROWS + 5))

    assert table.num_rows == ROWS + 5
    assert table.slice(ROWS).equals(table.slice(0, 5))
    assert set(pa.compute.binary_length(table["body"]).to_pylist()) == {SIZE}


@pytest.mark.parametrize(("count", "rounded"), [(5, 5), (ROWS, ROWS), (2 * ROWS + 1, 2 * ROWS)])
def test_rows_are_counted_in_whole_rounds(count: int, rounded: int) -> None:
    """A number of rows is rounded down to a multiple of `ROWS`; a smaller number stays."""
    assert whole_rounds(count) == rounded


@pytest.mark.parametrize("batch", [1, 32])
def test_engine_and_raw_sockets_store_the_same(batch: int) -> None:
    """The engine and raw sockets store the same rows, with the same properties but for the message ids."""
    parameters: dict[str, Any] = {"topic": "bench", "count": 64, "size": SIZE, "batch": batch}
    with StubBroker(topics={"bench": 4}) as stub:
        assert worker.raw_sends(stub.name_server, **parameters)["messages"] == 64
        raw = _stored(stub)
    with StubBroker(topics={"bench": 4}) as stub:
        assert worker.sends(stub.name_server, **parameters)["messages"] == 64
        assert _stored(stub) == raw


def _stored(stub: StubBroker) -> Stored:
    records = stub.messages("bench")
    assert {record.queue_id for record in records} == set(range(4)) or len(records) < 128
    return sorted((record.body, _properties(record)) for record in records)


def _properties(record: Any) -> str:
    return repr(sorted((name, value) for name, value in record.properties.items() if name != "UNIQ_KEY"))


@pytest.mark.spark
def test_spark_has_the_same_rows(spark: SparkSession) -> None:
    """The rows of the DataFrame are those of the record batches, and so are those for Kafka, but for the tag."""
    from tests.bench.rows_to_write import cached_rows, kafka_rows

    try:
        rows = sorted(cached_rows(spark, SIZE, 20).collect(), key=lambda row: bytes(row.body))
        kafka = sorted(kafka_rows(spark, SIZE, 20).collect(), key=lambda row: bytes(row.value))
    finally:
        spark.catalog.clearCache()

    expected = pa.Table.from_batches(record_batches(SIZE, 20)).to_pylist()
    assert [(bytes(row.body), row.tags, row.keys, row.properties) for row in rows] == [
        (row["body"], row["tags"], row["keys"], dict(row["properties"])) for row in expected
    ]
    assert [(bytes(row.value), row.key, _texts(row.headers)) for row in kafka] == [
        (row["body"], row["keys"], dict(row["properties"])) for row in expected
    ]


def _texts(headers: list[Any]) -> dict[str, str]:
    return {each.key: bytes(each.value).decode() for each in headers}
