"""Define every column that a reader can ask for, in one table.

An entry holds the name of a column, its type, and a function that reads its value. The function takes a `rows.Row` (one
message) or a `bulk.PlainRows` (thousands of messages), which have the same attributes and methods. The schemas of Arrow
and Spark are made from the table. Option parsing uses it too, so this module does not import Arrow.
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
    "MOST_BODY_BYTES",
    "Column",
    "ColumnType",
    "Content",
    "Layout",
    "Mode",
    "Part",
    "default_columns",
]


MOST_BODY_BYTES = 2**30
"""Most bytes of an uncompressed body: with the rows before it, it fits into a column, whose offsets have 32 bits."""


class ColumnType(Enum):
    """The types of columns, as Spark SQL writes them."""

    STRING = "STRING"
    INT = "INT"
    BIGINT = "BIGINT"
    BINARY = "BINARY"
    TIMESTAMP = "TIMESTAMP"
    MAP = "MAP<STRING, STRING>"
    HEADERS = "ARRAY<STRUCT<key: STRING, value: BINARY>>"


class Part(Enum):
    """Parts of a message that may be unreadable; they are read only if a requested column needs them."""

    PROPERTIES = "properties"
    BODY = "body"


@dataclass(frozen=True, slots=True)
class Column:
    """One column that can be requested: its name and type, and how its value is read from a message."""

    name: str
    type: ColumnType
    read: Callable[[Any], Any]
    """Function that returns the column's value for a `Row`, or its Arrow array for `PlainRows`."""
    part: Part | None = None
    """Part of the message that must be read for this column; None for a column of fixed fields."""
    nullable: bool = True


class Layout(Enum):
    """Sets of columns; a reader returns one of these sets if the user names no columns."""

    ROCKETMQ = "rocketmq"
    KAFKA = "kafka"


def _property(*names: str) -> Callable[[Any], Any]:
    """Return a function that returns, for a message, the value of the first of these properties that it has."""
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
"""All columns of both layouts by name; `topic` is in both."""


def default_columns(layout: Layout, include_headers: bool = False) -> tuple[str, ...]:
    """Return the names of the columns of a layout, in order; `include_headers` adds Kafka's column `headers`."""
    if layout is Layout.ROCKETMQ:
        return tuple(c.name for c in _ROCKETMQ_DEFAULT)
    return tuple(c.name for c in _KAFKA if include_headers or c.name != "headers")


# --- choice of messages ----------------------------------------------------------------------------------------------


class Mode(Enum):
    """Treatment of a message whose body or properties cannot be read: raise an error, return null, or leave it out."""

    FAILFAST = "FAILFAST"
    PERMISSIVE = "PERMISSIVE"
    DROPMALFORMED = "DROPMALFORMED"


class Naming(Protocol):
    """Translates between the user's topic or group names and the cluster's, which may have a namespace as prefix."""

    def wrap(self, name: str) -> str:
        """Add the prefix of the namespace to a topic or group name of the user; return the cluster's name."""

    def unwrap(self, name: str) -> str:
        """Remove the prefix of the namespace from a topic or group name of the cluster; return the user's name."""


@dataclass(frozen=True, slots=True)
class Content:
    """The choice of messages that are kept, and the settings by which their bodies and properties are read."""

    mode: Mode = Mode.FAILFAST
    max_body_bytes: int = MAX_UNPACKED_BYTES
    properties_as_json: bool = False
    system_properties: bool = False
    tags: frozenset[str] = frozenset()
    """Tags of the messages that are kept; empty keeps all. Needed because brokers compare only hash codes of tags."""
    check_crc: bool = False
    """Whether a body whose CRC differs from the stored one counts as unreadable."""
    naming: Naming | None = None
    """Translation of topic names that messages hold; None if the cluster has no namespace."""

    def filters(self, topic: str) -> bool:
        """Return whether messages of this topic are filtered by tag; those of retry topics never are."""
        return bool(self.tags) and not topic.startswith(RETRY_PREFIX)

    def own_topic(self, named: str) -> str:
        """Return a topic name that was read from a message's property, without the prefix of the namespace."""
        return self.naming.unwrap(named) if self.naming else named

    def stored_topic(self, topic: str) -> str:
        """Return the name that must stand in the records of this topic: with the namespace's prefix, if it has one.

        Return an empty text for a light topic, whose records hold another topic's name.
        """
        if topic.startswith(LIGHT_TOPIC_PREFIX):
            return ""
        return self.naming.wrap(topic) if self.naming else topic

    def wants(self, name: str) -> bool:
        """Return whether the property `name` is shown to the user: RocketMQ's own properties only if requested."""
        return self.system_properties or not is_reserved(name)
