"""Keep track of the offsets of one range: which to request next, and which responses are next in offset order.

A reader knows its range and sends many pulls at once, for offsets s, s + 32, s + 64 and so on. A broker may return
fewer messages than requested (its own limits) or cover more offsets (a filter skips most). So each cursor learns its
*stride*, the number of offsets that one pull covers. Offsets that a response leaves *uncovered* are requested again
before any new ones. Responses arrive in any order; `Cursor.take` returns them in offset order.

Invariant: each offset from `wanted.start` up to the end of the range is in exactly one of these states:

    done         before `done`: returned by `take`, to be returned by its next call, or skipped
    waiting      in a response that waits in the process queue until lower offsets are done
    in flight    in a request that is not answered yet
    uncovered    to be requested again
    new          never requested: from `_frontier` on

Most responses arrive in offset order and never wait. As long as offsets are missing, some are in flight or may be
requested, even if the flow limits are exceeded.
"""

from __future__ import annotations

from sortedcontainers import SortedDict

from ..model import Block, QueueRange
from ..wire.scan import body_bytes, first_queue_offset
from .port import PullRequest
from .process_queue import Entry, Expected, FlowLimits, Hold, ProcessQueue, expect

__all__ = ["Cursor"]

_new = tuple.__new__
"""Makes named tuples. Their own constructor does the same in Python code, at twice the cost."""
_FULL_BEFORE_MORE = 16
"""After this many responses that cover the whole stride, a larger stride is tried. A vain try costs further pulls."""


class Cursor:
    """The state of each offset of one range: to be requested, in flight, waiting or returned. It sends nothing."""

    def __init__(self, wanted: QueueRange, batch_size: int, *, orderly: bool = False) -> None:
        self.wanted = wanted
        self.done = wanted.start
        """The end of the offsets that `take` has returned or will return at its next call."""
        self.stride = batch_size
        self.waiting: ProcessQueue[Entry[Block]] = ProcessQueue(orderly=orderly)
        """Responses that wait until the messages at lower offsets have arrived."""
        self._waiting_count = 0
        self._has_whole_sizes = False
        """Whether `waiting` may hold responses with the size of the whole response instead of that of its bodies."""
        self._full_count = 0
        """The number of responses that covered the whole stride since the stride last changed."""
        self._queue = wanted.queue
        self._open_front = wanted.start if wanted.is_front_open else None
        self._ready: list[Block] = []
        self._batch_size = batch_size
        self._frontier = wanted.start
        self._end = wanted.end
        self._in_flight: dict[int, PullRequest] = {}
        self._uncovered: SortedDict[int, int] = SortedDict()
        """{start: end} of the ranges of offsets that are to be requested again."""

    def __repr__(self) -> str:
        return (
            f"<Cursor {self.wanted.queue} [{self.wanted.start}, {self._end}) done {self.done}, {len(self._in_flight)} "
            f"in flight, {len(self._uncovered)} stretches uncovered, {self.waiting.message_count} messages waiting>"
        )

    # --- state -------------------------------------------------------------------------------------------------------

    @property
    def is_finished(self) -> bool:
        """Whether no offset is missing: `take` has returned all blocks of the range, or will do so at its next call."""
        return self.done >= self._end

    @property
    def has_more_to_pull(self) -> bool:
        """Whether offsets of the range are still to be requested, for the first time or again."""
        return bool(self._uncovered) or self._frontier < self._end

    @property
    def in_flight_count(self) -> int:
        """The number of pulls that await a response."""
        return len(self._in_flight)

    @property
    def lacks_its_lowest(self) -> bool:
        """Whether the lowest missing offset has to be requested again; then the next request is for it."""
        return bool(self._uncovered) and self._uncovered.peekitem(0)[0] <= self.done

    def lowest_missing(self, least: int = 0) -> int:
        """Return the lowest offset, not below `least`, that no response has covered yet."""
        least = max(least, self.done)
        in_flight = [max(start, least) for start, request in self._in_flight.items() if request.end > least]
        uncovered = [max(start, least) for start, end in self._uncovered.items() if end > least]
        lowest: int = min([*in_flight, *uncovered, max(self._frontier, least)])
        return lowest

    def first_waiting(self) -> int | None:
        """Return the offset at which the first waiting response with wanted records begins; None if there is none."""
        return next((each.offset for each in self.waiting.entries() if _holds_wanted(each.item)), None)

    def allowance(self, limits: FlowLimits, most: int) -> int:
        """Return how many pulls may be sent now: `most` if `limits` allow so many, else 1 if they allow that, else 0.

        If the lowest missing offset has to be requested again, return at least 1: all waiting responses wait for it.
        """
        for count in (most, 1):
            hold = self.waiting.held_by(limits, self._expected(count - 1))
            if hold is None:
                return count
            if hold is Hold.BYTES and self._has_whole_sizes:
                self._count_bodies()
                return self.allowance(limits, most)
        return 1 if self.lacks_its_lowest else 0

    def _count_bodies(self) -> None:
        """Correct the size of each waiting response: count the bytes of its message bodies, not of the whole response.

        The byte limit applies to bodies only. But to count their bytes takes time, so this method is called only when
        the sizes of whole responses, which are larger, exceed the limit.
        """
        for entry in self.waiting.entries():
            if entry.body_bytes == len(entry.item.data):
                self.waiting.shrink(entry, entry._replace(body_bytes=body_bytes(entry.item.data)))
        self._has_whole_sizes = False

    def _expected(self, more: int) -> Expected:
        """Return the most messages and bytes that may still arrive.

        They come from the pulls in flight, from `more` further pulls, and from offsets that have to be requested again.
        """
        uncovered = tuple(end - start for start, end in self._uncovered.items()) if self._uncovered else ()
        return expect(len(self._in_flight) + more, min(self._batch_size, self.stride), uncovered)

    # --- requests ----------------------------------------------------------------------------------------------------

    def take_requests(self, most: int) -> list[PullRequest]:
        """Return at most `most` requests, and count them as in flight.

        Offsets that a response left uncovered come first, then offsets that were never requested.
        """
        requests: list[PullRequest] = []
        for _ in range(most):
            if self._uncovered:
                start, end = self._uncovered.popitem(0)
                if end - start > self.stride:
                    self._uncovered[start + self.stride] = end
                    end = start + self.stride
            elif self._frontier < self._end:
                start, end = self._frontier, self._frontier + self.stride
                if end > self._end:
                    end = self._end
                self._frontier = end
            else:
                break
            request = self._in_flight[start] = _new(PullRequest, (start, end))
            requests.append(request)
        return requests

    def retry(self, start: int) -> None:
        """Have the offsets of the pull from `start` requested again, because it failed or brought no progress."""
        request = self._in_flight.pop(start)
        self._uncover(start, request.end)

    # --- responses ---------------------------------------------------------------------------------------------------

    def accept(
        self, start: int, next_offset: int, data: memoryview, message_count: int, is_counted: bool = False
    ) -> QueueRange | None:
        """Accept the response to the pull from `start`; return the part of its offsets that is still wanted, or None.

        The response covers the offsets up to `next_offset` and holds at most `message_count` messages. With
        `is_counted` it must hold one message for each of these offsets. The decoder verifies this later, so `take`
        returns even an empty response then. Offsets skipped by `skip_to` are not wanted: they would be out of order.
        """
        request = self._in_flight.pop(start)
        first, end = request
        covered = next_offset - first if is_counted else 0
        if next_offset != end or self.stride < self._batch_size:
            end = self._cover(request, next_offset)
            self._adapt_stride(request, next_offset)
        if end < request.end:
            self._uncover(end, request.end)
        if start < self.done:
            start = self.done
        if end > start:
            wanted = _new(QueueRange, (self._queue, start, end, start == self._open_front))
            self._keep(start, end, _new(Block, (data, wanted, message_count, first, covered, next_offset)))
            return wanted
        return None

    def stop_at(self, end: int) -> None:
        """End the range at `end`: the queue has no messages from there on."""
        self._end = max(self.done, min(self._end, end))
        self._frontier = min(self._frontier, self._end)
        for start in list(self._uncovered.irange(self._end)):
            del self._uncovered[start]

    def skip_to(self, start: int) -> None:
        """Go on from `start`, because messages before it are gone; `take` still returns responses already received."""
        for stretch_start, stretch_end in list(self._uncovered.items()):
            if stretch_start < start:
                del self._uncovered[stretch_start]
                if stretch_end > start:
                    self._uncovered[start] = stretch_end
        self._frontier = max(self._frontier, min(start, self._end))
        self.done = max(self.done, min(start, self._end))
        self._ready = self.take()

    def take(self) -> list[Block]:
        """Return the blocks that are next in offset order; each block is returned only once."""
        blocks, self._ready = self._ready, []
        while self._waiting_count and (first := self.waiting.first()) and first.offset <= self.done:
            self.waiting.remove((first.offset,))
            self._waiting_count -= 1
            self.done = max(self.done, first.last_offset + 1)
            if first.item.message_count or first.item.covered:
                blocks.append(first.item)
        return blocks

    def _uncover(self, start: int, end: int) -> None:
        """Have the offsets `[start, end)` requested again, but none that is answered or beyond the range's end."""
        start, end = max(start, self.done), min(end, self._end)
        if start < end:
            self._uncovered[start] = end

    def _cover(self, request: PullRequest, next_offset: int) -> int:
        """Return the end of the offsets that a response covers, usually at most the end of its request.

        But a response may cover offsets beyond its request (a filter skips many). If these were never requested, they
        count as covered: return their end, and move `_frontier` there, so that they will not be requested.
        """
        if request.end == self._frontier and next_offset > request.end:
            self._frontier = min(next_offset, self._end)
            return self._frontier
        return max(request.start, min(next_offset, request.end))

    def _adapt_stride(self, request: PullRequest, next_offset: int) -> None:
        """Adapt the stride, the number of offsets that one pull requests, to a response.

        If the response covers fewer or more offsets than were requested, their number is the new stride. After
        `_FULL_BEFORE_MORE` responses that cover the whole stride, double it, up to the batch size.
        """
        covered, requested = next_offset - request.start, request.end - request.start
        if covered == requested:
            if covered == self.stride < self._batch_size:
                self._full_count += 1
                if self._full_count == _FULL_BEFORE_MORE:
                    self.stride, self._full_count = min(2 * self.stride, self._batch_size), 0
        elif covered > 0:
            self.stride, self._full_count = covered, 0

    def _keep(self, start: int, end: int, block: Block) -> None:
        """Keep the block of the offsets `[start, end)` until `take` returns it in offset order.

        `take` leaves out an empty block, unless the block must hold messages (no filter, no compaction).
        """
        if start == self.done:
            self.done = end
            if block[2] or block[4]:
                self._ready.append(block)
        else:
            self.waiting.put((Entry(start, end - 1, block.message_count, len(block.data), block),))
            self._waiting_count += 1
            self._has_whole_sizes = True


def _holds_wanted(block: Block) -> bool:
    """Return whether a block has records, and the first of them lies before the end of the block's wanted range."""
    return bool(block.message_count) and first_queue_offset(block.data) < block.wanted.end
