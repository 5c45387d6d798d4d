"""Count messages that were handed out, and count them again where no process is left to confirm them.

Each process deletes on its own, so no other can confirm its responses. But another process can tell how many messages
match: the same ranges are read again there, with the same filter, and confirmed there as always. If as many messages
are found as were handed out, they are the same, and none was missing. If not, the loss policy judges: rows that were
handed out cannot be taken back, but a task that fails is tried again. Records of light topics hold offsets of another
queue, by which they cannot be counted, so their ranges count as missing.

A `Tally` keeps one count for each stretch of offsets. Its memory is bounded: where responses came in so many pieces
that their counts would grow without end, the counts are dropped, and nothing can be compared.
"""

from __future__ import annotations

import logging
import struct
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

from ..model import Block, MessageQueue, QueueRange, is_light
from ..wire.scan import first_queue_offset, record_starts
from .loss_policy import LossPolicy
from .settings import Subscription

__all__ = ["MOST_PARTS", "Part", "Read", "Tally", "Unconfirmed", "count_within", "recount"]

MOST_PARTS = 1_000
"""Stretches that do not touch. Most responses of one process continue one another."""
_QUEUE_OFFSET = struct.Struct(">20xq")
_DIFFERENT = "%s: a broker process that is gone answered %s messages of offsets %d to %d, and elsewhere there are %d"
_log = logging.getLogger(__name__)

Read = Callable[[Sequence[QueueRange], Subscription], Iterator[Block]]
"""Reads ranges, confirms what it reads, and reports to the policy what is missing."""


class Unconfirmed(NamedTuple):
    """A range whose messages were handed out, and which no process can confirm."""

    wanted: QueueRange
    message_count: int | None
    """The number of messages handed out; None if it is not known any more."""


# --- counting --------------------------------------------------------------------------------------------------------


class Part(NamedTuple):
    """A stretch of offsets `[start, end)` and the number of messages handed out of it, None if not known any more."""

    start: int
    end: int
    message_count: int | None


class Tally:
    """Counts of messages, for disjoint stretches of offsets."""

    __slots__ = ("_is_known", "_parts")

    def __init__(self) -> None:
        self._parts: list[list[int]] = []
        self._is_known = True

    def add(self, start: int, end: int, count: int) -> None:
        """Count the messages that are handed out of offsets of which none were counted before."""
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
        """Add all counts of another tally."""
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
    """Return how many of the ascending records of a response hold offsets of `[low, high)`."""
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
    """Return the stretches with those joined that touch or, once their counts are dropped, overlap."""
    merged: list[list[int]] = []
    for start, end, count in sorted(parts):
        if merged and merged[-1][1] >= start:
            merged[-1][1] = max(merged[-1][1], end)
            merged[-1][2] += count
        else:
            merged.append([start, end, count])
    return merged


# --- recount ---------------------------------------------------------------------------------------------------------


def recount(unconfirmed: Sequence[Unconfirmed], read: Read, subscription: Subscription, policy: LossPolicy) -> None:
    """Read ranges again whose messages were handed out; report each to the policy whose number of messages differs."""
    known = [wanted for wanted, count in unconfirmed if count is not None]
    found = _count(known, read(known, subscription))
    placed = _find_placed(read([wanted._replace(start=wanted.end - 1) for wanted in known], Subscription()))
    for wanted, count in unconfirmed:
        queue, start, end, _ = wanted
        if found[wanted] != count:
            _log.warning(_DIFFERENT, queue, "?" if count is None else count, start, end, found[wanted])
            policy.gap(queue, start, end)
        elif (queue, end) not in placed or is_light(queue):
            policy.gap(queue, start, end)


def _count(ranges: Sequence[QueueRange], blocks: Iterable[Block]) -> Counter[QueueRange]:
    """Return how many messages there are of each range."""
    by_queue: defaultdict[MessageQueue, list[QueueRange]] = defaultdict(list)
    for each in sorted(ranges):
        by_queue[each.queue].append(each)
    found: Counter[QueueRange] = Counter()
    for block in blocks:
        queue, start, end, _ = block.wanted
        own = by_queue[queue]
        whole = own[bisect_right(own, start, key=attrgetter("start")) - 1]
        found[whole] += count_within(block.data, record_starts(block.data), start, end)
    return found


def _find_placed(blocks: Iterable[Block]) -> set[tuple[MessageQueue, int]]:
    """Return the ends of ranges whose last record holds no higher offset than its own.

    Where it does, counts by the offsets in records leave out the last messages.
    """
    return {
        (block.wanted.queue, block.wanted.end)
        for block in blocks
        if block.data and first_queue_offset(block.data) < block.wanted.end
    }
