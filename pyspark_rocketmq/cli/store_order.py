"""Read the first or the last messages of several queues, in the order in which they were stored.

Store times rise within a queue. So queues are read in rounds, from the wanted side, in each of which every queue gives
a part. A queue is left when it is read to its other side, or when its messages lie beyond as many others as are wanted.
No more rows are held than are wanted, however many messages are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import nlargest, nsmallest
from itertools import chain
from typing import Any, NamedTuple

from ..client.message import ReceivedMessage
from ..errors import OptionError
from ..model import MessageQueue, QueueRange
from .messages import MessageRow

__all__ = ["in_store_order", "read_first", "read_last", "require_count"]

MOST_ROWS = 10_000
"""The most messages that a command holds; one of them may have 4 MiB."""
_MOST_PART = 8192
"""The most offsets of a queue that are read before the others get their turn."""

Read = Callable[[Iterable[QueueRange]], Iterator[ReceivedMessage]]
MakeRow = Callable[[ReceivedMessage], MessageRow]


def require_count(option: str, count: int) -> None:
    """Raise `OptionError` unless so many messages can be shown at once."""
    if not 1 <= count <= MOST_ROWS:
        raise OptionError(option, str(count), "out of range", advice=f"give at least 1, and at most {MOST_ROWS}")


def read_first(read: Read, ranges: Iterable[QueueRange], count: int, make_row: MakeRow) -> list[MessageRow]:
    """Return the `count` messages of the ranges that were stored first, or all if there are fewer."""
    return _read_rounds(_FIRST, read, ranges, count, make_row)


def read_last(read: Read, ranges: Iterable[QueueRange], count: int, make_row: MakeRow) -> list[MessageRow]:
    """Return the `count` messages of the ranges that were stored last, or all if there are fewer."""
    return _read_rounds(_LAST, read, ranges, count, make_row)[::-1]


def in_store_order(rows: Iterable[MessageRow]) -> list[MessageRow]:
    """Return messages in the order in which they were stored."""
    return sorted(rows, key=_place)


def _place(row: MessageRow) -> tuple[int, str, int, int]:
    return row.stored.ms, row.broker, row.queue_id, row.offset


# --- rounds ----------------------------------------------------------------------------------------------------------


class _Span(NamedTuple):
    """The store times of a queue's first and last message in a round."""

    first_ms: int
    last_ms: int


class _Side(NamedTuple):
    """The side of queues from which messages are read."""

    choose: Callable[..., list[Any]]
    """Returns the wanted number of rows, the last wanted one at the end."""
    part: Callable[[QueueRange, int], QueueRange]
    """Returns the next part of a range."""
    rest: Callable[[QueueRange, QueueRange], QueueRange]
    """Returns the range without that part."""
    is_beyond: Callable[[_Span, int], bool]
    """Whether the rest of a queue lies beyond a store time, given the times of its part."""


_FIRST = _Side(
    nsmallest,
    lambda whole, count: QueueRange(whole.queue, whole.start, min(whole.end, whole.start + count)),
    lambda whole, part: QueueRange(whole.queue, part.end, whole.end),
    lambda span, limit_ms: span.last_ms > limit_ms,
)
_LAST = _Side(
    nlargest,
    lambda whole, count: QueueRange(whole.queue, max(whole.start, whole.end - count), whole.end),
    lambda whole, part: QueueRange(whole.queue, whole.start, part.start),
    lambda span, limit_ms: span.first_ms < limit_ms,
)


def _read_rounds(
    side: _Side, read: Read, ranges: Iterable[QueueRange], count: int, make_row: MakeRow
) -> list[MessageRow]:
    best: list[MessageRow] = []
    waiting = [each for each in ranges if each.offset_count > 0]
    size = -(-count // max(1, len(waiting)))
    while waiting:
        spans: dict[MessageQueue, _Span] = {}
        parts = [side.part(each, size) for each in waiting]
        best = side.choose(count, chain(best, _make_rows(read(parts), make_row, spans)), key=_place)
        limit_ms = best[-1].stored.ms if len(best) == count else None
        beyond = {queue for queue, span in spans.items() if limit_ms is not None and side.is_beyond(span, limit_ms)}
        rests = map(side.rest, waiting, parts)
        waiting = [each for each in rests if each.offset_count > 0 and each.queue not in beyond]
        size = min(2 * size, _MOST_PART)
    return best


def _make_rows(
    messages: Iterable[ReceivedMessage], make_row: MakeRow, spans: dict[MessageQueue, _Span]
) -> Iterator[MessageRow]:
    """Yield rows, and put the store times of each queue into `spans`."""
    for message in messages:
        stored_ms = message.store_timestamp_ms
        first_ms = spans[message.queue].first_ms if message.queue in spans else stored_ms
        spans[message.queue] = _Span(first_ms, stored_ms)
        yield make_row(message)
