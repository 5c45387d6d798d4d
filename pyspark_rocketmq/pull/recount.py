"""Count the messages that were read, and compare with another broker process if the one that sent them is gone.

Each broker process deletes messages independently, so no other process can confirm its responses by a probe. But the
same ranges can be read from another process, with the same filter, and confirmed there as usual. If that brings as many
messages as the first reading, they are the same, and none was missing. If not, the loss policy decides: Spark has the
rows already, but a task that fails is retried. Records of light topics (RocketMQ's LMQ) hold offsets of another queue
and cannot be counted by offset, so their ranges are reported as losses.

A `Tally` keeps one count for each interval of offsets. Its memory is bounded: when there are too many intervals that do
not touch, the counts are dropped, and the range is reported as a loss.
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
"""The most intervals that a tally keeps; usually few, because most responses of a process adjoin the one before."""
_QUEUE_OFFSET = struct.Struct(">20xq")
_DIFFERENT = "%s: a broker process that is gone answered %s messages of offsets %d to %d, and elsewhere there are %d"
_log = logging.getLogger(__name__)

Read = Callable[[Sequence[QueueRange], Subscription], Iterator[Block]]
"""A function that reads ranges with a subscription, confirms the responses, and reports losses to the policy."""


class Unconfirmed(NamedTuple):
    """A range whose messages were read from a process that is gone, so that no probe can confirm them."""

    wanted: QueueRange
    message_count: int | None
    """The number of messages that were read; None if the count was dropped."""


# --- counting --------------------------------------------------------------------------------------------------------


class Part(NamedTuple):
    """Offsets `[start, end)` and how many messages were read from them, or None if `Tally` has dropped its counts."""

    start: int
    end: int
    message_count: int | None


class Tally:
    """The numbers of messages that were read, for disjoint intervals of offsets."""

    __slots__ = ("_is_known", "_parts")

    def __init__(self) -> None:
        self._parts: list[list[int]] = []
        self._is_known = True

    def add(self, start: int, end: int, count: int) -> None:
        """Add the number of messages read from `[start, end)`; these offsets must not have been added before."""
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
        """Return the intervals of offsets, ascending, each with its number of messages; join intervals that touch."""
        return [Part(start, end, count if self._is_known else None) for start, end, count in _merged(self._parts)]

    def _shrink(self) -> None:
        merged = _merged(self._parts)
        if 2 * len(merged) > MOST_PARTS:
            self._is_known = False
            merged = [[merged[0][0], merged[-1][1], 0]]
        self._parts = merged


def count_within(body: bytes | memoryview, starts: Sequence[int], low: int, high: int) -> int:
    """Return how many records of a response's body hold a queue offset in `[low, high)`.

    `starts` are the records' byte positions. The offsets must ascend, because records are examined from both ends only
    until one lies in the interval.
    """
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
    """Join the `[start, end, count]` lists that touch or overlap, adding their counts; return all in ascending order.

    Lists overlap only after `Tally` has dropped its counts, and then nobody uses the sums.
    """
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
    """Read unconfirmed ranges again, and report to the policy each range in which the number of messages differs.

    Ranges whose messages cannot be counted are reported, too.
    """
    known = [wanted for wanted, count in unconfirmed if count is not None]
    found = _count(known, read(known, subscription))
    placed = _find_placed(read([wanted._replace(start=wanted.end - 1) for wanted in known], Subscription()))
    for wanted, count in unconfirmed:
        queue, start, end, _ = wanted
        if found[wanted] != count:
            _log.warning(_DIFFERENT, queue, "?" if count is None else count, start, end, found[wanted])
            policy.lacks_messages(queue, start, end)
        elif (queue, end) not in placed or is_light(queue):
            policy.lacks_messages(queue, start, end)


def _count(ranges: Sequence[QueueRange], blocks: Iterable[Block]) -> Counter[QueueRange]:
    """Return for each of `ranges` the number of its messages in `blocks`."""
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
    """Return (queue, end) of the ranges whose messages `count_within` can count by the queue offsets in the records.

    `blocks` hold the record at the last offset of each range. A range is left out if it has no such record, or if the
    offset in that record is not below the range's end: `count_within` would miss the record.
    """
    return {
        (block.wanted.queue, block.wanted.end)
        for block in blocks
        if block.data and first_queue_offset(block.data) < block.wanted.end
    }
