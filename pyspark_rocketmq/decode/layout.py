"""Which columns can a reader ask for, and which does it get unasked?

The table below is the single source of names, types, nullability and defaults; Arrow and Spark schemas are
both made from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["COLUMNS", "Column", "ColumnType", "Layout", "default_columns"]


class ColumnType(Enum):
    """Types a column can have, named as Spark's SQL names them."""

    STRING = "STRING"
    INT = "INT"
    BIGINT = "BIGINT"
    BINARY = "BINARY"
    TIMESTAMP = "TIMESTAMP"
    MAP = "MAP<STRING, STRING>"
    HEADERS = "ARRAY<STRUCT<key: STRING, value: BINARY>>"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the result."""

    name: str
    type: ColumnType
    nullable: bool = True


class Layout(Enum):
    """Sets of columns that a reader gets when it names none."""

    ROCKETMQ = "rocketmq"
    KAFKA = "kafka"


_STRING, _INT, _BIGINT = ColumnType.STRING, ColumnType.INT, ColumnType.BIGINT
_BINARY, _TIMESTAMP = ColumnType.BINARY, ColumnType.TIMESTAMP

_ROCKETMQ_DEFAULT = (
    Column("topic", _STRING, nullable=False),
    Column("brokerName", _STRING, nullable=False),
    Column("queueId", _INT, nullable=False),
    Column("queueOffset", _BIGINT, nullable=False),
    Column("tags", _STRING),
    Column("keys", _STRING),
    Column("body", _BINARY),
    Column("properties", ColumnType.MAP),
    Column("msgId", _STRING),
    Column("bornTimestamp", _TIMESTAMP),
    Column("storeTimestamp", _TIMESTAMP),
    Column("reconsumeTimes", _INT),
    Column("flag", _INT),
    Column("commitLogOffset", _BIGINT),
)
_ROCKETMQ_MORE = (
    Column("offsetMsgId", _STRING),
    Column("storedQueueOffset", _BIGINT),
    Column("originTopic", _STRING),
    Column("originMsgId", _STRING),
    Column("shardingKey", _STRING),
    Column("bornHost", _STRING),
    Column("storeHost", _STRING),
    Column("sysFlag", _INT),
    Column("storeSize", _INT),
    Column("bodyCrc", _INT),
)
_KAFKA = (
    Column("key", _BINARY),
    Column("value", _BINARY),
    Column("topic", _STRING),
    Column("partition", _INT),
    Column("offset", _BIGINT),
    Column("timestamp", _TIMESTAMP),
    Column("timestampType", _INT),
    Column("headers", ColumnType.HEADERS),
)

COLUMNS: dict[str, Column] = {c.name: c for c in (*_KAFKA, *_ROCKETMQ_DEFAULT, *_ROCKETMQ_MORE)}
"""Every column of both layouts by name; `topic` is common to both."""


def default_columns(layout: Layout, include_headers: bool = False) -> tuple[str, ...]:
    """The columns of a layout, in order."""
    if layout is Layout.ROCKETMQ:
        return tuple(c.name for c in _ROCKETMQ_DEFAULT)
    return tuple(c.name for c in _KAFKA if include_headers or c.name != "headers")
