"""Store all records of a broker in one log.

Records lie in the order of arrival, already encoded; a record's byte offset is its address. The log consists of
segments of fixed size, whose memory is taken from the system as it is written to. No record crosses the end of a
segment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

SEGMENT_BYTES = 64 * 1024 * 1024
PHYSICAL_AT = 28
"""Position of a record's own address."""


def anonymous_segment(index: int) -> memoryview:
    """Return memory for a segment, which the system provides as it is written to."""
    return np.zeros(SEGMENT_BYTES, np.uint8).data


class CommitLog:
    """Every record, in the order of arrival."""

    def __init__(self, open_segment: Callable[[int], memoryview] = anonymous_segment) -> None:
        self._open_segment = open_segment
        self._segments: list[memoryview] = []
        self._ends: list[int] = []
        self.min_offset = 0
        """Address before which records have been deleted."""

    @property
    def end(self) -> int:
        """Address of the next record, if the segment has room for it."""
        return (len(self._ends) - 1) * SEGMENT_BYTES + self._ends[-1] if self._ends else 0

    def reserve(self, size: int) -> tuple[int, memoryview]:
        """Reserve contiguous room; return its address and the memory to fill."""
        if not self._ends or self._ends[-1] + size > SEGMENT_BYTES:
            self._segments.append(self._open_segment(len(self._segments)))
            self._ends.append(0)
        physical, start = self.end, self._ends[-1]
        self._ends[-1] = start + size
        return physical, self._segments[-1][start : start + size]

    def add_segment(self, segment: memoryview, end: int) -> None:
        """Append a segment that is filled up to `end`."""
        self._segments.append(segment)
        self._ends.append(end)

    def room(self) -> int:
        """Return the number of free bytes in the last segment."""
        return SEGMENT_BYTES - self._ends[-1] if self._ends else SEGMENT_BYTES

    def read(self, physical: int, size: int) -> memoryview:
        """Return a view of the bytes at an address; it stays valid as long as it is referenced."""
        at = physical % SEGMENT_BYTES
        return self._segments[physical // SEGMENT_BYTES][at : at + size]

    def record_at(self, physical: int) -> memoryview | None:
        """Return the record that begins at an address; None if none can begin there."""
        index, at = divmod(physical, SEGMENT_BYTES)
        if physical < self.min_offset or index >= len(self._ends) or at + 4 > self._ends[index]:
            return None
        size = int.from_bytes(self.read(physical, 4), "big")
        return self.read(physical, size) if 0 < size <= self._ends[index] - at else None

    def records(self, start: int = 0) -> Iterator[tuple[int, memoryview]]:
        """Yield each record from an address on, with its address."""
        first, at = divmod(start, SEGMENT_BYTES)
        for index in range(first, len(self._ends)):
            while at < self._ends[index]:
                physical = index * SEGMENT_BYTES + at
                record = self.read(physical, int.from_bytes(self.read(physical, 4), "big"))
                yield physical, record
                at += len(record)
            at = 0
