"""List every column that a reader can ask for: one table, with a row per column.

A row holds the column's name, its type, and how its value is read. `rows.Row` reads it from one message and
`bulk.PlainRows` from thousands at once; both have the attributes and methods that the `read` of a row uses. Arrow's and
Spark's schemas are made from the table. Options need it too, so nothing here imports Arrow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from operator import attrgetter, methodcaller
from typing import Any, Protocol

from ..model import LIGHT_TOPIC_PREFIX, RETRY_PREFIX
from ..wire.compression import MAX_UNPACKED_BYTES
from ..wire.properties import is_reserved

__all__ = [
    "COLUMNS",
    "Column",
    "ColumnType",
    "Content",
    "Layout",
    "Mode",
    "Part",
    "default_columns",
]


class ColumnType(Enum):
    """Types a column can have, named as Spark's SQL names them."""

    STRING = "STRING"
    INT = "INT"
    BIGINT = "BIGINT"
    BINARY = "BINARY"
    TIMESTAMP = "TIMESTAMP"
    MAP = "MAP<STRING, STRING>"
    HEADERS = "ARRAY<STRUCT<key: STRING, value: BINARY>>"


class Part(Enum):
    """Parts of a message that are read only where a column shows them; either may be unreadable."""

    PROPERTIES = "properties"
    BODY = "body"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the result."""

    name: str
    type: ColumnType
    read: Callable[[Any], Any]
    """The column's value of a `Row`, or its Arrow array of `PlainRows`."""
    part: Part | None = None
    """The part of the message that must be read for it."""
    nullable: bool = True


class Layout(Enum):
    """Sets of columns that a reader gets when it names none."""

    ROCKETMQ = "rocketmq"
    KAFKA = "kafka"


def _property(*names: str) -> Callable[[Any], Any]:
    """Read the first of these properties that a message has."""
    return methodcaller("property_of", *names)


def _number(field: str) -> Callable[[Any], Any]:
    return methodcaller("number", field)


def _time(field: str) -> Callable[[Any], Any]:
    return methodcaller("time", field)


def _host(field: str) -> Callable[[Any], Any]:
    return methodcaller("host", field)


_STRING, _INT, _BIGINT = ColumnType.STRING, ColumnType.INT, ColumnType.BIGINT
_BINARY, _TIMESTAMP = ColumnType.BINARY, ColumnType.TIMESTAMP
_PROPERTIES, _BODY = Part.PROPERTIES, Part.BODY
_TOPIC = Column("topic", _STRING, attrgetter("topic"), nullable=False)

_ROCKETMQ_DEFAULT = (
    _TOPIC,
    Column("brokerName", _STRING, attrgetter("broker_name"), nullable=False),
    Column("queueId", _INT, attrgetter("queue_id"), nullable=False),
    Column("queueOffset", _BIGINT, attrgetter("position"), nullable=False),
    Column("tags", _STRING, _property("TAGS"), _PROPERTIES),
    Column("keys", _STRING, _property("KEYS"), _PROPERTIES),
    Column("body", _BINARY, attrgetter("body"), _BODY),
    Column("properties", ColumnType.MAP, attrgetter("shown_properties"), _PROPERTIES),
    Column("msgId", _STRING, attrgetter("message_id"), _PROPERTIES),
    Column("bornTimestamp", _TIMESTAMP, _time("born_timestamp")),
    Column("storeTimestamp", _TIMESTAMP, _time("store_timestamp")),
    Column("reconsumeTimes", _INT, _number("reconsume_times")),
    Column("flag", _INT, _number("flag")),
    Column("commitLogOffset", _BIGINT, attrgetter("log_offset")),
)
_ROCKETMQ_MORE = (
    Column("offsetMsgId", _STRING, attrgetter("offset_message_id")),
    Column("storedQueueOffset", _BIGINT, _number("queue_offset")),
    Column("originTopic", _STRING, attrgetter("origin_topic"), _PROPERTIES),
    Column("originMsgId", _STRING, _property("ORIGIN_MESSAGE_ID", "DLQ_ORIGIN_MESSAGE_ID"), _PROPERTIES),
    Column("shardingKey", _STRING, _property("__SHARDINGKEY"), _PROPERTIES),
    Column("bornHost", _STRING, _host("born_host")),
    Column("storeHost", _STRING, _host("store_host")),
    Column("sysFlag", _INT, _number("sys_flag")),
    Column("storeSize", _INT, _number("total_size")),
    Column("bodyCrc", _INT, _number("body_crc")),
)
_KAFKA = (
    Column("key", _BINARY, attrgetter("key"), _PROPERTIES),
    Column("value", _BINARY, attrgetter("body"), _BODY),
    _TOPIC,
    Column("partition", _INT, attrgetter("queue_id")),
    Column("offset", _BIGINT, attrgetter("position")),
    Column("timestamp", _TIMESTAMP, _time("store_timestamp")),
    Column("timestampType", _INT, attrgetter("timestamp_type")),
    Column("headers", ColumnType.HEADERS, attrgetter("headers"), _PROPERTIES),
)

COLUMNS: dict[str, Column] = {c.name: c for c in (*_KAFKA, *_ROCKETMQ_DEFAULT, *_ROCKETMQ_MORE)}
"""Every column of both layouts by name; `topic` is common to both."""


def default_columns(layout: Layout, include_headers: bool = False) -> tuple[str, ...]:
    """Return the names of a layout's columns, in order."""
    if layout is Layout.ROCKETMQ:
        return tuple(c.name for c in _ROCKETMQ_DEFAULT)
    return tuple(c.name for c in _KAFKA if include_headers or c.name != "headers")


# --- choice of messages ----------------------------------------------------------------------------------------------


class Mode(Enum):
    """Treatment of a message whose body or properties cannot be read."""

    FAILFAST = "FAILFAST"
    PERMISSIVE = "PERMISSIVE"
    DROPMALFORMED = "DROPMALFORMED"


class Naming(Protocol):
    """Translates between the user's names and the cluster's, where the cluster puts a namespace into names."""

    def wrap(self, name: str) -> str:
        """Return the cluster's name for a topic or group of the user's."""

    def unwrap(self, name: str) -> str:
        """Return the user's name for a topic or group of the cluster's."""


@dataclass(frozen=True, slots=True)
class Content:
    """The choice of messages, and how their bodies and properties are read."""

    mode: Mode = Mode.FAILFAST
    max_body_bytes: int = MAX_UNPACKED_BYTES
    properties_as_json: bool = False
    system_properties: bool = False
    tags: frozenset[str] = frozenset()
    """Tags of the messages that are kept; empty keeps all. The broker compares hash codes only."""
    naming: Naming | None = None
    """Translation of the topics that messages name; None where the cluster's names are the user's."""

    def filters(self, topic: str) -> bool:
        """Return whether messages of a topic are filtered by tag; retries never are."""
        return bool(self.tags) and not topic.startswith(RETRY_PREFIX)

    def own_topic(self, named: str) -> str:
        """Return the user's name for a topic that a message names."""
        return self.naming.unwrap(named) if self.naming else named

    def stored_topic(self, topic: str) -> str:
        """Return how records name a topic; empty for a light topic, whose records name another."""
        if topic.startswith(LIGHT_TOPIC_PREFIX):
            return ""
        return self.naming.wrap(topic) if self.naming else topic

    def wants(self, name: str) -> bool:
        """Return whether a property is shown to the user."""
        return self.system_properties or not is_reserved(name)
