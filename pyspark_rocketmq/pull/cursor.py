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

from itertools import islice
from typing import NamedTuple

from sortedcontainers import SortedDict

from ..model import Block, QueueRange
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
        self._front = wanted.start if wanted.is_front_open else None
        self._first_found: int | None = None
        """The lowest offset from which an answer held messages; kept for a range with an open front."""
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

    @property
    def lowest_missing(self) -> int:
        """The lowest offset that is neither answered nor handed out."""
        return self._lowest_missing_from(self.done)

    @property
    def lowest_missing_inside(self) -> int | None:
        """The lowest missing offset behind the first message of a range with an open front; None before that came."""
        return None if self._first_found is None else self._lowest_missing_from(self._first_found)

    def _lowest_missing_from(self, offset: int) -> int:
        asked = [max(start, offset) for start, request in self._in_flight.items() if request.end > offset]
        gaps: list[int] = list(islice(self._gaps.irange(offset), 1))
        return min([*asked, *gaps, self._frontier])

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
    ) -> None:
        """The pull from `start` covered the offsets up to `next_offset`, and found at most so many messages.

        A counted answer must hold one message for each of these offsets, which is looked at when it is decoded; it is
        handed out even if it holds none. What was skipped meanwhile stays so: it comes too late to be handed out in
        order.
        """
        request = self._in_flight.pop(start)
        first, end = start, request.end
        covered = next_offset - start if is_counted else 0
        if next_offset != end or self.stride < self._batch_size:
            end = self._covered(request, next_offset)
            self._learn(request, next_offset)
        if end < request.end:
            self._leave(end, request.end)
        if start < self.done:
            start = self.done
        if message_count and self._front is not None:
            self._first_found = start if self._first_found is None else min(start, self._first_found)
        if end > start:
            is_front = self._front == start
            wanted = _new(QueueRange, (self.wanted.queue, start, end, is_front))
            self._keep(_new(Block, (data, wanted, message_count, first, covered, next_offset)))

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
            if _tells(first.item):
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

    def _keep(self, block: Block) -> None:
        _, start, end, _ = block.wanted
        if start == self.done:
            self.done = end
            if _tells(block):
                self._next.append(block)
        else:
            self.waiting.put((Entry(start, end - 1, block.message_count, len(block.data), block),))


def _tells(block: Block) -> bool:
    """Whether there is something to decode: messages, or the lack of some that must be there."""
    return bool(block.message_count or block.covered)
