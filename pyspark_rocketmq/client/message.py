"""What is in a received message, and what does it cost to look?

A `ReceivedMessage` is a view of one record inside a pull's answer. Only its offset and the size of its body are read
when it arrives; everything else is decoded when it is asked for. It is itself the entry that a process queue holds.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import NamedTuple

from ..model import DEAD_LETTER_PREFIX, RETRY_PREFIX, MessageQueue
from ..wire.record import Record, decode_record, encode_record, unwrap_inner_batch
from ..wire.scan import scan
from ..wire.sys_flag import SysFlag

__all__ = ["Pulled", "ReceivedMessage", "read_messages", "view_record"]

_SYS_FLAG_AT = 36
_BODY_LENGTH_AT = 84
_IPV6_EXTRA = 12
_INT = struct.Struct(">i")
_FLAG_AND_LENGTH = struct.Struct(">i44xi")
"""sysFlag and, behind two IPv4 hosts, the body's length."""
_IPV6 = SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6
_INNER_BATCH = SysFlag.NEED_UNWRAP | SysFlag.INNER_BATCH


class Pulled(NamedTuple):
    """What the messages of one answer share."""

    queue: MessageQueue
    data: memoryview
    min_offset: int
    max_offset: int
    unwrap: Callable[[str], str]
    """Our name for a topic of the cluster."""


class ReceivedMessage:
    """One message as a member received it."""

    message_count = 1

    def __init__(self, pulled: Pulled, start: int, offset: int, body_bytes: int) -> None:
        self.offset = self.last_offset = offset
        self.body_bytes = body_bytes
        """Size of the body as it is stored."""
        self.failed_here = 0
        """How often it failed in this client without its broker learning of it."""
        self._pulled = pulled
        self._start = start

    def __repr__(self) -> str:
        return f"<ReceivedMessage {self.queue}@{self.offset}, {self.body_bytes} bytes>"

    @property
    def queue(self) -> MessageQueue:
        """Where it is stored."""
        return self._pulled.queue

    @property
    def topic(self) -> str:
        """Where it was sent to in the beginning, whatever topic of retries or dead letters it lies in."""
        if self.queue.topic.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX)) and (
            origin := self.properties.get("RETRY_TOPIC")
        ):
            return self._pulled.unwrap(origin)
        return self.queue.topic

    @cached_property
    def body(self) -> bytes:
        """The body as its producer meant it."""
        return self.record.unpacked_body()

    @cached_property
    def properties(self) -> dict[str, str]:
        """Name to value, reserved names included."""
        return self.record.properties

    @property
    def tags(self) -> str | None:
        """The tag by which it is filtered."""
        return self.properties.get("TAGS")

    @property
    def keys(self) -> str | None:
        """The keys by which it is found."""
        return self.properties.get("KEYS")

    @property
    def message_id(self) -> str:
        """Its producer's unique id, else its broker's."""
        return self.properties.get("UNIQ_KEY") or self.record.offset_message_id

    @property
    def reconsume_times(self) -> int:
        """How often consuming it has failed."""
        return self.record.reconsume_times + self.failed_here

    @property
    def born_timestamp_ms(self) -> int:
        """When it was sent."""
        return self.record.born_timestamp

    @property
    def store_timestamp_ms(self) -> int:
        """When it was stored."""
        return self.record.store_timestamp

    @property
    def max_offset(self) -> int:
        """The queue's next offset when the message was pulled."""
        return self._pulled.max_offset

    @property
    def min_offset(self) -> int:
        """The queue's smallest offset when the message was pulled."""
        return self._pulled.min_offset

    @cached_property
    def record(self) -> Record:
        """Every stored field."""
        return decode_record(self._pulled.data, self._start)[0]


def read_messages(pulled: Pulled, asked_offset: int) -> list[ReceivedMessage]:
    """The messages of an answer; those of an inner batch singly, without such as lie before what was asked for."""
    data, read, ipv6, inner_batch = pulled.data, _FLAG_AND_LENGTH.unpack_from, _IPV6, _INNER_BATCH
    messages: list[ReceivedMessage] = []
    found = scan(data)
    for start, offset in zip(found.starts, found.queue_offsets, strict=True):
        flags, size = read(data, start + _SYS_FLAG_AT)
        if flags & inner_batch == inner_batch:
            messages += (each for each in _unwrapped(pulled, start) if each.offset >= asked_offset)
            continue
        if flags & ipv6:
            size = _length_behind_ipv6(data, start, flags)
        messages.append(ReceivedMessage(pulled, start, offset, size))
    return messages


def _length_behind_ipv6(data: memoryview, start: int, flags: int) -> int:
    longer_hosts = bool(flags & SysFlag.BORN_HOST_V6) + bool(flags & SysFlag.STORE_HOST_V6)
    (size,) = _INT.unpack_from(data, start + _BODY_LENGTH_AT + _IPV6_EXTRA * longer_hosts)
    return int(size)


def _unwrapped(pulled: Pulled, start: int) -> Iterator[ReceivedMessage]:
    for record in unwrap_inner_batch(decode_record(pulled.data, start)[0]):
        yield view_record(pulled, record)


def view_record(pulled: Pulled, record: Record) -> ReceivedMessage:
    """A message that is no part of an answer's bytes."""
    own = pulled._replace(data=memoryview(encode_record(record)))
    return ReceivedMessage(own, 0, record.queue_offset, len(record.body))
