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
from ..wire.record import decode_record
from .broker import Brokers, RoutedRequest, to_queue
from .file_heads import FileHead, find_file_head, is_foreign
from .names import READER_GROUP, Namespace
from .servers import Reply

SEARCHES_EXACTLY = 435
"""The version number of 5.1.1, the first release whose search by time is exact."""

_SUBSCRIPTION_IN_REQUEST = 4
_GONE = (PullNotFound, PullOffsetMoved, PullRetryImmediately)
_LONG_AGO = -1

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
        requests = {queue: pull_one(queue, offset) for queue, offset in probes.items()}
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
        requests = {queue: pull_one(queue, offset, group) for queue, offset in offsets.items()}
        return brokers.try_all(requests, deadline=deadline)

    def fetch_found(probes: Mapping[MessageQueue, int]) -> dict[MessageQueue, int | None]:
        results = pull_each(probes)
        misplaced = _find_misplaced(probes, results, pull_each, brokers.settings.namespace)
        return {
            queue: None if queue in misplaced else _maybe_found(offset, results[queue])
            for queue, offset in probes.items()
        }

    return _run({queue: search_first_readable(low, high) for queue, (low, high) in bounds.items()}, fetch_found)


def _run(
    searches: Mapping[MessageQueue, Generator[int, T, int]],
    fetch: Callable[[Mapping[MessageQueue, int]], Mapping[MessageQueue, T]],
) -> dict[MessageQueue, int]:
    """Run the searches to their end, and return the offset that each finds; `fetch` pulls for all in each round."""
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


def pull_one(queue: MessageQueue, offset: int, group: str = READER_GROUP) -> RoutedRequest:
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


def _find_misplaced(
    offsets: Mapping[MessageQueue, int],
    results: Mapping[MessageQueue, Reply | RocketMQError],
    pull_each: Callable[[Mapping[MessageQueue, int]], Mapping[MessageQueue, Reply | RocketMQError]],
    namespace: Namespace,
) -> set[MessageQueue]:
    """Return the queues whose pull returned another record, the first of a commit-log file, for a deleted message.

    `offsets` and `results` are the offset and the result of each queue's pull. A record that names a larger offset is
    pulled there again by `pull_each`; if that returns the same record, it does not belong where it was pulled first.
    """
    heads = {queue: head for queue, offset in offsets.items() if (head := _maybe_file_head(offset, results[queue]))}
    misplaced = {queue for queue, head in heads.items() if is_foreign(queue, head, namespace)}
    stated = {queue: head.queue_offset for queue, head in heads.items() if head.queue_offset > offsets[queue]}
    again = pull_each(stated) if stated else {}
    return misplaced | {queue for queue in again if _maybe_file_head(stated[queue], again[queue]) == heads[queue]}


def _maybe_file_head(offset: int, result: Reply | RocketMQError) -> FileHead | None:
    """Return the record in `result` as a file head if it may lie at the beginning of a commit-log file, else None.

    `result` is the result of a pull at `offset`; return None if it is an error, or a response that does not cover just
    this offset. Raise `DecodeError` if such a record has the size of the response's body but is damaged.
    """
    if isinstance(result, RocketMQError):
        return None
    next_offset = result.header(PullMessageResponseHeader).next_begin_offset
    with located(result.request.where()):
        return find_file_head(offset, next_offset, result.command.body)


def _store_time(reply: Reply) -> int:
    with located(reply.request.where()):
        return decode_record(reply.command.body)[0].store_timestamp


def _maybe_found(offset: int, result: Reply | RocketMQError) -> int | None:
    if isinstance(result, PullRetryImmediately):
        return None
    return offset if isinstance(result, RocketMQError) else _first_offset(result)


def _first_offset(reply: Reply) -> int:
    """Return the offset of the one message in a reply to a pull.

    Return the smaller one if the reply's header and the stored record differ, because some producers make brokers store
    a larger offset in the record. For an inner batch, return the record's offset.
    """
    with located(reply.request.where()):
        record = decode_record(reply.command.body)[0]
    if record.is_inner_batch:
        return record.queue_offset
    return min(record.queue_offset, reply.header(PullMessageResponseHeader).next_begin_offset - 1)
