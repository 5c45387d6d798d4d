"""What is in a received message, and what does it cost to look?

A `ReceivedMessage` is a view of one record inside a pull's answer; its fields are decoded when they are asked for. A
`MessageBatch` stands for messages of one answer that are consumed together, and it is the entry that a process queue
holds. Of an answer only places, offsets and sizes are read when it arrives; the message objects are made when somebody
looks into their batch.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple, Self, overload

from ..model import DEAD_LETTER_PREFIX, RETRY_PREFIX, MessageQueue
from ..wire.record import Record, decode_record, encode_record, unwrap_inner_batch
from ..wire.scan import scan
from ..wire.sys_flag import SysFlag

__all__ = ["MessageBatch", "Pulled", "ReceivedMessage", "read_messages", "view_record"]

_SYS_FLAG_AT = 36
_BODY_LENGTH_AT = 84
_IPV6_EXTRA = 12
_INT = struct.Struct(">i")
_FLAG_AND_LENGTH = struct.Struct(">i44xi")
"""sysFlag and, behind two IPv4 hosts, the body's length."""
_IPV6 = SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6
_INNER_BATCH = SysFlag.NEED_UNWRAP | SysFlag.INNER_BATCH
_ODD = int(_IPV6 | _INNER_BATCH)
"""Flags of records whose body's length stands elsewhere, or that hold several messages."""

_Found = tuple[int, int, int]
"""A record's place in the answer, its offset, and the size of its body."""


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

    def __init__(self, pulled: Pulled, start: int, offset: int, body_bytes: int) -> None:
        self.offset = offset
        self.body_bytes = body_bytes
        """Size of the body as it is stored."""
        self.failed_here = 0
        """How often it failed in this client without its broker learning of it."""
        self.is_sent_back = False
        """Whether its broker has it again, because its listener held it for too long."""
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


class MessageBatch(Sequence[ReceivedMessage]):
    """Messages of one answer that are consumed, and done, together."""

    __slots__ = ("_found", "_messages", "_pulled", "body_bytes")

    def __init__(
        self, pulled: Pulled, found: Sequence[_Found], messages: Sequence[ReceivedMessage] | None = None
    ) -> None:
        self._pulled = pulled
        self._found = found
        self._messages = messages
        self.body_bytes = sum([size for _, _, size in found])
        """Size of all bodies as they are stored."""

    @classmethod
    def of(cls, pulled: Pulled, messages: Iterable[ReceivedMessage]) -> Self:
        """A batch of messages that exist already."""
        given = list(messages)
        return cls(pulled, [(message._start, message.offset, message.body_bytes) for message in given], given)

    def __repr__(self) -> str:
        return f"<MessageBatch {len(self)} messages of {self._pulled.queue}, {self.body_bytes} bytes>"

    def __len__(self) -> int:
        return len(self._found)

    @overload
    def __getitem__(self, index: int) -> ReceivedMessage: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[ReceivedMessage]: ...
    def __getitem__(self, index: int | slice) -> ReceivedMessage | Sequence[ReceivedMessage]:
        return self.messages[index]

    def __iter__(self) -> Iterator[ReceivedMessage]:
        return iter(self.messages)

    @property
    def messages(self) -> Sequence[ReceivedMessage]:
        """The messages, made when they are first looked at."""
        if self._messages is None:
            pulled = self._pulled
            self._messages = [ReceivedMessage(pulled, *found) for found in self._found]
        return self._messages

    @property
    def offset(self) -> int:
        """Offset of the first message."""
        return self._found[0][1]

    @property
    def last_offset(self) -> int:
        """Offset of the last message."""
        return self._found[-1][1]

    @property
    def message_count(self) -> int:
        """How many messages there are."""
        return len(self._found)

    def pieces(self, size: int) -> list[MessageBatch]:
        """Batches of so many messages, the last of what is left."""
        if len(self) <= size:
            return [self] if self else []
        pulled, found, messages = self._pulled, self._found, self._messages
        return [
            MessageBatch(pulled, found[at : at + size], messages and messages[at : at + size])
            for at in range(0, len(found), size)
        ]

    def only(self, is_wanted: Callable[[ReceivedMessage], bool]) -> MessageBatch:
        """A batch of those messages that are wanted."""
        return MessageBatch.of(self._pulled, filter(is_wanted, self.messages))


def read_messages(pulled: Pulled, asked_offset: int) -> MessageBatch:
    """The messages of an answer; those of an inner batch singly, without such as lie before what was asked for."""
    data, read = pulled.data, _FLAG_AND_LENGTH.unpack_from
    starts, offsets, _ = scan(data)
    heads = [read(data, start + _SYS_FLAG_AT) for start in starts]
    if any(flags & _ODD for flags, _ in heads):
        return MessageBatch.of(pulled, _read_odd(pulled, asked_offset))
    sizes = [size for _, size in heads]
    return MessageBatch(pulled, list(zip(starts, offsets, sizes, strict=True)))


def _read_odd(pulled: Pulled, asked_offset: int) -> Iterator[ReceivedMessage]:
    data = pulled.data
    found = scan(data)
    for start, offset in zip(found.starts, found.queue_offsets, strict=True):
        flags, size = _FLAG_AND_LENGTH.unpack_from(data, start + _SYS_FLAG_AT)
        if flags & _INNER_BATCH == _INNER_BATCH:
            yield from (each for each in _unwrapped(pulled, start) if each.offset >= asked_offset)
        else:
            longer = flags & _IPV6
            yield ReceivedMessage(pulled, start, offset, _length_behind_ipv6(data, start, flags) if longer else size)


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
