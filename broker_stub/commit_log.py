"""Where do all records of a broker lie?

In one log, in the order of arrival and already encoded; a record's byte offset is its address. The log lies in segments
of fixed size, whose memory is only taken when it is written to. A record never crosses from one segment into the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

SEGMENT_BYTES = 64 * 1024 * 1024
PHYSICAL_AT = 28
"""Where a record holds its address."""


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
