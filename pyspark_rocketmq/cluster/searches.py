"""Find offsets that brokers do not report, by pulling single messages.

Each search of a queue is a generator: it yields the offset to pull at, and is sent what the pull found. In each round
one burst pulls one message of every queue that is still searched.

*The first message stored at or after a time.* Brokers before 5.1.1 answer with the *nearest* message, earlier or later,
and among equal times with any. Store times rise with offsets, so steps that double, then halve, need few rounds:
usually two.

*The first message that can be read.* A broker deletes files of its commit log and raises the minimum of each consume
queue by a thread of its own, up to 10 s later. Until then the queue's minimum names messages that are gone. So a
message is pulled at the minimum; the response holds the first one that can be read, usually the one at the minimum. If
a master says that there is none, the search halves the remaining offsets, since retention deletes from the front.
Invariant: an offset is passed over only if a master said that its message is gone, and says so again in the end. Any
other result, an error of a server or an offset out of range, counts as a message that is there: then reading begins
earlier, and reports more losses.

A record that a broker returns in place of a deleted message (`file_heads`) counts as none.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from functools import partial
from typing import TypeVar

from ..broker_errors import PullNotFound, PullOffsetMoved, PullRetryImmediately
from ..errors import RocketMQError, located
from ..model import MessageQueue
from ..net.deadline import Deadline
from ..wire.commands import PullMessageRequestHeader, PullMessageResponseHeader
from ..wire.record import Record, decode_record
from .broker import Brokers, RoutedRequest, to_queue
from .file_heads import Pulled, is_file_head
from .names import READER_GROUP
from .servers import Reply

SEARCHES_EXACTLY = 435
"""The version number of 5.1.1, the first release whose search by time is exact."""

_SUBSCRIPTION_IN_REQUEST = 4
_GONE = (PullNotFound, PullOffsetMoved, PullRetryImmediately)
_LONG_AGO = -1
_UNKNOWN_PLACE = -1

T = TypeVar("T")
TimeSearch = Generator[int, int, int]
"""A search by time: yields an offset, is sent the store time of the message there, and returns the offset sought."""
ReadableSearch = Generator[int, int | None, int]
"""A search for the first readable message: it yields an offset to pull at, and returns the offset it looks for.

It is sent the offset of the first message that the pull returned, or None.
"""


def search_first_since(time_ms: int, nearest: int, min_offset: int, max_offset: int) -> TimeSearch:
    """Search `[min_offset, max_offset)` for the first message stored at or after a time; return its offset.

    Return `max_offset` if there is none. The generator yields offsets to pull at, first `nearest`, which a broker found
    to be near that time. It is sent the store time of the message there.
    """
    low, high = min_offset, max_offset  # Messages below `low` are earlier, the one at `high` is not.
    probe, step = min(max(nearest, low), high - 1), 1
    while low < high:
        is_earlier = (yield probe) < time_ms
        low, high = (probe + 1, high) if is_earlier else (low, probe)
        ahead = low + step - 1 if is_earlier else high - step
        probe = ahead if low <= ahead < high else (low + high) // 2
        step *= 2
    return low


def search_first_readable(min_offset: int, max_offset: int) -> ReadableSearch:
    """Search `[min_offset, max_offset)` for the first readable message; return its offset, or `max_offset` without one.

    The generator yields offsets to pull at. It is sent the offset of the message that the pull returned, or None.
    """
    # Nothing below `low` is readable; a pull at `high` finds `first`.
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


def find_first_since(
    brokers: Brokers, searches: Mapping[MessageQueue, TimeSearch], deadline: Deadline | None = None
) -> dict[MessageQueue, int]:
    """Run the queues' searches by time and return the offset that each finds.

    A message that is deleted during the search counts as older than the time.
    """

    def fetch_store_times(probes: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        requests = {queue: _one_message_request(queue, offset) for queue, offset in probes.items()}
        replies = brokers.ask_all(requests, absent=_GONE, any_copy=True, deadline=deadline)
        return {queue: _store_time(replies[queue]) if queue in replies else _LONG_AGO for queue in probes}

    return _run(searches, fetch_store_times)


def fetch_first_readable(
    brokers: Brokers,
    group: str,
    bounds: Mapping[MessageQueue, tuple[int, int]],
    deadline: Deadline | None = None,
) -> dict[MessageQueue, int]:
    """Return the offset of the first readable message within each queue's bounds; the end if there is none.

    Nearly always this takes one small pull for each queue.
    """

    def pull_each(offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, Reply | RocketMQError]:
        requests = {queue: _one_message_request(queue, offset, group) for queue, offset in offsets.items()}
        return brokers.try_all(requests, deadline=deadline)

    def is_misplaced(queue: MessageQueue, offset: int, reply: Reply) -> bool:
        header = reply.header(PullMessageResponseHeader)
        pulled = Pulled(offset, header.next_begin_offset, header.max_offset, reply.command.body)
        with located(reply.request.where()):
            return is_file_head(
                queue, pulled, brokers.settings.namespace, lambda at: _maybe_place(at, pull_each({queue: at})[queue])
            )

    def find(queue: MessageQueue, offset: int, result: Reply | RocketMQError) -> int | None:
        if isinstance(result, RocketMQError):
            return None if isinstance(result, PullRetryImmediately) else offset
        return None if is_misplaced(queue, offset, result) else _first_offset(result)

    def fetch_found(probes: Mapping[MessageQueue, int]) -> dict[MessageQueue, int | None]:
        results = pull_each(probes)
        return {queue: find(queue, offset, results[queue]) for queue, offset in probes.items()}

    return _run({queue: search_first_readable(low, high) for queue, (low, high) in bounds.items()}, fetch_found)


def _run(
    searches: Mapping[MessageQueue, Generator[int, T, int]],
    fetch: Callable[[Mapping[MessageQueue, int]], Mapping[MessageQueue, T]],
) -> dict[MessageQueue, int]:
    """Run one search per queue to its end, in rounds, and return the offset that each finds.

    In each round `fetch` gets the offset at which to pull each queue, and returns what its search is sent.
    """
    found: dict[MessageQueue, int] = {}
    probes: dict[MessageQueue, int] = {}

    def proceed(queue: MessageQueue, step: Callable[[], int]) -> None:
        try:
            probes[queue] = step()
        except StopIteration as end:
            found[queue] = end.value

    for queue, search in searches.items():
        proceed(queue, partial(next, search))
    while probes:
        replies = fetch(probes)
        probes.clear()
        for queue, reply in replies.items():
            proceed(queue, partial(searches[queue].send, reply))
    return found


def _one_message_request(queue: MessageQueue, offset: int, group: str = READER_GROUP) -> RoutedRequest:
    """Return a request to pull one message, with any tag, at an offset."""
    header = PullMessageRequestHeader(
        consumer_group=group,
        topic=queue.topic,
        queue_id=queue.queue_id,
        queue_offset=offset,
        max_msg_nums=1,
        sys_flag=_SUBSCRIPTION_IN_REQUEST,
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription="*",
        sub_version=0,
        expression_type="TAG",
    )
    return to_queue(queue, header)


def _maybe_place(offset: int, result: Reply | RocketMQError) -> int | None:
    """Return where in the commit log the message of `offset` lies, given the result of a pull at this offset.

    Return None if the message is gone, and `_UNKNOWN_PLACE` if the pull failed for another reason.
    """
    if isinstance(result, RocketMQError):
        return None if isinstance(result, _GONE) else _UNKNOWN_PLACE
    return _record(result).physical_offset if _first_offset(result) <= offset else None


def _store_time(reply: Reply) -> int:
    return _record(reply).store_timestamp


def _record(reply: Reply) -> Record:
    with located(reply.request.where()):
        return decode_record(reply.command.body)[0]


def _first_offset(reply: Reply) -> int:
    """Return the offset of the one message in a reply to a pull.

    Return the smaller one if the reply's header and the stored record differ, because some producers make brokers store
    a larger offset in the record. For an inner batch, return the record's offset.
    """
    record = _record(reply)
    if record.is_inner_batch:
        return record.queue_offset
    return min(record.queue_offset, reply.header(PullMessageResponseHeader).next_begin_offset - 1)
