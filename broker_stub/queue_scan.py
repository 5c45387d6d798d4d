"""Scan a queue for the messages of one pull.

The broker walks the queue's columns from an offset on. The tag code decides first, then, if the filter needs them, the
properties. The scan stops at the limits of one response, or at the limit of entries that one pull may scan.
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
"""Size of an entry in a real broker's consume-queue file; the broker's scan limit counts these bytes."""


class GetStatus(Enum):
    """Outcome of reading a queue, by the broker's names; the broker uses these names as remarks of its responses."""

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
    """The interface of a subscription's filter.

    The broker checks the tag code first and then, if the filter reads properties, the message's properties.
    """

    @property
    def reads_properties(self) -> bool:
        """Whether the filter needs the message's properties, because the tag code does not decide alone."""

    def matches_code(self, tag_code: int) -> bool:
        """Return whether a message with this tag code may match."""

    def matches_properties(self, properties: Mapping[str, str]) -> bool:
        """Return whether a message with these properties matches."""


@dataclass(frozen=True, slots=True)
class PullLimits:
    """Limits of one response to a pull; the defaults are those of a real broker."""

    memory_bytes: int = 256 * 1024
    memory_count: int = 32
    disk_bytes: int = 64 * 1024
    disk_count: int = 8
    warm_bytes: int | None = None
    """Number of bytes at the log's end that count as in memory; None: the whole log."""
    filter_bytes: int = 16_000
    total_bytes: int = 128 * 1024 * 1024
    index_file_entries: int = 300_000


DEFAULT_LIMITS = PullLimits()


class GetResult(NamedTuple):
    """The result of reading messages from a queue for one pull."""

    status: GetStatus
    next_begin_offset: int
    min_offset: int
    max_offset: int
    records: tuple[memoryview, ...] = ()
    cold: bool = False
    """Whether the messages count as read from disk; the broker then suggests a slave."""


class QueueScan:
    """One scan of a queue's columns, by the broker's rules for a pull."""

    def __init__(self, log: CommitLog, limits: PullLimits, queue: ConsumeQueue, max_count: int) -> None:
        self.status = GetStatus.NO_MATCHED_MESSAGE
        self.next_offset = queue.min_offset
        """Offset behind the last scanned message, where the next pull begins."""
        self.records: list[memoryview] = []
        """The found records; one view may contain several adjacent records."""
        self._log, self._limits, self._queue, self._max_count = log, limits, queue, max_count
        self._bytes = 0

    def run(self, offset: int, end: int, message_filter: MessageFilter | None) -> None:
        """Scan the queue from `offset`, which must lie within its bounds, and add matching messages to `records`.

        Stop at `end` or at a limit of one pull. Without a filter every message matches.
        """
        limits = self._limits
        entries = -(-max(limits.filter_bytes, self._max_count * _INDEX_ENTRY_BYTES) // _INDEX_ENTRY_BYTES)
        file_end = (offset // limits.index_file_entries + 1) * limits.index_file_entries
        end = min(end, offset + entries, file_end)
        if message_filter is not None or not self._take_contiguous(offset, end):
            self._walk(offset, end, message_filter)

    def is_cold(self, physical: int) -> bool:
        """Return whether the record at this address of the log counts as only on disk, no longer in memory."""
        return self._limits.warm_bytes is not None and self._log.end - physical > self._limits.warm_bytes

    def _take_contiguous(self, offset: int, end: int) -> bool:
        """Add all messages of the response to `records` as one slice of the log, and return True.

        Return False and add nothing unless the messages are adjacent in the log, none of them is deleted, their total
        size is within the limit, and the whole log counts as in memory.
        """
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

    def _walk(self, offset: int, end: int, message_filter: MessageFilter | None) -> None:
        queue, log = self._queue, self._log
        for index in range(offset - queue.base, end - queue.base):
            physical, size = queue.physical[index], queue.sizes[index]
            if self.records and self._is_full(physical, size):
                return
            self.next_offset = queue.base + index + 1
            if message_filter is not None and not message_filter.matches_code(queue.codes[index]):
                self._skip(GetStatus.NO_MATCHED_MESSAGE)
            elif physical < log.min_offset:
                self._skip(GetStatus.MESSAGE_WAS_REMOVING)
            else:
                self._take_if_matching(log.read(physical, size), message_filter)

    def _take_if_matching(self, data: memoryview, message_filter: MessageFilter | None) -> None:
        if message_filter is not None and message_filter.reads_properties:
            if not message_filter.matches_properties(decode_record(data)[0].properties):
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


def check_bounds(offset: int, low: int, high: int) -> tuple[GetStatus, int]:
    """Compare an offset with a queue's minimum `low` and maximum `high`; return the status and the next offset to read.

    If a message has this offset, return FOUND and the offset itself; else the next offset is the broker's suggestion.
    """
    if high == 0:
        return GetStatus.NO_MESSAGE_IN_QUEUE, 0
    if offset < low:
        return GetStatus.OFFSET_TOO_SMALL, low
    if offset == high:
        return GetStatus.OFFSET_OVERFLOW_ONE, offset
    if offset > high:
        return GetStatus.OFFSET_OVERFLOW_BADLY, high
    return GetStatus.FOUND, offset
