"""Store all records of a broker in one log.

Records lie in the order of their arrival, already encoded. The address of a record is its byte offset in the log. The
log consists of segments of fixed size, and the system provides their memory only when it is written. No record crosses
the end of a segment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

SEGMENT_BYTES = 64 * 1024 * 1024
PHYSICAL_AT = 28
"""Position within a record of the field that contains the record's address."""


def anonymous_segment(index: int) -> memoryview:
    """Return new memory for the segment with this index; the system provides it only when it is written."""
    return np.zeros(SEGMENT_BYTES, np.uint8).data


class CommitLog:
    """All records of one broker, in the order of their arrival."""

    def __init__(self, open_segment: Callable[[int], memoryview] = anonymous_segment) -> None:
        self._open_segment = open_segment
        self._segments: list[memoryview] = []
        self._ends: list[int] = []
        self.min_offset = 0
        """Address before which all records count as deleted."""

    @property
    def end(self) -> int:
        """Address behind the last record; the next record begins there if the last segment has room for it."""
        return (len(self._ends) - 1) * SEGMENT_BYTES + self._ends[-1] if self._ends else 0

    def reserve(self, size: int) -> tuple[int, memoryview]:
        """Return the address of the next `size` contiguous bytes, and their memory; `publish` adds them to the log."""
        if not self._ends or self._ends[-1] + size > SEGMENT_BYTES:
            self._segments.append(self._open_segment(len(self._segments)))
            self._ends.append(0)
        start = self._ends[-1]
        return self.end, self._segments[-1][start : start + size]

    def publish(self, size: int, record_bytes: int) -> None:
        """Add `size` reserved bytes to the log; they contain records of `record_bytes` bytes each, without size fields.

        Write the size fields now, one record after the other. A process that is killed at any moment then leaves only
        complete records, and behind them at most a record whose size field is still 0.
        """
        start = self._ends[-1]
        room = self._segments[-1][start : start + size]
        np.ndarray(size // record_bytes, ">i4", room, strides=(record_bytes,))[:] = record_bytes
        self._ends[-1] = start + size

    def add_segment(self, segment: memoryview, end: int) -> None:
        """Append a segment to the log; its first `end` bytes contain records."""
        self._segments.append(segment)
        self._ends.append(end)

    def room(self) -> int:
        """Return the number of free bytes in the last segment."""
        return SEGMENT_BYTES - self._ends[-1] if self._ends else SEGMENT_BYTES

    def read(self, physical: int, size: int) -> memoryview:
        """Return a view of `size` bytes from an address on; it stays valid as long as it is referenced."""
        at = physical % SEGMENT_BYTES
        return self._segments[physical // SEGMENT_BYTES][at : at + size]

    def record_at(self, physical: int) -> memoryview | None:
        """Return the bytes of the record that begins at this address; None if no record can begin there."""
        index, at = divmod(physical, SEGMENT_BYTES)
        if physical < self.min_offset or index >= len(self._ends) or at + 4 > self._ends[index]:
            return None
        size = int.from_bytes(self.read(physical, 4), "big")
        return self.read(physical, size) if 0 < size <= self._ends[index] - at else None

    def records(self, start: int = 0) -> Iterator[tuple[int, memoryview]]:
        """Yield the address and the bytes of each record from address `start` on."""
        first, at = divmod(start, SEGMENT_BYTES)
        for index in range(first, len(self._ends)):
            while at < self._ends[index]:
                physical = index * SEGMENT_BYTES + at
                record = self.read(physical, int.from_bytes(self.read(physical, 4), "big"))
                yield physical, record
                at += len(record)
            at = 0
