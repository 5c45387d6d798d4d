"""What does each column hold for one message, read the plain way?

The slow and readable twin of `bulk`: it takes any record the readable decoder accepts. Bulk decoding hands odd
records over to it, and a property test holds the two together.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Protocol, TypeVar

from ..errors import DecodeError
from ..model import LIGHT_TOPIC_PREFIX, RETRY_PREFIX, MessageQueue
from ..wire.compression import MAX_UNPACKED_BYTES
from ..wire.properties import is_reserved
from ..wire.record import Record, unwrap_inner_batch

__all__ = ["LEAST_MS", "MOST_MS", "Content", "Mode", "Row", "json_string", "read_rows", "row_value"]


T = TypeVar("T")


class Mode(Enum):
    """What to do with a body or property text that cannot be read."""

    FAILFAST = "FAILFAST"
    PERMISSIVE = "PERMISSIVE"
    DROPMALFORMED = "DROPMALFORMED"


class Naming(Protocol):
    """Knows our names and those of the cluster."""

    def wrap(self, name: str) -> str:
        """The cluster's name for a topic or group of ours."""

    def unwrap(self, name: str) -> str:
        """Our name for a topic or group of the cluster."""


@dataclass(frozen=True, slots=True)
class Content:
    """How the inside of a message is read."""

    mode: Mode = Mode.FAILFAST
    max_body_bytes: int = MAX_UNPACKED_BYTES
    properties_as_json: bool = False
    system_properties: bool = False
    tags: frozenset[str] = frozenset()
    """Keep only messages with one of these tags; empty keeps all. The broker compares hash codes only."""
    naming: Naming | None = None
    """Of topics that messages tell of, where the cluster spells a namespace into names."""

    def filters(self, topic: str) -> bool:
        """Whether messages of a topic are picked by tag; retries never are."""
        return bool(self.tags) and not topic.startswith(RETRY_PREFIX)

    def own_topic(self, told: str) -> str:
        """Our name for a topic that a message tells of."""
        return self.naming.unwrap(told) if self.naming else told

    def stored_topic(self, topic: str) -> str:
        """The name in the records of a topic of ours; none for a light one, whose records name another."""
        if topic.startswith(LIGHT_TOPIC_PREFIX):
            return ""
        return self.naming.wrap(topic) if self.naming else topic

    def wants(self, name: str) -> bool:
        """Whether a property is shown to the user."""
        return self.system_properties or not is_reserved(name)


class Row:
    """One message with the queue it was asked from."""

    def __init__(self, record: Record, queue: MessageQueue, content: Content, inner: bool, ahead: int = 0) -> None:
        self.record = record
        self.queue = queue
        self._content = content
        self.inner = inner
        self.position = record.queue_offset - ahead
        """Where the message stands in its queue."""

    @cached_property
    def all_properties(self) -> dict[str, str] | None:
        """Name to value; None for broken text in permissive mode."""
        return self._attempt(lambda: self.record.properties)

    @cached_property
    def body(self) -> bytes | None:
        """The unpacked body; None for a broken one in permissive mode."""
        return self._attempt(lambda: self.record.unpacked_body(self._content.max_body_bytes))

    def property_of(self, *names: str) -> str | None:
        """The first of these properties that the message has."""
        properties = self.all_properties or {}
        return next((properties[name] for name in names if name in properties), None)

    @property
    def user_properties(self) -> dict[str, str] | None:
        """The properties shown to the user."""
        if self.all_properties is None:
            return None
        return {name: value for name, value in self.all_properties.items() if self._content.wants(name)}

    @property
    def shown_properties(self) -> object:
        """The column `properties`, in the format asked for."""
        user = self.user_properties
        if user is None:
            return None
        return _json_object(user) if self._content.properties_as_json else list(user.items())

    @property
    def origin_topic(self) -> str:
        """Where a retried or dead message was first sent to."""
        told = self.property_of("RETRY_TOPIC", "DLQ_ORIGIN_TOPIC")
        return self._content.own_topic(told) if told else self.queue.topic

    @property
    def offset_message_id(self) -> str | None:
        """The broker's id; a message inside an inner batch has none."""
        return None if self.inner else self.record.offset_message_id

    def passes_tags(self) -> bool:
        """Whether the tag is one of those asked for, compared as text."""
        return not self._content.filters(self.queue.topic) or self.property_of("TAGS") in self._content.tags

    def _attempt(self, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except DecodeError as error:
            _require_tolerance(error, self.queue, self._content)
            return None


def _require_tolerance(error: DecodeError, queue: MessageQueue, content: Content) -> None:
    """Fail unless the user wants to go on without what cannot be read."""
    if content.mode is Mode.FAILFAST:
        error.advice = error.advice or "set mode to PERMISSIVE (null) or DROPMALFORMED (leave out) to go on"
        raise error.locate(broker=queue.broker_name) from error.__cause__


def read_rows(record: Record, queue: MessageQueue, content: Content, position: int | None = None) -> Iterator[Row]:
    """The messages in one record, which stands where it says unless told: itself, or those of an inner batch.

    A batch that cannot be taken apart stands for its messages, without a body, if that is tolerated.
    """
    ahead = 0 if position is None else record.queue_offset - position
    try:
        messages = unwrap_inner_batch(record, content.max_body_bytes)
    except DecodeError as error:
        _require_tolerance(error, queue, content)
        batch = Row(record, queue, content, inner=False, ahead=ahead)
        batch.body = None
        yield batch
        return
    for message in messages:
        yield Row(message, queue, content, record.is_inner_batch, ahead)


LEAST_MS, MOST_MS = -62_135_596_800_000, 253_402_300_799_999
"""Times from the year 1 to the year 9999, which Spark's timestamps are made for; others come from wrong clocks."""


def _microseconds(time_ms: int) -> int | None:
    return time_ms * 1000 if LEAST_MS <= time_ms <= MOST_MS else None


def json_string(text: str) -> str:
    """A JSON string, quotes included."""
    return json.dumps(text, ensure_ascii=False)


def _json_object(properties: dict[str, str]) -> str:
    return "{" + ",".join(f"{json_string(name)}:{json_string(value)}" for name, value in properties.items()) + "}"


def _headers(row: Row) -> object:
    user = row.user_properties
    return None if user is None else [{"key": k, "value": v.encode()} for k, v in user.items()]


def _key(row: Row) -> bytes | None:
    keys = row.property_of("KEYS")
    return None if keys is None else keys.encode()


_VALUES: dict[str, Callable[[Row], object]] = {
    "topic": lambda row: row.queue.topic,
    "brokerName": lambda row: row.queue.broker_name,
    "queueId": lambda row: row.queue.queue_id,
    "queueOffset": lambda row: row.position,
    "tags": lambda row: row.property_of("TAGS"),
    "keys": lambda row: row.property_of("KEYS"),
    "body": lambda row: row.body,
    "properties": lambda row: row.shown_properties,
    "msgId": lambda row: row.property_of("UNIQ_KEY") or row.offset_message_id,
    "bornTimestamp": lambda row: _microseconds(row.record.born_timestamp),
    "storeTimestamp": lambda row: _microseconds(row.record.store_timestamp),
    "reconsumeTimes": lambda row: row.record.reconsume_times,
    "flag": lambda row: row.record.flag,
    "commitLogOffset": lambda row: None if row.inner else row.record.physical_offset,
    "offsetMsgId": lambda row: row.offset_message_id,
    "storedQueueOffset": lambda row: row.record.queue_offset,
    "originTopic": lambda row: row.origin_topic,
    "originMsgId": lambda row: row.property_of("ORIGIN_MESSAGE_ID", "DLQ_ORIGIN_MESSAGE_ID"),
    "shardingKey": lambda row: row.property_of("__SHARDINGKEY"),
    "bornHost": lambda row: str(row.record.born_host),
    "storeHost": lambda row: str(row.record.store_host),
    "sysFlag": lambda row: row.record.sys_flag,
    "storeSize": lambda row: row.record.total_size,
    "bodyCrc": lambda row: row.record.body_crc,
    "key": _key,
    "value": lambda row: row.body,
    "partition": lambda row: row.queue.queue_id,
    "offset": lambda row: row.position,
    "timestamp": lambda row: _microseconds(row.record.store_timestamp),
    "timestampType": lambda row: 1,
    "headers": _headers,
}


def row_value(name: str, row: Row) -> object:
    """The Python value of one column."""
    return _VALUES[name](row)
