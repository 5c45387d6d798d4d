"""Define every column that a reader can ask for, in one table.

An entry holds the name of a column, its type, its meaning, and a function that reads its value. The function takes a
`rows.Row` (one message) or a `bulk.PlainRows` (thousands of messages), which have the same attributes and methods. The
schemas of Arrow and Spark are made from the table, and so is the page for users (docs/reference/columns.md). Option
parsing uses it too, so this module does not import Arrow.
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
    """One column that can be requested: its name, type and meaning, and how its value is read from a message."""

    name: str
    type: ColumnType
    meaning: str
    """The meaning of the value, for the page for users."""
    read: Callable[[Any], Any]
    """Function that returns the column's value for a `Row`, or its Arrow array for `PlainRows`."""
    part: Part | None = None
    """Part of the message that must be read for this column; None for a column of fixed fields."""
    nullable: bool = True
    """Whether the schema allows nulls."""
    null: str = "never"
    """The cases in which the value is null, for the page for users."""


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
_INNER = "for a message of an inner batch"
_UNREADABLE = "with `mode=PERMISSIVE`, where the properties cannot be read"
_NO_BODY = "with `mode=PERMISSIVE`, where the body cannot be unpacked or `checkCrc` finds another CRC"
_STRANGE_TIME = "for a time before the year 1 or after 9999, which only wrong clocks give"
_TOPIC = Column("topic", _STRING, "The topic, without a `namespace`.", attrgetter("topic"), nullable=False)

_ROCKETMQ_DEFAULT = (
    _TOPIC,
    Column("brokerName", _STRING, "The broker that has the queue.", attrgetter("broker_name"), nullable=False),
    Column(
        "queueId",
        _INT,
        "The queue's number at its broker. Every broker counts from 0.",
        attrgetter("queue_id"),
        nullable=False,
    ),
    Column(
        "queueOffset",
        _BIGINT,
        "The message's position in its queue. It makes a row unique, together with the three columns before it.",
        attrgetter("position"),
        nullable=False,
    ),
    Column("tags", _STRING, "The tag.", _property("TAGS"), _PROPERTIES, null="without a tag"),
    Column(
        "keys",
        _STRING,
        "The keys to look the message up by, with spaces between them.",
        _property("KEYS"),
        _PROPERTIES,
        null="without keys",
    ),
    Column("body", _BINARY, "The body, unpacked.", attrgetter("body"), _BODY, null=_NO_BODY),
    Column(
        "properties",
        ColumnType.MAP,
        "The user's properties; with `includeSystemProperties` RocketMQ's own, too. Empty if there are none.",
        attrgetter("shown_properties"),
        _PROPERTIES,
        null=_UNREADABLE,
    ),
    Column(
        "msgId",
        _STRING,
        "The id that the producer gave the message, else `offsetMsgId`. A message that is sent again keeps it.",
        attrgetter("message_id"),
        _PROPERTIES,
        null=f"without an id of the producer, {_INNER}",
    ),
    Column(
        "bornTimestamp",
        _TIMESTAMP,
        "When the producer made the message, by its clock, to the millisecond.",
        _time("born_timestamp"),
        null=_STRANGE_TIME,
    ),
    Column(
        "storeTimestamp",
        _TIMESTAMP,
        "When the broker stored the message, by its clock, to the millisecond.",
        _time("store_timestamp"),
        null=_STRANGE_TIME,
    ),
    Column(
        "reconsumeTimes",
        _INT,
        "How often the message was delivered again; 0 at first.",
        _number("reconsume_times"),
    ),
    Column("flag", _INT, "A number of the producer's; brokers do not read it.", _number("flag")),
    Column(
        "commitLogOffset",
        _BIGINT,
        "Where the message lies in its broker's log, in bytes. `send_back` needs it.",
        attrgetter("log_offset"),
        null=_INNER,
    ),
)
_ROCKETMQ_MORE = (
    Column(
        "offsetMsgId",
        _STRING,
        "The broker's id of the message: its address and `commitLogOffset`.",
        attrgetter("offset_message_id"),
        null=_INNER,
    ),
    Column(
        "storedQueueOffset",
        _BIGINT,
        "The offset that the broker wrote into the message. It is `queueOffset`, but for rare damage.",
        _number("queue_offset"),
    ),
    Column(
        "originTopic",
        _STRING,
        "Of a retried message or dead letter, the topic that it was first sent to; else `topic`.",
        attrgetter("origin_topic"),
        _PROPERTIES,
    ),
    Column(
        "originMsgId",
        _STRING,
        "Of a retried message or dead letter, the broker's id of the first message.",
        _property("ORIGIN_MESSAGE_ID", "DLQ_ORIGIN_MESSAGE_ID"),
        _PROPERTIES,
        null="for other messages",
    ),
    Column(
        "shardingKey",
        _STRING,
        "The key by which the producer chose the queue.",
        _property("__SHARDINGKEY"),
        _PROPERTIES,
        null="if the producer stored none",
    ),
    Column("bornHost", _STRING, "The producer's address, as `ip:port`.", _host("born_host")),
    Column("storeHost", _STRING, "The broker's address, as it wrote it into the message.", _host("store_host")),
    Column("sysFlag", _INT, "RocketMQ's bits: compression, transaction, kind of addresses.", _number("sys_flag")),
    Column(
        "storeSize",
        _INT,
        "Bytes of the stored record; of a message of an inner batch, those of the batch.",
        _number("total_size"),
    ),
    Column("bodyCrc", _INT, "The CRC of the body as it is stored.", _number("body_crc")),
)
_KAFKA = (
    Column("key", _BINARY, "`keys` as bytes.", attrgetter("key"), _PROPERTIES, null="without keys"),
    Column("value", _BINARY, "The same as `body`.", attrgetter("body"), _BODY, null=_NO_BODY),
    _TOPIC,
    Column(
        "partition",
        _INT,
        "The same as `queueId`. It repeats on every broker: `columns` can add `brokerName`.",
        attrgetter("queue_id"),
    ),
    Column("offset", _BIGINT, "The same as `queueOffset`.", attrgetter("position")),
    Column("timestamp", _TIMESTAMP, "The same as `storeTimestamp`.", _time("store_timestamp"), null=_STRANGE_TIME),
    Column("timestampType", _INT, "1, Kafka's *LogAppendTime*.", attrgetter("timestamp_type")),
    Column(
        "headers",
        ColumnType.HEADERS,
        "The same as `properties`, as Kafka has headers.",
        attrgetter("headers"),
        _PROPERTIES,
        null=_UNREADABLE,
    ),
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
