"""Where does a broker keep its messages, and what does it hand out?

As in RocketMQ: one *commit log* holds every record, already encoded, in the order of arrival; its byte offset is a
record's address. Per queue a *consume queue* lists address, size, tag code and store time of each message. A pull
therefore looks up a stretch of four columns and slices the log; nothing is encoded or decoded.

The log lies in segments of fixed size, whose memory is only taken when it is written to. A record never crosses from
one segment into the next.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, Protocol

import numpy as np

from pyspark_rocketmq.model import Address
from pyspark_rocketmq.wire.java import java_hash
from pyspark_rocketmq.wire.message_id import encode_message_id
from pyspark_rocketmq.wire.properties import join_properties
from pyspark_rocketmq.wire.record import Record, decode_record, encode_record

from .clock import Clock

SEGMENT_BYTES = 64 * 1024 * 1024
_PLACE = struct.Struct(">qq")
_PLACE_AT = 20
"""Where a record holds its queue offset and, behind it, its physical offset."""

QueueKey = tuple[str, int]
"""Topic and queue number."""


class GetStatus(Enum):
    """What a look into a queue came to; the names are the broker's, and its answers' remarks."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"
    OFFSET_RESET = "OFFSET_RESET"


class MessageFilter(Protocol):
    """Which messages a subscription wants: first the tag code is asked, then, if need be, the properties."""

    @property
    def reads_properties(self) -> bool:
        """Whether the tag code alone does not decide."""

    def matches_code(self, tag_code: int) -> bool:
        """Whether a message with this tag code may be wanted."""

    def matches_properties(self, properties: Mapping[str, str]) -> bool:
        """Whether a message with these properties is wanted."""


@dataclass(slots=True)
class InnerMessage:
    """A message inside the broker, on its way into the log."""

    topic: str
    queue_id: int
    body: bytes
    properties: dict[str, str] = field(default_factory=dict)
    flag: int = 0
    sys_flag: int = 0
    born_timestamp: int = 0
    born_host: Address = Address("127.0.0.1", 0)
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    tag_code: int | None = None
    """What the consume queue says instead of the hash of the tag; delay queues keep due times there."""
    appended_properties: str = ""
    """Text stored behind the properties as it is: brokers do so to each message of a batch."""


class Stored(NamedTuple):
    """Where a message was put."""

    message_id: str
    queue_offset: int
    physical_offset: int
    store_timestamp: int


@dataclass(frozen=True, slots=True)
class PullLimits:
    """How much one answer may hold; the defaults are the broker's."""

    memory_bytes: int = 256 * 1024
    memory_count: int = 32
    disk_bytes: int = 64 * 1024
    disk_count: int = 8
    warm_bytes: int | None = None
    """How far behind the log's end data counts as "in memory"; None: all of it."""
    filter_bytes: int = 16_000
    total_bytes: int = 128 * 1024 * 1024
    index_file_entries: int = 300_000


class Got(NamedTuple):
    """What a look into a queue found."""

    status: GetStatus
    next_begin_offset: int
    min_offset: int
    max_offset: int
    records: tuple[memoryview, ...] = ()
    cold: bool = False
    """Whether the data counts as read from disk, so that a slave had better be asked next time."""


def anonymous_segment(index: int) -> memoryview:
    """Room for a segment in memory, taken from the system only as it is written to."""
    return memoryview(np.zeros(SEGMENT_BYTES, np.uint8))


class CommitLog:
    """Every record in the order of arrival."""

    def __init__(self, open_segment: Callable[[int], memoryview] = anonymous_segment) -> None:
        self._open_segment = open_segment
        self._segments: list[memoryview] = []
        self._ends: list[int] = []
        self.min_offset = 0
        """What lies before it has been deleted."""

    @property
    def end(self) -> int:
        """The address the next record gets, should it fit into the segment."""
        return (len(self._ends) - 1) * SEGMENT_BYTES + self._ends[-1] if self._ends else 0

    def reserve(self, size: int) -> tuple[int, memoryview]:
        """Room for so many bytes in one piece: its address, and the memory to fill."""
        if not self._ends or self._ends[-1] + size > SEGMENT_BYTES:
            self._segments.append(self._open_segment(len(self._segments)))
            self._ends.append(0)
        physical, start = self.end, self._ends[-1]
        self._ends[-1] = start + size
        return physical, self._segments[-1][start : start + size]

    def room(self) -> int:
        """How many bytes the segment under way still takes."""
        return SEGMENT_BYTES - self._ends[-1] if self._ends else SEGMENT_BYTES

    def read(self, physical: int, size: int) -> memoryview:
        """The bytes at an address; a view, valid as long as somebody holds it."""
        at = physical % SEGMENT_BYTES
        return self._segments[physical // SEGMENT_BYTES][at : at + size]

    def record_at(self, physical: int) -> memoryview | None:
        """The record that begins at an address, None if none can be there."""
        index, at = divmod(physical, SEGMENT_BYTES)
        if physical < self.min_offset or index >= len(self._ends) or at + 4 > self._ends[index]:
            return None
        size = int.from_bytes(self.read(physical, 4), "big")
        return self.read(physical, size) if 0 < size <= self._ends[index] - at else None

    def records(self, start: int = 0) -> Iterator[tuple[int, memoryview]]:
        """Every record from an address on, with its address."""
        first, at = divmod(start, SEGMENT_BYTES)
        for index in range(first, len(self._ends)):
            while at < self._ends[index]:
                physical = index * SEGMENT_BYTES + at
                record = self.read(physical, int.from_bytes(self.read(physical, 4), "big"))
                yield physical, record
                at += len(record)
            at = 0


class ConsumeQueue:
    """The columns of one queue; entry i belongs to offset `base + i`."""

    __slots__ = ("base", "codes", "min_offset", "physical", "sizes", "store_times")

    def __init__(self, base: int = 0) -> None:
        self.base = self.min_offset = base
        self.physical = array("q")
        self.sizes = array("i")
        self.codes = array("q")
        self.store_times = array("q")

    @property
    def max_offset(self) -> int:
        """The offset the next message gets."""
        return self.base + len(self.physical)

    def append(self, physical: int, size: int, code: int, store_time: int) -> None:
        """Take note of a message."""
        self.physical.append(physical)
        self.sizes.append(size)
        self.codes.append(code)
        self.store_times.append(store_time)

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        """Offset, address and size of each message still there."""
        for index in range(self.min_offset - self.base, len(self.physical)):
            yield self.base + index, self.physical[index], self.sizes[index]


_EMPTY_QUEUE = ConsumeQueue()


class Store:
    """The messages of one broker."""

    def __init__(
        self,
        clock: Clock,
        host: Address,
        limits: PullLimits = PullLimits(),
        open_segment: Callable[[int], memoryview] = anonymous_segment,
    ) -> None:
        self.clock = clock
        self.host = host
        self.limits = limits
        self.log = CommitLog(open_segment)
        self.queues: dict[QueueKey, ConsumeQueue] = {}

    def __repr__(self) -> str:
        return f"<Store of {self.host}, {len(self.queues)} queues, {self.log.end} bytes>"

    # --- writing -----------------------------------------------------------------------------------------------------

    def put(self, message: InnerMessage) -> Stored:
        """Append a message to the log and to its queue."""
        queue = self.queues.setdefault((message.topic, message.queue_id), ConsumeQueue())
        now, offset = self.clock.now_ms(), queue.max_offset
        data = encode_record(_record(message, now, self.host))
        physical, room = self.log.reserve(len(data))
        room[:] = data
        _PLACE.pack_into(room, _PLACE_AT, offset, physical)
        queue.append(physical, len(data), _tag_code(message), now)
        return Stored(encode_message_id(self.host, physical), offset, physical, now)

    # --- reading -----------------------------------------------------------------------------------------------------

    def min_offset(self, topic: str, queue_id: int) -> int:
        """The first offset still there; 0 for a queue never used."""
        return self.queue(topic, queue_id).min_offset

    def max_offset(self, topic: str, queue_id: int) -> int:
        """The offset of the next message; 0 for a queue never used."""
        return self.queue(topic, queue_id).max_offset

    def queue(self, topic: str, queue_id: int) -> ConsumeQueue:
        """The columns of a queue; those of an empty one if it was never used."""
        return self.queues.get((topic, queue_id), _EMPTY_QUEUE)

    def get_message(
        self, topic: str, queue_id: int, offset: int, max_count: int, wanted: MessageFilter | None = None
    ) -> Got:
        """Messages of a queue from an offset on, within the limits; `wanted` None takes all."""
        queue = self.queue(topic, queue_id)
        low, high = queue.min_offset, self.max_offset(topic, queue_id)
        if high == 0:
            return Got(GetStatus.NO_MESSAGE_IN_QUEUE, 0, low, high)
        if offset < low:
            return Got(GetStatus.OFFSET_TOO_SMALL, low, low, high)
        if offset == high:
            return Got(GetStatus.OFFSET_OVERFLOW_ONE, offset, low, high)
        if offset > high:
            return Got(GetStatus.OFFSET_OVERFLOW_BADLY, high, low, high)
        return _Scan(self, queue, offset, max_count, wanted).run(low, high)
