"""View received messages, and decode their fields when a caller reads them.

A `ReceivedMessage` is a view of one record in the response to a pull. A `MessageBatch` is a sequence of messages of one
response that are consumed together; a process queue stores such batches. When a response arrives, only the starts of
its records are found; message objects are made when a caller reads the messages of a batch.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple, Self, overload

from ..model import DEAD_LETTER_PREFIX, RETRY_PREFIX, MessageQueue
from ..wire.codes import SysFlag
from ..wire.record import Record, decode_record, encode_record, unwrap_inner_batch
from ..wire.scan import record_starts

__all__ = ["MessageBatch", "Pulled", "ReceivedMessage", "read_batch", "read_messages", "view_record"]

_QUEUE_OFFSET = struct.Struct(">20xq")
_CONSUME_START = "CONSUME_START_TIME"
_FLAGS_AT = 39
"""Position, in a record, of that byte of sysFlag which has the flags of inner batches."""
_INNER_BATCH = int(SysFlag.NEED_UNWRAP | SysFlag.INNER_BATCH)


class Pulled(NamedTuple):
    """The bytes of a pull response, and what holds for all messages in it: their queue and its bounds."""

    queue: MessageQueue
    data: memoryview
    min_offset: int
    max_offset: int
    unwrap: Callable[[str], str]
    """Takes a topic's name and returns it without the prefix of the namespace."""


class ReceivedMessage:
    """One message as a member received it."""

    _consume_start_ms: int | None = None

    def __init__(self, pulled: Pulled, start: int) -> None:
        self.offset = _offset_at(pulled.data, start)
        self.failed_here = 0
        """How often the message failed in this client without being sent back; brokers do not count these failures."""
        self.is_sent_back = False
        """Whether the message was sent back while its listener still held it."""
        self._pulled = pulled
        self._start = start

    def __repr__(self) -> str:
        return f"<ReceivedMessage {self.queue}@{self.offset}>"

    @property
    def queue(self) -> MessageQueue:
        """The queue that stores the message; for a retried message, a queue of the retry topic."""
        return self._pulled.queue

    @property
    def topic(self) -> str:
        """The topic to which the message was first sent, even if a retry or dead-letter topic stores it now."""
        if self.queue.topic.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX)) and (
            origin := self.properties.get("RETRY_TOPIC")
        ):
            return self.unwrap(origin)
        return self.queue.topic

    def unwrap(self, topic: str) -> str:
        """Return the user's name of a topic that a property names."""
        return self._pulled.unwrap(topic)

    @property
    def body_bytes(self) -> int:
        """The size of the body as it is stored, which may be compressed."""
        return len(self.record.body)

    @cached_property
    def body(self) -> bytes:
        """The body, decompressed."""
        return self.record.unpacked_body()

    @cached_property
    def properties(self) -> dict[str, str]:
        """All properties by name, including those that RocketMQ adds.

        CONSUME_START_TIME is the time, in milliseconds since 1970, at which a concurrent listener got the message.
        """
        properties = self.record.properties
        if self._consume_start_ms is not None:
            properties[_CONSUME_START] = str(self._consume_start_ms)
        return properties

    def note_consume_start(self, now_ms: int) -> None:
        """Set the property CONSUME_START_TIME to `now_ms`, also in a dict that `properties` has returned before."""
        self._consume_start_ms = now_ms
        if (known := self.__dict__.get("properties")) is not None:
            known[_CONSUME_START] = str(now_ms)

    @property
    def tags(self) -> str | None:
        """The message's tag, by which brokers filter; None without one."""
        return self.properties.get("TAGS")

    @property
    def keys(self) -> str | None:
        """The keys, separated by spaces, by which tools find the message; None without keys."""
        return self.properties.get("KEYS")

    @property
    def message_id(self) -> str:
        """The unique id that the producer gave the message; without one, the id that the broker gave it."""
        return self.properties.get("UNIQ_KEY") or self.record.offset_message_id

    @property
    def reconsume_times(self) -> int:
        """The number of failed attempts to consume the message."""
        return self.record.reconsume_times + self.failed_here

    @property
    def born_timestamp_ms(self) -> int:
        """The time at which the message was sent, in milliseconds since 1970."""
        return self.record.born_timestamp

    @property
    def store_timestamp_ms(self) -> int:
        """The time at which the message was stored, in milliseconds since 1970."""
        return self.record.store_timestamp

    @property
    def max_offset(self) -> int:
        """The end of the message's queue, as the broker reported it with the response."""
        return self._pulled.max_offset

    @property
    def min_offset(self) -> int:
        """The smallest offset in the message's queue, as the broker reported it with the response."""
        return self._pulled.min_offset

    @cached_property
    def record(self) -> Record:
        """The stored record, decoded: every field of the message."""
        return decode_record(self._pulled.data, self._start)[0]


class MessageBatch(Sequence[ReceivedMessage]):
    """At least one message of one queue; all of them are consumed together and leave the process queue together."""

    __slots__ = (
        "_consume_start_ms",
        "_end",
        "_messages",
        "_pulled",
        "_starts",
        "body_bytes",
        "last_offset",
        "message_count",
        "offset",
    )

    def __init__(self, pulled: Pulled, starts: Sequence[int], end: int) -> None:
        """Make a batch of consecutive records in `pulled.data`, which start at `starts`; the last one ends at `end`."""
        self._pulled: Pulled | None = pulled
        self._starts = starts
        self._end = end
        self._messages: Sequence[ReceivedMessage] | None = None
        self._consume_start_ms: int | None = None
        data, self.message_count = pulled.data, len(starts)
        self.offset = _offset_at(data, starts[0])
        self.last_offset = self.offset if self.message_count == 1 else _offset_at(data, starts[-1])
        self.body_bytes = end - starts[0]
        """The bytes of the stored records, or of the bodies alone if the batch was made by `of`."""

    @classmethod
    def of(cls, messages: Sequence[ReceivedMessage]) -> Self:
        """Make a batch from existing message objects, at least one; `__init__` makes one from stored records."""
        made = cls.__new__(cls)
        made._pulled, made._messages = None, messages
        made._consume_start_ms = None
        made.message_count = len(messages)
        made.offset, made.last_offset = messages[0].offset, messages[-1].offset
        made.body_bytes = sum(message.body_bytes for message in messages)
        return made

    def __repr__(self) -> str:
        return f"<MessageBatch {self.message_count} messages of {self[0].queue} from {self.offset} on>"

    def __len__(self) -> int:
        return self.message_count

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
        """The message objects; they are made when this is first read."""
        if self._messages is None:
            assert self._pulled is not None, "a batch without records has its messages"
            self._messages = [ReceivedMessage(self._pulled, start) for start in self._starts]
            if self._consume_start_ms is not None:
                self.note_consume_start(self._consume_start_ms)
        return self._messages

    def note_consume_start(self, now_ms: int) -> None:
        """Set the property CONSUME_START_TIME of all messages, whether their objects are made already or later."""
        self._consume_start_ms = now_ms
        for message in self._messages or ():
            message.note_consume_start(now_ms)

    def pieces(self, size: int) -> list[MessageBatch]:
        """Cut this batch into batches of `size` messages and return them in order; the last one may be smaller."""
        if self.message_count <= size:
            return [self]
        firsts, pulled = range(0, self.message_count, size), self._pulled
        if pulled is None or self._messages is not None:
            return [MessageBatch.of(self.messages[first : first + size]) for first in firsts]
        starts = self._starts
        ends = [*starts[size::size], self._end]
        return [
            MessageBatch(pulled, starts[first : first + size], end) for first, end in zip(firsts, ends, strict=True)
        ]


def read_messages(pulled: Pulled, requested_offset: int) -> Sequence[ReceivedMessage]:
    """Return the messages of a response.

    An inner batch (one record with several messages) is unpacked, and its messages before `requested_offset` are left
    out.
    """
    batch = read_batch(pulled, requested_offset)
    return batch.messages if batch else ()


def read_batch(pulled: Pulled, requested_offset: int) -> MessageBatch | None:
    """Return the messages of a response as one batch; None if there are none.

    Message objects are made later, when a caller reads `messages` of the batch. Only if the response has an inner
    batch (one record with several messages), they are made now, without messages before `requested_offset`.
    """
    data = pulled.data
    starts = record_starts(data)
    if any(data[start + _FLAGS_AT] & _INNER_BATCH == _INNER_BATCH for start in starts):
        messages = [each for each in _read_singly(pulled, starts) if each.offset >= requested_offset]
        return MessageBatch.of(messages) if messages else None
    return MessageBatch(pulled, starts, len(data)) if starts else None


def _read_singly(pulled: Pulled, starts: Iterable[int]) -> Iterator[ReceivedMessage]:
    for start in starts:
        if pulled.data[start + _FLAGS_AT] & _INNER_BATCH == _INNER_BATCH:
            for record in unwrap_inner_batch(decode_record(pulled.data, start)[0]):
                yield view_record(pulled, record)
        else:
            yield ReceivedMessage(pulled, start)


def view_record(pulled: Pulled, record: Record) -> ReceivedMessage:
    """Return a message object for one decoded record; `pulled` gives its queue and bounds, but not its bytes."""
    return ReceivedMessage(pulled._replace(data=memoryview(encode_record(record))), 0)


def _offset_at(data: memoryview, start: int) -> int:
    offset: int = _QUEUE_OFFSET.unpack_from(data, start)[0]
    return offset
