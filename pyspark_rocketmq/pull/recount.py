"""Count again what a broker process answered that was gone before its messages could be vouched for.

Each process deletes on its own, so no other can vouch for its answers. But another can say how many messages match: the
same ranges are read again there, with the same filter, and vouched for there as always. If as many are found as were
handed out, they are the same, and nothing was missing. If not, the policy judges: rows that were handed out cannot be
taken back, but a task that fails is tried again. Messages of light topics say offsets of another queue, by which they
cannot be counted: their ranges count as missing.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter

from ..model import Block, MessageQueue, QueueRange, is_light
from ..wire.scan import first_queue_offset, record_starts
from .reader import LossPolicy
from .settings import Subscription
from .tally import Unvouched, count_within

__all__ = ["Read", "recount"]

Read = Callable[[Sequence[QueueRange], Subscription], Iterator[Block]]
"""Reads ranges, vouches for what it reads, and tells the policy what is missing."""
_DIFFERENT = "%s: a broker process that is gone answered %s messages of offsets %d to %d, and elsewhere there are %d"
_log = logging.getLogger(__name__)


def recount(unvouched: Sequence[Unvouched], read: Read, subscription: Subscription, policy: LossPolicy) -> None:
    """Read ranges again whose messages were handed out, and tell the policy where another number is found."""
    known = [wanted for wanted, count in unvouched if count is not None]
    found = _count(known, read(known, subscription))
    placed = _placed(read([wanted._replace(start=wanted.end - 1) for wanted in known], Subscription()))
    for wanted, count in unvouched:
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


def _placed(blocks: Iterable[Block]) -> set[tuple[MessageQueue, int]]:
    """Return where ranges end whose last record says no higher offset than it stands at.

    Where it does, counts by the offsets that are written in records leave out the last messages.
    """
    return {
        (block.wanted.queue, block.wanted.end)
        for block in blocks
        if block.data and first_queue_offset(block.data) < block.wanted.end
    }
