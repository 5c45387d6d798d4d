"""Test the schemas that the source offers, and the user's schemas that it accepts or refuses."""

from __future__ import annotations

import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pyspark_rocketmq.decode.columns import COLUMNS, Layout, default_columns
from pyspark_rocketmq.decode.decoder import arrow_schema
from pyspark_rocketmq.errors import OptionError
from pyspark_rocketmq.source.schema import columns_declared_nullable, columns_of, spark_schema

TYPES: dict[str, DataType] = {
    "string": StringType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "binary": BinaryType(),
    "timestamp": TimestampType(),
    "map": MapType(StringType(), StringType()),
    "headers": ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
}
DEFAULT = (
    "topic string!, brokerName string!, queueId int!, queueOffset bigint!, tags string, keys string, body binary, "
    "properties map, msgId string, bornTimestamp timestamp, storeTimestamp timestamp, reconsumeTimes int, flag int, "
    "commitLogOffset bigint"
)
KAFKA = (
    "key binary, value binary, topic string!, partition int, offset bigint, timestamp timestamp, timestampType int, "
    "headers headers"
)


def schema_of(text: str) -> StructType:
    """Return the schema of a text like "topic string!, body binary"; a column with `!` is NOT NULL."""
    pairs = [column.split() for column in text.split(", ")]
    return StructType([StructField(name, TYPES[kind.rstrip("!")], not kind.endswith("!")) for name, kind in pairs])


@pytest.mark.parametrize("as_json", [False, True])
def test_spark_and_arrow_agree_on_every_column(as_json: bool) -> None:
    """The Spark schema of all columns, converted to Arrow, equals the schema of the decoded record batches."""
    schema = spark_schema(tuple(COLUMNS), as_json)
    assert to_arrow_schema(schema, timezone="UTC") == arrow_schema(tuple(COLUMNS), as_json)


def test_the_default_columns_are_those_of_the_layout() -> None:
    """The default schema has 14 columns, of which the four that identify a message are NOT NULL."""
    assert spark_schema(default_columns(Layout.ROCKETMQ)) == schema_of(DEFAULT)


def test_the_kafka_layout_is_kafkas() -> None:
    """The Kafka layout with headers has the columns and types of Spark's Kafka source."""
    assert spark_schema(default_columns(Layout.KAFKA, include_headers=True)) == schema_of(KAFKA)


def test_a_schema_of_the_users_own_chooses_columns() -> None:
    """A user's schema chooses columns, and may declare NOT NULL ones nullable; record batches then do the same."""
    given = schema_of("queueOffset bigint, body binary, topic string!")
    assert columns_of(given) == ("queueOffset", "body", "topic")
    assert columns_declared_nullable(given) == {"queueOffset"}
    ours = arrow_schema(columns_of(given), nullable=columns_declared_nullable(given))
    assert to_arrow_schema(given, timezone="UTC") == ours


@pytest.mark.parametrize(
    ("ddl", "said"),
    [
        ("message string", "schema = 'message': no such column; columns are"),
        ("Topic string", "schema = 'Topic': no such column"),
        ("body string", "schema = 'body': is string; declare binary"),
        ("properties string", "schema = 'properties': is string; declare map<string,string>"),
        ("tags string!", "schema = 'tags': is NOT NULL, but may be null; declare it nullable"),
        ("queueId bigint", "schema = 'queueId': is bigint; declare int"),
        ("topic string, topic string", "schema = 'topic': is named twice"),
    ],
)
def test_a_schema_that_would_not_be_filled_exactly_is_refused(ddl: str, said: str) -> None:
    """If a user's column is unknown, doubled or of a wrong type, the error names it and the right declaration."""
    with pytest.raises(OptionError) as refused:
        columns_of(schema_of(ddl))
    assert said in str(refused.value)


def test_a_schema_without_columns_is_refused() -> None:
    """A user's schema without columns is refused."""
    with pytest.raises(OptionError, match="names no column"):
        columns_of(StructType())


def test_properties_may_be_one_text() -> None:
    """If the option asks for properties as JSON, a user's schema declares them as string."""
    assert columns_of(schema_of("properties string"), properties_as_json=True) == ("properties",)
