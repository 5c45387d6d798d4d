"""Which is the first message stored at or after a time, where the broker only names one nearby?

Brokers before 5.1.1 answer a search by time with the *nearest* message, earlier or later, and among equal times with
any. So the store times around their answer are looked at, one message per queue and round, until the place is
certain. Store times rise with offsets, so steps that double, then halve, need few rounds: usually two.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping

from ..broker_errors import PullNotFound, PullOffsetMoved, PullRetryImmediately
from ..errors import located
from ..model import MessageQueue
from ..net.deadline import Deadline
from ..wire.commands import PullMessageRequestHeader, RequestHeader
from ..wire.record import decode_record
from .broker import Brokers, to_queue
from .names import READER_GROUP
from .servers import Reply

SEARCHES_EXACTLY = 435
"""The first version, 5.1.1, whose search by time is exact."""

_SUBSCRIPTION_IN_REQUEST = 4
_GONE = (PullNotFound, PullOffsetMoved, PullRetryImmediately)
_LONG_AGO = -1

Search = Generator[int, int, int]
"""Yields an offset, is sent the store time found there, and returns the offset sought."""


def search_first_since(time_ms: int, nearest: int, min_offset: int, max_offset: int) -> Search:
    """Look for the first offset of `[min_offset, max_offset)` stored at or after a time, beginning at `nearest`."""
    low, high = min_offset, max_offset  # Everything below `low` is earlier; what is at `high` is not, or is the end.
    probe, step = min(max(nearest, low), high - 1), 1
    while low < high:
        is_earlier = (yield probe) < time_ms
        low, high = (probe + 1, high) if is_earlier else (low, probe)
        ahead = low + step - 1 if is_earlier else high - step
        probe = ahead if low <= ahead < high else (low + high) // 2
        step *= 2
    return low


def run_searches(
    brokers: Brokers, searches: Mapping[MessageQueue, Search], deadline: Deadline | None = None
) -> dict[MessageQueue, int]:
    """What the searches find, one burst of questions for each round."""
    found: dict[MessageQueue, int] = {}
    probes: dict[MessageQueue, int] = {}

    def step(queue: MessageQueue, store_time: int | None) -> None:
        try:
            probes[queue] = next(searches[queue]) if store_time is None else searches[queue].send(store_time)
        except StopIteration as end:
            found[queue] = end.value

    for queue in searches:
        step(queue, None)
    while probes:
        times = fetch_store_times(brokers, probes, deadline)
        probes.clear()
        for queue, time in times.items():
            step(queue, time)
    return found


def fetch_store_times(
    brokers: Brokers, offsets: Mapping[MessageQueue, int], deadline: Deadline | None = None
) -> dict[MessageQueue, int]:
    """Store time of the message at an offset of each queue; of one that is gone meanwhile, a time long ago."""
    requests = {queue: to_queue(queue, pull_one(queue, offset)) for queue, offset in offsets.items()}
    replies = brokers.ask_all(requests, absent=_GONE, any_copy=True, deadline=deadline)
    return {queue: _store_time(replies[queue]) if queue in replies else _LONG_AGO for queue in offsets}


def pull_one(queue: MessageQueue, offset: int, group: str = READER_GROUP) -> RequestHeader:
    """Return the request for one message, whatever its tag, at an offset."""
    return PullMessageRequestHeader(
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


def _store_time(reply: Reply) -> int:
    with located(reply.request.where()):
        return decode_record(reply.command.body)[0].store_timestamp
