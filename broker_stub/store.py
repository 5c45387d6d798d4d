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
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from pyspark_rocketmq.model import Address
from pyspark_rocketmq.wire.host import is_ipv6
from pyspark_rocketmq.wire.java import java_hash
from pyspark_rocketmq.wire.message_id import encode_offset_message_id
from pyspark_rocketmq.wire.properties import join_properties
from pyspark_rocketmq.wire.record import Record, decode_record, encode_record
from pyspark_rocketmq.wire.sys_flag import SysFlag

from .clock import Clock

SEGMENT_BYTES = 64 * 1024 * 1024
_PLACE = struct.Struct(">qq")
_PLACE_AT, PHYSICAL_AT = 20, 28
"""Where a record holds its queue offset and, behind it, its address in the log."""
ENTRY_END = "\x02"
"""What stands behind each property."""
_INDEX_ENTRY_BYTES = 20
"""Size of a consume queue's entry in a real broker, whose scan limit counts bytes."""

NOWHERE = Address("127.0.0.1", 0)
"""Where a message comes from that the broker was given directly."""

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


class Boundary(Enum):
    """Which message a search by time means: the first at or after it, the last at or before it, or the nearest."""

    LOWER = "lower"
    UPPER = "upper"
    NEAREST = "nearest"
    """The rule of the releases before 5.1.1."""


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
    born_host: Address = NOWHERE
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    store_timestamp: int | None = None
    """When it counts as stored; None: now."""
    tag_code: int | None = None
    """What the consume queue says instead of the hash of the tag; delay queues keep due times there."""
    unstored: frozenset[str] = frozenset()
    """Properties that are known but not written."""
    raw_properties: bytes | None = None
    """Property text to be written as it is instead of `properties`: a batch brings its own."""

    def queue_code(self) -> int:
        """What the consume queue notes of the message besides its place."""
        return tag_code_of(self.properties) if self.tag_code is None else self.tag_code


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


DEFAULT_LIMITS = PullLimits()


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
    return np.zeros(SEGMENT_BYTES, np.uint8).data


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

    def add_segment(self, segment: memoryview, end: int) -> None:
        """Take over a segment that is filled up to `end`."""
        self._segments.append(segment)
        self._ends.append(end)

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

    def extend(self, physical: NDArray[np.int64], size: int, code: int, store_time: int) -> None:
        """Take note of many messages of one size."""
        count = len(physical)
        self.physical.frombytes(physical.astype(np.int64).tobytes())
        self.sizes.extend(array("i", [size]) * count)
        self.codes.extend(array("q", [code]) * count)
        self.store_times.extend(array("q", [store_time]) * count)

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        """Offset, address and size of each message still there."""
        for index in range(self.min_offset - self.base, len(self.physical)):
            yield self.base + index, self.physical[index], self.sizes[index]


_UNUSED = ConsumeQueue()


class Store:
    """The messages of one broker."""

    def __init__(
        self,
        clock: Clock,
        host: Address,
        limits: PullLimits = DEFAULT_LIMITS,
        log: CommitLog | None = None,
        *,
        ends_properties: bool = True,
    ) -> None:
        self.clock = clock
        self.host = host
        self.limits = limits
        self.ends_properties = ends_properties
        """Whether a separator is written behind the last property, too."""
        self.log = log or CommitLog()
        self.queues: dict[QueueKey, ConsumeQueue] = {}

    def __repr__(self) -> str:
        return f"<Store of {self.host}, {len(self.queues)} queues, {self.log.end} bytes>"

    # --- writing -----------------------------------------------------------------------------------------------------

    def put(self, message: InnerMessage) -> Stored:
        """Append a message to the log and to its queue."""
        queue = self.open_queue(message.topic, message.queue_id)
        now = self.clock.now_ms() if message.store_timestamp is None else message.store_timestamp
        data = encode_record(self.record(message, now))
        physical, room = self.log.reserve(len(data))
        room[:] = data
        offset = queue.max_offset
        _PLACE.pack_into(room, _PLACE_AT, offset, physical)
        queue.append(physical, len(data), message.queue_code(), now)
        return Stored(encode_offset_message_id(self.host, physical), offset, physical, now)

    def adopt(self, record: Record, queue_id: int) -> None:
        """Append a record of another broker, which keeps everything but its place."""
        queue = self.queues.setdefault((record.topic, queue_id), ConsumeQueue(record.queue_offset))
        physical, room = self.log.reserve(record.total_size)
        room[:] = encode_record(replace(record, queue_id=queue_id, physical_offset=physical))
        queue.append(physical, len(room), tag_code_of(record.properties), record.store_timestamp)

    def open_queue(self, topic: str, queue_id: int) -> ConsumeQueue:
        """The columns of a queue to write to; made at first use."""
        return self.queues.setdefault((topic, queue_id), ConsumeQueue())

    def expire(self, topic: str, queue_id: int, offset: int) -> None:
        """Delete the messages of a queue before an offset, as retention does."""
        queue = self.open_queue(topic, queue_id)
        queue.min_offset = max(queue.min_offset, min(offset, queue.max_offset))

    def remove_topic(self, topic: str) -> None:
        """Drop all queues of a topic; should it come again, it starts at 0."""
        for key in [key for key in self.queues if key[0] == topic]:
            del self.queues[key]

    # --- reading -----------------------------------------------------------------------------------------------------

    def queue(self, topic: str, queue_id: int) -> ConsumeQueue:
        """The columns of a queue to read; those of an empty one if it was never used."""
        return self.queues.get((topic, queue_id), _UNUSED)

    def min_offset(self, topic: str, queue_id: int) -> int:
        """The first offset still there; 0 for a queue never used."""
        return self.queue(topic, queue_id).min_offset

    def max_offset(self, topic: str, queue_id: int) -> int:
        """The offset of the next message; 0 for a queue never used."""
        return self.queue(topic, queue_id).max_offset

    def store_time(self, topic: str, queue_id: int, offset: int) -> int:
        """When the message at an offset was stored; -1 if there is none."""
        queue = self.queue(topic, queue_id)
        is_there = queue.min_offset <= offset < queue.max_offset
        return queue.store_times[offset - queue.base] if is_there else -1

    def search(self, topic: str, queue_id: int, time_ms: int, boundary: Boundary = Boundary.LOWER) -> int:
        """The offset that belongs to a store time."""
        queue = self.queue(topic, queue_id)
        first = queue.min_offset - queue.base
        if boundary is Boundary.UPPER:
            index = bisect_right(queue.store_times, time_ms, first) - 1
        else:
            index = bisect_left(queue.store_times, time_ms, first)
        if boundary is Boundary.NEAREST:
            index = _nearest(queue.store_times, index, first, time_ms)
        return min(queue.base + max(index, first), self.max_offset(topic, queue_id))

    def get_message(
        self, topic: str, queue_id: int, offset: int, max_count: int, wanted: MessageFilter | None = None
    ) -> Got:
        """Messages of a queue from an offset on, within the limits; `wanted` None takes all."""
        queue = self.queue(topic, queue_id)
        low, high = queue.min_offset, self.max_offset(topic, queue_id)
        status, right_offset = _place(offset, low, high)
        if status is not GetStatus.FOUND:
            return Got(status, self.correct(offset, right_offset), low, high)
        found = _Scan(self, queue, offset, high, max_count, wanted)
        cold = self.is_cold(queue.physical[offset - queue.base])
        return Got(found.status, found.next_offset, low, high, tuple(found.records), cold)

    def correct(self, offset: int, right_offset: int) -> int:
        """Where a reader who asked at a wrong offset is sent."""
        return right_offset

    def is_cold(self, physical: int) -> bool:
        """Whether an address counts as being on disk only."""
        return self.limits.warm_bytes is not None and self.log.end - physical > self.limits.warm_bytes

    def messages(self, topic: str, queue_id: int) -> Iterator[Record]:
        """All messages of a queue that are still there."""
        for _, physical, size in self.queue(topic, queue_id):
            yield decode_record(self.log.read(physical, size))[0]

    def message_at(self, physical: int) -> Record | None:
        """The message at an address of the log."""
        data = self.log.record_at(physical)
        return None if data is None else decode_record(data)[0]

    def record(self, message: InnerMessage, now: int) -> Record:
        """A message as it would be stored now, but for its place."""
        sys_flag = message.sys_flag & ~(SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6)
        sys_flag |= SysFlag.BORN_HOST_V6 * is_ipv6(message.born_host) | SysFlag.STORE_HOST_V6 * is_ipv6(self.host)
        return Record(
            topic=message.topic,
            queue_id=message.queue_id,
            queue_offset=0,
            physical_offset=0,
            born_timestamp=message.born_timestamp,
            born_host=message.born_host,
            store_timestamp=now,
            store_host=self.host,
            body=message.body,
            properties_text=self._properties_text(message),
            flag=message.flag,
            sys_flag=sys_flag,
            reconsume_times=message.reconsume_times,
            prepared_transaction_offset=message.prepared_transaction_offset,
        )

    def _properties_text(self, message: InnerMessage) -> bytes:
        if message.raw_properties is not None:
            return message.raw_properties
        kept = {name: value for name, value in message.properties.items() if name not in message.unstored}
        text = join_properties(kept)
        return (text if self.ends_properties else text.removesuffix(ENTRY_END)).encode()


class Replica(Store):
    """A slave's view of its master's messages, some messages behind in each queue."""

    def __init__(self, master: Store, host: Address) -> None:
        super().__init__(master.clock, host, master.limits, master.log)
        self.queues = master.queues
        self.lag = 0
        """How many messages of each queue have not been copied yet."""

    def max_offset(self, topic: str, queue_id: int) -> int:
        """The offset of the next message to be copied."""
        queue = self.queue(topic, queue_id)
        return max(queue.min_offset, queue.max_offset - self.lag)

    def correct(self, offset: int, right_offset: int) -> int:
        """A slave may be behind, so it does not judge offsets."""
        return offset


class _Scan:
    """One walk through a queue's columns by the broker's rules."""

    def __init__(
        self, store: Store, queue: ConsumeQueue, offset: int, end: int, max_count: int, wanted: MessageFilter | None
    ) -> None:
        limits = store.limits
        scanned = -(-max(limits.filter_bytes, max_count * _INDEX_ENTRY_BYTES) // _INDEX_ENTRY_BYTES)
        file_end = (offset // limits.index_file_entries + 1) * limits.index_file_entries
        self.status = GetStatus.NO_MATCHED_MESSAGE
        self.next_offset = offset
        self.records: list[memoryview] = []
        self._store, self._queue, self._max_count = store, queue, max_count
        self._bytes = 0
        end = min(end, offset + scanned, file_end)
        if wanted is None and self._take_stretch(offset, end):
            self.status = GetStatus.FOUND
        else:
            self._walk(offset, end, wanted)

    def _take_stretch(self, offset: int, end: int) -> bool:
        """Take all that one answer may hold in one slice, where nothing is filtered, cold, deleted or scattered."""
        store, queue = self._store, self._queue
        first = offset - queue.base
        count = min(end - offset, max(self._max_count, 1), store.limits.memory_count)
        sizes = queue.sizes[first : first + count]
        start, last = queue.physical[first], queue.physical[first + count - 1]
        size = sum(sizes)
        is_dense = last + sizes[-1] - start == size and start // SEGMENT_BYTES == last // SEGMENT_BYTES
        if store.limits.warm_bytes is not None or start < store.log.min_offset or not is_dense:
            return False
        if size > store.limits.memory_bytes:
            return False
        self.records.append(store.log.read(start, size))
        self.next_offset = offset + count
        return True

    def _walk(self, offset: int, end: int, wanted: MessageFilter | None) -> None:
        queue, log = self._queue, self._store.log
        for index in range(offset - queue.base, end - queue.base):
            physical, size = queue.physical[index], queue.sizes[index]
            if self.records and self._is_full(physical, size):
                return
            self.next_offset = queue.base + index + 1
            if wanted is not None and not wanted.matches_code(queue.codes[index]):
                self._skip(GetStatus.NO_MATCHED_MESSAGE)
            elif physical < log.min_offset:
                self._skip(GetStatus.MESSAGE_WAS_REMOVING)
            else:
                self._offer(log.read(physical, size), wanted)

    def _offer(self, data: memoryview, wanted: MessageFilter | None) -> None:
        if wanted is not None and wanted.reads_properties:
            if not wanted.matches_properties(decode_record(data)[0].properties):
                self._skip(GetStatus.NO_MATCHED_MESSAGE)
                return
        self.records.append(data)
        self._bytes += len(data)
        self.status = GetStatus.FOUND

    def _skip(self, status: GetStatus) -> None:
        if not self.records:
            self.status = status

    def _is_full(self, physical: int, size: int) -> bool:
        limits, count = self._store.limits, len(self.records)
        if count >= self._max_count or self._bytes + size > limits.total_bytes:
            return True
        if self._store.is_cold(physical):
            return self._bytes + size > limits.disk_bytes or count >= limits.disk_count
        return self._bytes + size > limits.memory_bytes or count >= limits.memory_count


def _place(offset: int, low: int, high: int) -> tuple[GetStatus, int]:
    """How an offset lies to a queue's bounds, and where to go on; FOUND if it lies within."""
    if high == 0:
        return GetStatus.NO_MESSAGE_IN_QUEUE, 0
    if offset < low:
        return GetStatus.OFFSET_TOO_SMALL, low
    if offset == high:
        return GetStatus.OFFSET_OVERFLOW_ONE, offset
    if offset > high:
        return GetStatus.OFFSET_OVERFLOW_BADLY, high
    return GetStatus.FOUND, offset


def _nearest(times: array[int], index: int, first: int, time_ms: int) -> int:
    """Of the entries around an insertion point the one whose time is nearer; a tie goes to the earlier."""
    if index == first or (index < len(times) and times[index] == time_ms):
        return index
    is_later_nearer = index < len(times) and times[index] - time_ms < time_ms - times[index - 1]
    return index if is_later_nearer else index - 1


def tag_code_of(properties: Mapping[str, str]) -> int:
    """By what the consume queue knows a message's tag; 0 if it has none."""
    return java_hash(properties.get("TAGS", ""))
