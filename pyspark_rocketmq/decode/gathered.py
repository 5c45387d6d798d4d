"""Where do answers wait until there are enough of them for a record batch?

One behind the other in memory of their own. They are copied as soon as they come: then they are still in the
processor's cache, and the buffer that they were received into is free for the next. Copied later they cost three times
as much, and all that is received meanwhile needs further buffers, which are not in the cache either.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ..model import Block, MessageQueue, QueueRange
from .spans import Bytes, Integers, Spans

__all__ = ["Answers", "Gathered"]

_FIRST_BYTES = 64 * 1024


class Answers(NamedTuple):
    """What some answers are wanted for and what they claim, column by column."""

    ranges: Sequence[QueueRange]
    message_counts: Sequence[int]
    firsts: Sequence[int]
    covered: Sequence[int]
    """How many messages each must hold; 0 for any."""
    nexts: Sequence[int]
    """Where each ends; 0 if its records stand where they say."""
    queues: Sequence[MessageQueue]
    starts: Sequence[int]
    """Where begins what is wanted of each."""
    ends: Sequence[int]

    @property
    def are_whole(self) -> bool:
        """Whether all that they cover is wanted of each."""
        return self.starts == self.firsts and self.ends == self.nexts


class Gathered:
    """The answers of one batch. Their memory serves the next batch, too: by then nothing may look into it any more."""

    def __init__(self) -> None:
        self._memory = _memory_of(_FIRST_BYTES)
        self._ends = [0]
        self._told: list[tuple[QueueRange, int, int, int, int]] = []

    def __bool__(self) -> bool:
        return bool(self._told)

    @property
    def data(self) -> Bytes:
        """All of them in one buffer."""
        return np.frombuffer(self._memory[: self._ends[-1]], np.uint8)

    @property
    def spans(self) -> Spans:
        """Where each lies in the buffer."""
        ends: Integers = np.array(self._ends)
        return Spans(ends[:-1], ends[1:])

    @property
    def answers(self) -> Answers:
        """What is wanted of each, and what it claims."""
        ranges, message_counts, firsts, covered, nexts = zip(*self._told, strict=True)
        queues, starts, ends, _ = zip(*ranges, strict=True)
        return Answers(ranges, message_counts, firsts, covered, nexts, queues, starts, ends)

    @property
    def blocks(self) -> list[Block]:
        """The answers as they were put; their records lie in this memory."""
        return [
            Block(self._memory[start:end], *told)
            for (start, end), told in zip(pairwise(self._ends), self._told, strict=True)
        ]

    def put(self, block: Block) -> None:
        """Add an answer behind the others; one that is empty, and may be, leaves no trace."""
        data, start = block[0], self._ends[-1]
        end = start + len(data)
        if end == start and not block.covered:
            return
        if end > len(self._memory):
            self._grow(end)
        self._memory[start:end] = data
        self._ends.append(end)
        self._told.append(block[1:])

    def clear(self) -> None:
        """Forget them all; the memory stays."""
        self._ends, self._told = [0], []

    def _grow(self, wanted: int) -> None:
        larger = _memory_of(max(wanted, 2 * len(self._memory)))
        kept = self._ends[-1]
        larger[:kept] = self._memory[:kept]
        self._memory = larger


def _memory_of(byte_count: int) -> memoryview:
    return np.empty(byte_count, np.uint8).data
