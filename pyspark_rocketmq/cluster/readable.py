"""Find the first message of a queue that can be read.

A broker deletes files of its commit log and raises the minimum of each consume queue by a thread of its own, up to
10 s later. Until then the queue's minimum names messages that are gone. So a message is pulled at the minimum; the
answer holds the first one that can be read, as a rule that very one. Where a master says that there is none, the place
is found by halving what is left, since retention takes from the front. All queues are asked at once in each round.

Invariant: what is passed over is what a master said is gone, and still says so in the end. Whatever else comes, an
error or an answer that makes no sense, counts as a message that is there: reading begins earlier, and tells more.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping

from ..broker_errors import PullRetryImmediately
from ..errors import RocketMQError, located
from ..model import MessageQueue
from ..net.deadline import Deadline
from ..wire.commands import PullMessageResponseHeader
from ..wire.record import decode_record
from .broker import Brokers, to_queue
from .servers import Reply
from .times import pull_one

__all__ = ["fetch_first_readable", "search_first_readable"]

Search = Generator[int, int | None, int]
"""Yields an offset, is sent that of the first message a pull there brings, if any, and returns the offset sought."""


def search_first_readable(min_offset: int, max_offset: int) -> Search:
    """Look for the first readable offset of `[min_offset, max_offset)`; the end if there is none."""
    # Nothing below `low` is readable; at `high` `first` is found.
    low, high, first = min_offset, max_offset, max_offset
    probe = low
    while low < high:
        found = yield probe
        if found is None:
            low = probe + 1
        else:
            high, first = probe, min(max(found, probe), max_offset)
        probe = (low + high) // 2
    if low > min_offset and (found := (yield min_offset)) is not None:
        first = min(max(found, min_offset), first)
    return first


def fetch_first_readable(
    brokers: Brokers,
    group: str,
    bounds: Mapping[MessageQueue, tuple[int, int]],
    deadline: Deadline | None = None,
) -> dict[MessageQueue, int]:
    """The first readable offset within each queue's bounds; nearly always by one small pull for each queue."""
    searches = {queue: search_first_readable(low, high) for queue, (low, high) in bounds.items()}
    replies: dict[MessageQueue, int | None] = dict.fromkeys(searches)
    found: dict[MessageQueue, int] = {}
    while replies:
        probes: dict[MessageQueue, int] = {}
        for queue, offset in replies.items():
            try:
                probes[queue] = searches[queue].send(offset)
            except StopIteration as end:
                found[queue] = end.value
        replies = _pull_each(brokers, group, probes, deadline) if probes else {}
    return found


def _pull_each(
    brokers: Brokers, group: str, offsets: Mapping[MessageQueue, int], deadline: Deadline | None
) -> dict[MessageQueue, int | None]:
    """Return for each queue the offset of the first message from there on; None where its master has none."""
    requests = {queue: to_queue(queue, pull_one(queue, offset, group)) for queue, offset in offsets.items()}
    results = brokers.try_all(requests, deadline=deadline)
    return {queue: _maybe_found(offset, results[queue]) for queue, offset in offsets.items()}


def _maybe_found(offset: int, result: Reply | RocketMQError) -> int | None:
    if isinstance(result, PullRetryImmediately):
        return None
    return offset if isinstance(result, RocketMQError) else _first_offset(result)


def _first_offset(reply: Reply) -> int:
    """Return where the message of an answer lies; the smaller offset, where the answer and its record differ.

    Some producers make brokers store a larger offset within a plain record.
    """
    with located(reply.request.where()):
        record = decode_record(reply.command.body)[0]
    if record.is_inner_batch:
        return record.queue_offset
    return min(record.queue_offset, reply.header(PullMessageResponseHeader).next_begin_offset - 1)
