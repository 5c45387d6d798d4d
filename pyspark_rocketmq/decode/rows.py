"""Read one message the plain way: slow, readable, and for any record that `wire.record` decodes.

`Row` is the twin of `bulk.PlainRows`, which leaves records to it whose fields do not lie at the usual places. A
property test holds the two together.
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
"""Times from the year 1 to the year 9999, the range of Spark's timestamps; only wrong clocks give other times."""


class Row:
    """One message, with the attributes and methods that `columns.Column.read` uses."""

    timestamp_type = 1
    """Kafka's number for the time at which a message was appended to the log."""

    def __init__(self, record: Record, queue: MessageQueue, content: Content, inner: bool, ahead: int = 0) -> None:
        self.record = record
        self.topic, self.broker_name, self.queue_id = queue
        self._queue = queue
        self._content = content
        self._is_inner = inner
        self.position = record.queue_offset - ahead
        """Offset at which the message stands in its queue."""

    @cached_property
    def all_properties(self) -> dict[str, str] | None:
        """Values by name; None for unreadable text in permissive mode."""
        return self._attempt(lambda: self.record.properties)

    @cached_property
    def body(self) -> bytes | None:
        """Unpacked body; None for an unreadable one in permissive mode."""
        return self._attempt(lambda: self.record.unpacked_body(self._content.max_body_bytes))

    def property_of(self, *names: str) -> str | None:
        """Return the first of these properties that the message has."""
        properties = self.all_properties or {}
        return next((properties[name] for name in names if name in properties), None)

    def number(self, field: str) -> int:
        """Return a field of the record."""
        value: int = getattr(self.record, field)
        return value

    def time(self, field: str) -> int | None:
        """Return a time of the record in microseconds; None outside the range of Spark's timestamps."""
        time_ms: int = getattr(self.record, field)
        return time_ms * 1000 if LEAST_MS <= time_ms <= MOST_MS else None

    def host(self, field: str) -> str:
        """Return a host of the record as `ip:port`."""
        return str(getattr(self.record, field))

    @property
    def user_properties(self) -> dict[str, str] | None:
        """Properties that are shown to the user."""
        if self.all_properties is None:
            return None
        return {name: value for name, value in self.all_properties.items() if self._content.wants(name)}

    @property
    def shown_properties(self) -> object:
        """Value of the column `properties`, in the format asked for."""
        user = self.user_properties
        if user is None:
            return None
        return _json_object(user) if self._content.properties_as_json else list(user.items())

    @property
    def headers(self) -> object:
        """Properties that are shown to the user, as Kafka's headers."""
        user = self.user_properties
        return None if user is None else [{"key": k, "value": v.encode()} for k, v in user.items()]

    @property
    def key(self) -> bytes | None:
        """Keys of the message, as Kafka's key."""
        keys = self.property_of("KEYS")
        return None if keys is None else keys.encode()

    @property
    def origin_topic(self) -> str:
        """Topic to which a retried or dead message was first sent."""
        named = self.property_of("RETRY_TOPIC", "DLQ_ORIGIN_TOPIC")
        return self._content.own_topic(named) if named else self.topic

    @property
    def message_id(self) -> str | None:
        """Unique id given by the producer, else the broker's id."""
        return self.property_of("UNIQ_KEY") or self.offset_message_id

    @property
    def offset_message_id(self) -> str | None:
        """Id given by the broker; a message inside an inner batch has none."""
        return None if self._is_inner else self.record.offset_message_id

    @property
    def log_offset(self) -> int | None:
        """Offset in the commit log; a message inside an inner batch has none."""
        return None if self._is_inner else self.record.physical_offset

    def passes_tags(self) -> bool:
        """Return whether the tag is one of those asked for, compared as text."""
        return not self._content.filters(self.topic) or self.property_of("TAGS") in self._content.tags

    def _attempt(self, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except DecodeError as error:
            _require_tolerance(error, self._queue, self._content)
            return None


def read_rows(record: Record, queue: MessageQueue, content: Content, position: int | None = None) -> Iterator[Row]:
    """Yield the message of a record, or the messages of an inner batch.

    The record stands at `position`; without one, at the offset written in it. An inner batch that cannot be unwrapped
    becomes one row without a body, if the mode tolerates that.
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


def _require_tolerance(error: DecodeError, queue: MessageQueue, content: Content) -> None:
    """Raise the error in mode FAILFAST, with the broker and the modes that go on."""
    if content.mode is Mode.FAILFAST:
        error.advice = error.advice or "set mode to PERMISSIVE (null) or DROPMALFORMED (leave out) to go on"
        raise error.locate(broker=queue.broker_name) from error.__cause__


def json_string(text: str) -> str:
    """Return a text as a JSON string, quotes included."""
    return json.dumps(text, ensure_ascii=False)


def _json_object(properties: dict[str, str]) -> str:
    return "{" + ",".join(f"{json_string(name)}:{json_string(value)}" for name, value in properties.items()) + "}"
