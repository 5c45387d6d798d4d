"""Where do answers wait until there are enough of them for a record batch?

One behind the other in memory of their own. They are copied as soon as they come: then they are still in the
processor's cache, and the buffer that they were received into is free for the next. Copied later they cost three times
as much, and all that is received meanwhile needs further buffers, which are not in the cache either.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ..model import Block, QueueRange
from .spans import Bytes, Integers, Spans

__all__ = ["Gathered"]

_FIRST_BYTES = 64 * 1024


class Gathered:
    """The answers of one batch. Their memory serves the next batch, too: by then nothing may look into it any more."""

    def __init__(self) -> None:
        self._memory = _memory_of(_FIRST_BYTES)
        self._ends = [0]
        self.ranges: list[QueueRange] = []
        """What is wanted of each answer."""
        self.claims: list[tuple[int, int, int]] = []
        """From where each answer was asked, how many messages it must hold, and where it ends."""

    @property
    def data(self) -> Bytes:
        """All of them in one buffer."""
        return np.frombuffer(self._memory[: self._ends[-1]], np.uint8)

    @property
    def answers(self) -> Spans:
        """Where each lies in the buffer."""
        ends: Integers = np.array(self._ends)
        return Spans(ends[:-1], ends[1:])

    def put(self, block: Block) -> None:
        """Add an answer behind the others; one that is empty, and may be, leaves no trace."""
        data, start = block.data, self._ends[-1]
        end = start + len(data)
        if end == start and not block.covered:
            return
        if end > len(self._memory):
            self._grow(end)
        self._memory[start:end] = data
        self._ends.append(end)
        self.ranges.append(block.wanted)
        self.claims.append(block[3:])

    def clear(self) -> None:
        """Forget them all; the memory stays."""
        self._ends, self.ranges, self.claims = [0], [], []

    def blocks(self) -> list[Block]:
        """The answers as they were put; their records lie in this memory."""
        data, ends = self._memory, self._ends
        parts = zip(pairwise(ends), self.ranges, self.claims, strict=True)
        return [Block(data[start:end], wanted, 0, *claim) for (start, end), wanted, claim in parts]

    def _grow(self, wanted: int) -> None:
        larger = _memory_of(max(wanted, 2 * len(self._memory)))
        kept = self._ends[-1]
        larger[:kept] = self._memory[:kept]
        self._memory = larger


def _memory_of(byte_count: int) -> memoryview:
    return np.empty(byte_count, np.uint8).data
