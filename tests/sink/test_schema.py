"""The columns of a DataFrame are checked on the driver, before anything is sent."""

from __future__ import annotations

import pytest
from pyspark.sql.types import CalendarIntervalType, StringType, StructField, StructType

from pyspark_rocketmq.errors import ColumnError
from pyspark_rocketmq.options import WriterOptions, parse_writer_options
from pyspark_rocketmq.sink.schema import check_columns
from tests.sink.fixtures import schema_of


def check(columns: str, **options: str) -> WriterOptions:
    """Return the options for a DataFrame with these columns."""
    given = {"nameServer": "ns:9876", "topic": "orders", **options}
    parsed = parse_writer_options({name: text for name, text in given.items() if text}, env={})
    return check_columns(schema_of(columns), parsed)


@pytest.mark.parametrize(
    "columns",
    [
        "body BINARY",
        "value STRING",
        "body STRING, tags STRING, keys ARRAY<STRING>, properties MAP<STRING, STRING>, shardingKey STRING",
        "body STRING, key BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>, partition INT, brokerName STRING",
        "body STRING, delayTimeLevel INT, deliverTimeMs BIGINT, flag INT, rowId STRING, topic STRING",
        "body STRING, deliverTimeMs TIMESTAMP",
    ],
)
def test_all_columns_and_their_aliases_are_accepted(columns: str) -> None:
    """Every column of the table may be written, under each of its names and with each of its types."""
    assert not check(columns).encode.key_is_sharding_key


@pytest.mark.parametrize(
    ("columns", "what"),
    [
        ("text STRING", "no column 'text' can be written; drop or rename it with `select`; accepted columns: body"),
        ("tags STRING", "has no column body"),
        ("body INT", "column body has the type int32; cast it to BINARY or STRING"),
        ("body STRING, flag BIGINT", "column flag has the type int64; cast it to INT"),
        ("body STRING, deliverTimeMs TIMESTAMP_NTZ", "cast it to BIGINT (milliseconds) or TIMESTAMP"),
        ("body STRING, properties MAP<STRING, INT>", "cast it to MAP<STRING, STRING> or ARRAY"),
        ("body STRING, value STRING", "columns body and value are the same"),
        ("body STRING, brokerName STRING", "brokerName without queueId"),
        ("body STRING, queueOffset BIGINT", "no column 'queueOffset' can be written"),
    ],
)
def test_other_columns_are_refused(columns: str, what: str) -> None:
    """The error names the column, and what is accepted or to be done."""
    with pytest.raises(ColumnError) as caught:
        check(columns)
    assert str(caught.value).startswith("[SINK_COLUMN] ") and what in str(caught.value)


def test_a_type_that_arrow_does_not_have_is_refused() -> None:
    """A column whose type Spark cannot pass on is named, with its type."""
    odd = StructType([StructField("body", StringType()), StructField("x", CalendarIntervalType())])
    options = parse_writer_options({"nameServer": "ns:9876", "topic": "orders"}, env={})
    with pytest.raises(ColumnError, match="column x has the type interval"):
        check_columns(odd, options)


def test_a_topic_is_needed() -> None:
    """Rows need a topic, from the option or from a column."""
    with pytest.raises(ColumnError, match="set the option topic, or add a column topic"):
        check("body STRING", topic="")
    assert check("body STRING, topic STRING", topic="").encode.topic is None


@pytest.mark.parametrize(
    ("columns", "key_is_sharding_key"),
    [
        ("body STRING, shardingKey STRING", False),
        ("body STRING, key STRING", True),
        ("body STRING, key STRING, shardingKey STRING", False),
    ],
)
def test_order_by_key_needs_a_key(columns: str, key_is_sharding_key: bool) -> None:
    """With `ordering=key` the sharding key is the column of that name, else `key`; `keys` is none."""
    assert check(columns, ordering="key").encode.key_is_sharding_key == key_is_sharding_key
    assert not check(columns).encode.key_is_sharding_key
    for other in ("body STRING", "body STRING, keys STRING"):
        with pytest.raises(ColumnError, match="ordering=key without a key"):
            check(other, ordering="key")


def test_a_selector_that_ignores_columns_refuses_them() -> None:
    """With `hash` or `roundRobin` a column for the queue is refused, and `hash` needs a key."""
    for selector in ("hash", "roundRobin"):
        with pytest.raises(ColumnError, match=f"queueId with queueSelector={selector}"):
            check("body STRING, queueId INT, shardingKey STRING", queueSelector=selector)
    with pytest.raises(ColumnError, match="queueSelector=hash without a key"):
        check("body STRING", queueSelector="hash")
    assert check("body STRING, shardingKey STRING", queueSelector="hash")
