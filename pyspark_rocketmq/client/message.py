"""What is in a received message, and what does it cost to look?

A `ReceivedMessage` is a view of one record inside a pull's answer; its fields are decoded when they are asked for. A
`MessageBatch` stands for messages of one answer that are consumed together, and it is the entry that a process queue
holds. When an answer arrives it is only walked to see where its records begin; message objects are made when somebody
looks into their batch.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple, Self, overload

from ..model import DEAD_LETTER_PREFIX, RETRY_PREFIX, MessageQueue
from ..wire.record import Record, decode_record, encode_record, unwrap_inner_batch
from ..wire.scan import record_starts
from ..wire.sys_flag import SysFlag

__all__ = ["MessageBatch", "Pulled", "ReceivedMessage", "read_batch", "read_messages", "view_record"]

_QUEUE_OFFSET = struct.Struct(">20xq")
_FLAGS_AT = 39
"""The byte of sysFlag that tells of inner batches."""
_INNER_BATCH = int(SysFlag.NEED_UNWRAP | SysFlag.INNER_BATCH)


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

    def __init__(self, pulled: Pulled, start: int) -> None:
        self.offset = _offset_at(pulled.data, start)
        self.failed_here = 0
        """How often it failed in this client without its broker learning of it."""
        self.is_sent_back = False
        """Whether its broker has it again, because its listener held it for too long."""
        self._pulled = pulled
        self._start = start

    def __repr__(self) -> str:
        return f"<ReceivedMessage {self.queue}@{self.offset}>"

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

    @property
    def body_bytes(self) -> int:
        """Size of the body as it is stored."""
        return len(self.record.body)

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
    """Messages of one queue, one at least, that are consumed and done together."""

    __slots__ = ("_end", "_messages", "_pulled", "_starts", "body_bytes", "last_offset", "message_count", "offset")

    def __init__(self, pulled: Pulled, starts: Sequence[int], end: int) -> None:
        """Records of one answer that begin at these places, the last of which ends there."""
        self._pulled: Pulled | None = pulled
        self._starts = starts
        self._end = end
        self._messages: Sequence[ReceivedMessage] | None = None
        data, self.message_count = pulled.data, len(starts)
        self.offset = _offset_at(data, starts[0])
        self.last_offset = self.offset if self.message_count == 1 else _offset_at(data, starts[-1])
        self.body_bytes = end - starts[0]
        """Size of the stored records, a little more than that of the bodies."""

    @classmethod
    def of(cls, messages: Sequence[ReceivedMessage]) -> Self:
        """A batch of messages that exist already."""
        made = cls.__new__(cls)
        made._pulled, made._messages = None, messages
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
        """The messages, made when they are first looked at."""
        if self._messages is None:
            assert self._pulled is not None, "a batch without records has its messages"
            self._messages = [ReceivedMessage(self._pulled, start) for start in self._starts]
        return self._messages

    def pieces(self, size: int) -> list[MessageBatch]:
        """Batches of so many messages, the last of what is left."""
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


def read_messages(pulled: Pulled, asked_offset: int) -> Sequence[ReceivedMessage]:
    """The messages of an answer; those of an inner batch singly, without such as lie before what was asked for."""
    batch = read_batch(pulled, asked_offset)
    return batch.messages if batch else ()


def read_batch(pulled: Pulled, asked_offset: int) -> MessageBatch | None:
    """The same messages, not made before somebody looks at them; none if there is none."""
    data = pulled.data
    starts = record_starts(data)
    if any(data[start + _FLAGS_AT] & _INNER_BATCH == _INNER_BATCH for start in starts):
        messages = [each for each in _read_singly(pulled, starts) if each.offset >= asked_offset]
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
    """A message that is no part of an answer's bytes."""
    return ReceivedMessage(pulled._replace(data=memoryview(encode_record(record))), 0)


def _offset_at(data: memoryview, start: int) -> int:
    offset: int = _QUEUE_OFFSET.unpack_from(data, start)[0]
    return offset
