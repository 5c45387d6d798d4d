"""Count the messages that were handed out of filtered answers.

A count for each stretch of offsets is all that is kept: enough to compare with what another process finds in the same
stretch. Memory is bounded: where answers came in so many pieces that their counts would grow without end, the counts
are given up, and nothing can be compared.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from ..model import QueueRange

__all__ = ["MOST_PARTS", "Part", "Tally", "Unvouched", "count_within"]

MOST_PARTS = 1_000
"""Stretches that do not touch. Answers of one process mostly continue one another."""
_QUEUE_OFFSET = struct.Struct(">20xq")


class Part(NamedTuple):
    """So many messages were handed out of offsets `[start, end)`; None if that is not known any more."""

    start: int
    end: int
    message_count: int | None


class Unvouched(NamedTuple):
    """A range of which so many messages were handed out, if that is known, and for which nobody can vouch."""

    wanted: QueueRange
    message_count: int | None


class Tally:
    """Disjoint stretches of offsets with their counts."""

    __slots__ = ("_is_known", "_parts")

    def __init__(self) -> None:
        self._parts: list[list[int]] = []
        self._is_known = True

    def add(self, start: int, end: int, count: int) -> None:
        """Note that so many messages are handed out of these offsets, of which nothing was noted before."""
        parts = self._parts
        if parts and parts[-1][1] == start:
            last = parts[-1]
            last[1] = end
            last[2] += count
        else:
            parts.append([start, end, count])
            if len(parts) > MOST_PARTS:
                self._shrink()

    def join(self, other: Tally) -> None:
        """Take over what another has noted."""
        self._is_known = self._is_known and other._is_known
        for part in other._parts:
            self.add(*part)

    def parts(self) -> list[Part]:
        """Return the stretches in ascending order, as few as possible."""
        return [Part(start, end, count if self._is_known else None) for start, end, count in _merged(self._parts)]

    def _shrink(self) -> None:
        merged = _merged(self._parts)
        if 2 * len(merged) > MOST_PARTS:
            self._is_known = False
            merged = [[merged[0][0], merged[-1][1], 0]]
        self._parts = merged


def count_within(body: bytes | memoryview, starts: Sequence[int], low: int, high: int) -> int:
    """Return how many of the ascending records of an answer hold offsets of `[low, high)`."""
    first, end = 0, len(starts)
    while end > first and _offset_at(body, starts[end - 1]) >= high:
        end -= 1
    while end > first and _offset_at(body, starts[first]) < low:
        first += 1
    return end - first


def _offset_at(body: bytes | memoryview, at: int) -> int:
    offset: int = _QUEUE_OFFSET.unpack_from(body, at)[0]
    return offset


def _merged(parts: Sequence[list[int]]) -> list[list[int]]:
    """Join stretches that touch or, once their counts are given up, overlap."""
    merged: list[list[int]] = []
    for start, end, count in sorted(parts):
        if merged and merged[-1][1] >= start:
            merged[-1][1] = max(merged[-1][1], end)
            merged[-1][2] += count
        else:
            merged.append([start, end, count])
    return merged
