"""Which offsets of a range are asked for, which are still missing, and which may be handed out?

A reader that knows its range need not wait for one answer before it asks again: it asks for offsets s, s + 32,
s + 64 … at once. Brokers answer with fewer messages than asked for (their own limits) or look at more offsets (a
filter skips most), so each queue learns its *stride*, the number of offsets one pull covers. What an answer leaves
uncovered becomes a *gap* and is asked for again before anything new. Answers come in any order; they are handed out
in offset order.

Invariant: `[wanted.start, wanted.end)` is at all times the disjoint union of what may be handed out (`done`), the
answers waiting in the process queue for an earlier one, the requests in flight, the gaps, and what was never asked for
(`_frontier` on). An answer that comes in its turn, as most do, never waits. As long as something is missing, something
is in flight or may be asked for, whatever the limits say.
"""

from __future__ import annotations

from typing import NamedTuple

from sortedcontainers import SortedDict

from ..model import Block, QueueRange
from ..wire.scan import first_queue_offset
from .process_queue import Entry, Expected, FlowLimits, ProcessQueue, expect

__all__ = ["Cursor", "Request"]


_new = tuple.__new__
"""A named tuple's own constructor is a Python function that does no more than this, at twice the cost."""
_FULL_BEFORE_MORE = 16
"""A broker's limits seldom change, and each attempt to get more leaves a gap."""


class Request(NamedTuple):
    """Offsets `[start, end)` that one pull is to cover."""

    start: int
    end: int


class Cursor:
    """The state of reading one range; pure bookkeeping."""

    def __init__(self, wanted: QueueRange, batch_size: int, *, orderly: bool = False) -> None:
        self.wanted = wanted
        self.done = wanted.start
        """Everything before it has been handed out, or is what `take` hands out next."""
        self.stride = batch_size
        self.waiting: ProcessQueue[Entry[Block]] = ProcessQueue(orderly=orderly)
        """Answers that wait for an earlier one."""
        self._full_count = 0
        """Answers that covered the whole stride since it was last changed."""
        self._queue = wanted.queue
        self._front = wanted.start if wanted.is_front_open else None
        self._next: list[Block] = []
        self._batch_size = batch_size
        self._frontier = wanted.start
        self._end = wanted.end
        self._in_flight: dict[int, Request] = {}
        self._gaps: SortedDict[int, int] = SortedDict()

    def __repr__(self) -> str:
        return (
            f"<Cursor {self.wanted.queue} [{self.wanted.start}, {self._end}) done {self.done}, "
            f"{len(self._in_flight)} in flight, {len(self._gaps)} gaps, {self.waiting.message_count} waiting>"
        )

    # --- state -------------------------------------------------------------------------------------------------------

    @property
    def is_finished(self) -> bool:
        """Whether everything has been handed out."""
        return self.done >= self._end

    @property
    def has_more_to_ask(self) -> bool:
        """Whether some offsets are neither in flight nor answered."""
        return bool(self._gaps) or self._frontier < self._end

    def lowest_missing(self, least: int = 0) -> int:
        """Return the lowest offset, of those from `least` on, that is neither answered nor handed out."""
        least = max(least, self.done)
        asked = [max(start, least) for start, request in self._in_flight.items() if request.end > least]
        gaps = [max(start, least) for start, end in self._gaps.items() if end > least]
        lowest: int = min([*asked, *gaps, max(self._frontier, least)])
        return lowest

    def first_waiting(self) -> int | None:
        """Return where the first of the answers begins that hold wanted messages and wait for an earlier one."""
        return next((each.offset for each in self.waiting.entries() if _holds_wanted(each.item)), None)

    @property
    def in_flight_count(self) -> int:
        """Pulls whose answers are awaited."""
        return len(self._in_flight)

    @property
    def lacks_its_lowest(self) -> bool:
        """Whether the next request would be for the offset that everything else waits for."""
        return bool(self._gaps) and self._gaps.peekitem(0)[0] <= self.done

    def allowance(self, limits: FlowLimits, most: int) -> int:
        """How many pulls the limits allow now. One for what everything else waits for is never forbidden."""
        for count in (most, 1):
            if not self.waiting.held_by(limits, self._expected(count - 1)):
                return count
        return 1 if self.lacks_its_lowest else 0

    def _expected(self, more: int) -> Expected:
        """What pulls in flight, so many more, and gaps may still bring."""
        gaps = tuple(end - start for start, end in self._gaps.items()) if self._gaps else ()
        return expect(len(self._in_flight) + more, min(self._batch_size, self.stride), gaps)

    # --- asking ------------------------------------------------------------------------------------------------------

    def next_request(self) -> Request | None:
        """The offsets to ask for next, now counted as in flight: the lowest gap, else new ones."""
        if self._gaps:
            start, end = self._gaps.popitem(0)
            if end - start > self.stride:
                self._gaps[start + self.stride] = end
                end = start + self.stride
        elif self._frontier < self._end:
            start, end = self._frontier, self._frontier + self.stride
            if end > self._end:
                end = self._end
            self._frontier = end
        else:
            return None
        request = self._in_flight[start] = _new(Request, (start, end))
        return request

    def failed(self, start: int) -> None:
        """The pull from this offset brought nothing; its offsets are a gap again."""
        request = self._in_flight.pop(start)
        self._leave(start, request.end)

    # --- answers -----------------------------------------------------------------------------------------------------

    def answered(
        self, start: int, next_offset: int, data: memoryview, message_count: int, is_counted: bool = False
    ) -> QueueRange | None:
        """Take the answer to the pull from `start`: it covered the offsets up to `next_offset`.

        It found at most so many messages. Return which of the offsets are wanted of it, if any.
        A counted answer must hold one message for each of these offsets, which is looked at when it is decoded; it is
        handed out even if it holds none. What was skipped meanwhile stays so: it comes too late to be handed out in
        order.
        """
        request = self._in_flight.pop(start)
        first, end = request
        covered = next_offset - first if is_counted else 0
        if next_offset != end or self.stride < self._batch_size:
            end = self._covered(request, next_offset)
            self._learn(request, next_offset)
        if end < request.end:
            self._leave(end, request.end)
        if start < self.done:
            start = self.done
        if end > start:
            wanted = _new(QueueRange, (self._queue, start, end, start == self._front))
            self._keep(start, end, _new(Block, (data, wanted, message_count, first, covered, next_offset)))
            return wanted
        return None

    def stop_at(self, end: int) -> None:
        """The queue has no messages from `end` on; what was to be read there is given up."""
        self._end = max(self.done, min(self._end, end))
        self._frontier = min(self._frontier, self._end)
        for start in list(self._gaps.irange(self._end)):
            del self._gaps[start]

    def skip_to(self, start: int) -> None:
        """Messages before `start` are gone; they count as handed out, after those of them that are here."""
        for gap_start, gap_end in list(self._gaps.items()):
            if gap_start < start:
                del self._gaps[gap_start]
                if gap_end > start:
                    self._gaps[start] = gap_end
        self._frontier = max(self._frontier, min(start, self._end))
        self.done = max(self.done, min(start, self._end))
        self._next = self.take()

    def take(self) -> list[Block]:
        """The blocks that are next in offset order."""
        blocks, self._next = self._next, []
        while (first := self.waiting.first()) and first.offset <= self.done:
            self.waiting.remove((first.offset,))
            self.done = max(self.done, first.last_offset + 1)
            if first.item.message_count or first.item.covered:
                blocks.append(first.item)
        return blocks

    def _leave(self, start: int, end: int) -> None:
        """These offsets are to be asked for again, as far as they are still wanted."""
        start, end = max(start, self.done), min(end, self._end)
        if start < end:
            self._gaps[start] = end

    def _covered(self, request: Request, next_offset: int) -> int:
        """Where the offsets end that this answer settles; past the request only where nobody else asked."""
        if request.end == self._frontier and next_offset > request.end:
            self._frontier = min(next_offset, self._end)
            return self._frontier
        return max(request.start, min(next_offset, request.end))

    def _learn(self, request: Request, next_offset: int) -> None:
        """Take over a stride that fell short or went beyond; after some full answers try twice as much."""
        covered, asked = next_offset - request.start, request.end - request.start
        if covered == asked:
            if covered == self.stride < self._batch_size:
                self._try_more()
        elif covered > 0:
            self.stride, self._full_count = covered, 0

    def _try_more(self) -> None:
        self._full_count += 1
        if self._full_count == _FULL_BEFORE_MORE:
            self.stride, self._full_count = min(2 * self.stride, self._batch_size), 0

    def _keep(self, start: int, end: int, block: Block) -> None:
        """Keep a block to be handed out if it tells of messages, or of the lack of some that must be there."""
        if start == self.done:
            self.done = end
            if block[2] or block[4]:
                self._next.append(block)
        else:
            self.waiting.put((Entry(start, end - 1, block.message_count, len(block.data), block),))


def _holds_wanted(block: Block) -> bool:
    """Whether a message is wanted, by what the first one says; brokers may have gone far on to find it."""
    return bool(block.message_count) and first_queue_offset(block.data) < block.wanted.end
