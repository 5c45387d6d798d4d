"""Decode one message at a time: slow, readable, and for any record that `wire.record` decodes.

`bulk.PlainRows` decodes plain records and leaves all others to `Row`. A property test shows that both give equal
values.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TypeVar

from ..errors import DecodeError
from ..model import MessageQueue
from ..wire.record import Record, unwrap_inner_batch
from .columns import Content, Mode

__all__ = ["LEAST_MS", "MOST_MS", "Row", "json_string", "read_rows"]


T = TypeVar("T")

LEAST_MS, MOST_MS = -62_135_596_800_000, 253_402_300_799_999
"""First and last millisecond of the years 1 to 9999, Spark's range of timestamps.

Only wrong clocks give other times.
"""

_TOLERATE = "set mode to PERMISSIVE (null) or DROPMALFORMED (leave out) to go on"


class Row:
    """One message as a row. Its attributes and methods return values of columns; `columns.Column.read` uses them."""

    timestamp_type = 1
    """Kafka's timestamp type: always 1, LogAppendTime."""

    def __init__(self, record: Record, queue: MessageQueue, content: Content, inner: bool, ahead: int = 0) -> None:
        self.record = record
        self.topic, self.broker_name, self.queue_id = queue
        self._queue = queue
        self._content = content
        self._is_inner = inner
        self.position = record.queue_offset - ahead
        """Offset of the message in its queue."""

    @cached_property
    def all_properties(self) -> dict[str, str] | None:
        """Values of all properties by name; None if they are unreadable and the mode is not FAILFAST."""
        return self._attempt(lambda: self.record.properties)

    @cached_property
    def body(self) -> bytes | None:
        """Decompressed body; None if it is unreadable and the mode is not FAILFAST."""
        return self._attempt(self._read_body)

    def property_of(self, *names: str) -> str | None:
        """Return the value of the first of these properties that the message has; None if it has none."""
        properties = self.all_properties or {}
        return next((properties[name] for name in names if name in properties), None)

    def number(self, field: str) -> int:
        """Return an integer field of the record."""
        value: int = getattr(self.record, field)
        return value

    def time(self, field: str) -> int | None:
        """Return a time field of the record in microseconds since 1970; None outside Spark's range of timestamps."""
        time_ms: int = getattr(self.record, field)
        return time_ms * 1000 if LEAST_MS <= time_ms <= MOST_MS else None

    def host(self, field: str) -> str:
        """Return a host field of the record as `ip:port`."""
        return str(getattr(self.record, field))

    @property
    def user_properties(self) -> dict[str, str] | None:
        """{name: value} of the properties, without RocketMQ's own unless requested; None if they are unreadable."""
        if self.all_properties is None:
            return None
        return {name: value for name, value in self.all_properties.items() if self._content.wants(name)}

    @property
    def shown_properties(self) -> object:
        """Value of the column `properties`: a list of pairs or a JSON text; None if properties are unreadable."""
        user = self.user_properties
        if user is None:
            return None
        return _json_object(user) if self._content.properties_as_json else list(user.items())

    @property
    def headers(self) -> object:
        """Value of the column `headers`: properties as Kafka headers, without RocketMQ's own unless requested.

        None if properties are unreadable.
        """
        user = self.user_properties
        return None if user is None else [{"key": k, "value": v.encode()} for k, v in user.items()]

    @property
    def key(self) -> bytes | None:
        """Value of the column `key` of the Kafka layout: the property KEYS as bytes; None if the message has none."""
        keys = self.property_of("KEYS")
        return None if keys is None else keys.encode()

    @property
    def origin_topic(self) -> str:
        """Topic to which a retried message or dead letter was first sent; for other messages, their own topic."""
        named = self.property_of("RETRY_TOPIC", "DLQ_ORIGIN_TOPIC")
        return self._content.own_topic(named) if named else self.topic

    @property
    def message_id(self) -> str | None:
        """Unique message id given by the producer; the broker's id if it gave none."""
        return self.property_of("UNIQ_KEY") or self.offset_message_id

    @property
    def offset_message_id(self) -> str | None:
        """Message id given by the broker; None for a message inside an inner batch."""
        return None if self._is_inner else self.record.offset_message_id

    @property
    def log_offset(self) -> int | None:
        """Offset in the broker's commit log; None for a message inside an inner batch."""
        return None if self._is_inner else self.record.physical_offset

    def passes_tags(self) -> bool:
        """Return whether the message has one of the wanted tags, or its topic is not filtered."""
        return not self._content.filters(self.topic) or self.property_of("TAGS") in self._content.tags

    def _read_body(self) -> bytes:
        if self._content.check_crc and not self._is_inner:  # Messages of an inner batch have no stored CRC.
            self.record.check_crc()
        return self.record.unpacked_body(self._content.max_body_bytes)

    def _attempt(self, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except DecodeError as error:
            _require_tolerance(error, self._queue, self._content)
            return None


def read_rows(record: Record, queue: MessageQueue, content: Content, position: int | None = None) -> Iterator[Row]:
    """Yield the message of a record, or the messages of an inner batch.

    The record is at offset `position` of its queue; None means the offset written in it. If an inner batch cannot be
    unwrapped, yield one row without a body, or raise `DecodeError` in mode FAILFAST.
    """
    ahead = 0 if position is None else record.queue_offset - position
    try:
        messages = _unwrap(record, content)
    except DecodeError as error:
        _require_tolerance(error, queue, content)
        batch = Row(record, queue, content, inner=False, ahead=ahead)
        batch.body = None
        yield batch
        return
    for message in messages:
        yield Row(message, queue, content, record.is_inner_batch, ahead)


def _unwrap(record: Record, content: Content) -> list[Record]:
    """Return the messages of a record; check the CRC of an inner batch first, if CRCs are checked."""
    if content.check_crc and record.is_inner_batch:
        record.check_crc()
    return unwrap_inner_batch(record, content.max_body_bytes)


def _require_tolerance(error: DecodeError, queue: MessageQueue, content: Content) -> None:
    """Raise the error in mode FAILFAST, with the broker's name and the advice to use another mode; else do nothing."""
    if content.mode is Mode.FAILFAST:
        error.advice = f"{error.advice}; or {_TOLERATE}" if error.advice else _TOLERATE
        raise error.locate(broker=queue.broker_name) from error.__cause__


def json_string(text: str) -> str:
    """Return a text as a JSON string, with its quotes."""
    return json.dumps(text, ensure_ascii=False)


def _json_object(properties: dict[str, str]) -> str:
    return "{" + ",".join(f"{json_string(name)}:{json_string(value)}" for name, value in properties.items()) + "}"
