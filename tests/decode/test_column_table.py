"""Test the table of columns and its default layouts."""

from __future__ import annotations

from pyspark_rocketmq.decode.columns import COLUMNS, Layout, default_columns
from pyspark_rocketmq.decode.decoder import arrow_schema


def test_identity_columns_are_not_nullable() -> None:
    """Exactly the four columns that identify a message are never null."""
    required = [field.name for field in arrow_schema(tuple(COLUMNS)) if not field.nullable]
    assert sorted(required) == ["brokerName", "queueId", "queueOffset", "topic"]


def test_headers_come_last_in_the_kafka_layout() -> None:
    """The Kafka layout has the column `headers` only if it is requested, and then as the last one."""
    assert default_columns(Layout.KAFKA, include_headers=True) == (*default_columns(Layout.KAFKA), "headers")
