"""What does a look into a queue find, and where does it stop?

The broker walks the queue's columns from an offset on: the tag code decides first, then, if the filter must know more,
the properties. It stops at what one answer may hold, or when it has looked at enough entries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol

from pyspark_rocketmq.wire.record import decode_record

from .commit_log import SEGMENT_BYTES, CommitLog
from .consume_queue import ConsumeQueue

_INDEX_ENTRY_BYTES = 20
"""Size of a consume queue's entry in a real broker, whose scan limit counts bytes."""


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


class GetResult(NamedTuple):
    """What a look into a queue found."""

    status: GetStatus
    next_begin_offset: int
    min_offset: int
    max_offset: int
    records: tuple[memoryview, ...] = ()
    cold: bool = False
    """Whether the data counts as read from disk, so that a slave had better be asked next time."""


class Scan:
    """One walk through a queue's columns by the broker's rules."""

    def __init__(self, log: CommitLog, limits: PullLimits, queue: ConsumeQueue, max_count: int) -> None:
        self.status = GetStatus.NO_MATCHED_MESSAGE
        self.next_offset = queue.min_offset
        """Where the next walk is to begin."""
        self.records: list[memoryview] = []
        """What was found; a view may hold several records, one behind the other."""
        self._log, self._limits, self._queue, self._max_count = log, limits, queue, max_count
        self._bytes = 0

    def run(self, offset: int, end: int, wanted: MessageFilter | None) -> None:
        """Walk from an offset within the bounds; `wanted` None takes all."""
        limits = self._limits
        entries = -(-max(limits.filter_bytes, self._max_count * _INDEX_ENTRY_BYTES) // _INDEX_ENTRY_BYTES)
        file_end = (offset // limits.index_file_entries + 1) * limits.index_file_entries
        end = min(end, offset + entries, file_end)
        if wanted is not None or not self._take_stretch(offset, end):
            self._walk(offset, end, wanted)

    def is_cold(self, physical: int) -> bool:
        """Whether an address counts as being on disk only."""
        return self._limits.warm_bytes is not None and self._log.end - physical > self._limits.warm_bytes

    def _take_stretch(self, offset: int, end: int) -> bool:
        """Take all that one answer may hold in one slice, where nothing is filtered, cold, deleted or scattered."""
        limits, queue = self._limits, self._queue
        first = offset - queue.base
        count = min(end - offset, max(self._max_count, 1), limits.memory_count)
        sizes = queue.sizes[first : first + count]
        start, last = queue.physical[first], queue.physical[first + count - 1]
        size = sum(sizes)
        is_dense = last + sizes[-1] - start == size and start // SEGMENT_BYTES == last // SEGMENT_BYTES
        is_warm = limits.warm_bytes is None and start >= self._log.min_offset
        if not (is_dense and is_warm) or size > limits.memory_bytes:
            return False
        self.records.append(self._log.read(start, size))
        self.status, self.next_offset = GetStatus.FOUND, offset + count
        return True

    def _walk(self, offset: int, end: int, wanted: MessageFilter | None) -> None:
        queue, log = self._queue, self._log
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
        limits, count = self._limits, len(self.records)
        if count >= self._max_count or self._bytes + size > limits.total_bytes:
            return True
        if self.is_cold(physical):
            return self._bytes + size > limits.disk_bytes or count >= limits.disk_count
        return self._bytes + size > limits.memory_bytes or count >= limits.memory_count


def place(offset: int, low: int, high: int) -> tuple[GetStatus, int]:
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
