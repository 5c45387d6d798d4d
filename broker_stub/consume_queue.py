"""Keep the index of a queue: four columns by which its messages are found without decoding.

The columns are the address, size, tag code and store time of each message, in the order of their offsets.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from enum import Enum

import numpy as np
from numpy.typing import NDArray

QueueKey = tuple[str, int]
"""Topic and queue id."""


class Boundary(Enum):
    """Rule by which a search by store time chooses a message.

    LOWER: the first one at or after the time. UPPER: the last one at or before it. NEAREST: the nearest one.
    """

    LOWER = "lower"
    UPPER = "upper"
    NEAREST = "nearest"
    """The only rule of releases before 5.1.1."""


class ConsumeQueue:
    """The index of one queue: address, size, tag code and store time of each message, in four columns (arrays).

    Entry i of each column belongs to the message with offset `base + i`.
    """

    __slots__ = ("base", "codes", "min_offset", "physical", "sizes", "store_times", "unindexed")

    def __init__(self, base: int = 0) -> None:
        self.base = self.min_offset = base
        self.unindexed = 0
        """Number of messages that took an offset, but were not added to the columns."""
        self.physical = array("q")
        self.sizes = array("i")
        self.codes = array("q")
        self.store_times = array("q")

    @property
    def max_offset(self) -> int:
        """Offset behind the last message of the index; `base` if the index is empty."""
        return self.base + len(self.physical)

    @property
    def next_stored(self) -> int:
        """Offset that the next message gets: `max_offset`, plus the messages that got an offset but no index entry."""
        return self.max_offset + self.unindexed

    def append(self, physical: int, size: int, code: int, store_time: int) -> None:
        """Append one message to the columns."""
        self.physical.append(physical)
        self.sizes.append(size)
        self.codes.append(code)
        self.store_times.append(store_time)

    def extend(self, physical: NDArray[np.int64], size: int, code: int, store_time: int) -> None:
        """Append messages with these addresses, which share their size, tag code and store time."""
        count = len(physical)
        self.physical.frombytes(physical.astype(np.int64).tobytes())
        self.sizes.extend(array("i", [size]) * count)
        self.codes.extend(array("q", [code]) * count)
        self.store_times.extend(array("q", [store_time]) * count)

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        """Yield offset, address and size of each message that is not expired."""
        for index in range(self.min_offset - self.base, len(self.physical)):
            yield self.base + index, self.physical[index], self.sizes[index]

    def search(self, time_ms: int, boundary: Boundary) -> int:
        """Return the offset of the message that a search by store time finds; `boundary` is the rule of the search.

        If no message fits, return the maximum offset for LOWER and the minimum offset for UPPER.
        """
        first = self.min_offset - self.base
        if boundary is Boundary.UPPER:
            index = bisect_right(self.store_times, time_ms, first) - 1
        else:
            index = bisect_left(self.store_times, time_ms, first)
        if boundary is Boundary.NEAREST:
            index = _nearest(self.store_times, index, first, time_ms)
        return self.base + max(index, first)


def _nearest(times: array[int], index: int, first: int, time_ms: int) -> int:
    """Return the index of the time nearest to `time_ms` in sorted `times`; the earlier one if two are equally near.

    `index` is where a binary search would insert `time_ms`; times before index `first` do not count.
    """
    if index == first or (index < len(times) and times[index] == time_ms):
        return index
    is_later_nearer = index < len(times) and times[index] - time_ms < time_ms - times[index - 1]
    return index if is_later_nearer else index - 1
