"""Find the first message of a queue that can be read.

A broker deletes files of its commit log and raises the minimum of each consume queue by a thread of its own, up to
10 s later. Until then the queue's minimum names messages that are gone. So a message is pulled at the minimum; the
answer holds the first one that can be read, as a rule that very one. Where the answer holds none, the place is found by
halving what is left, since retention takes from the front. All queues are asked at once in each round.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping

from ..broker_errors import PullNotFound, PullOffsetMoved, PullRetryImmediately
from ..errors import located
from ..model import MessageQueue
from ..net.deadline import Deadline
from ..wire.commands import PullMessageRequestHeader, PullMessageResponseHeader, RequestHeader
from ..wire.record import decode_record
from .broker import Brokers, Errand
from .requests import Answer

__all__ = ["fetch_first_readable", "search_first_readable"]

_SUBSCRIPTION_IN_REQUEST = 4
_NOTHING_READABLE = (PullNotFound, PullOffsetMoved, PullRetryImmediately)

Search = Generator[int, int | None, int]
"""Yields an offset, is sent that of the first message a pull there brings, if any, and returns the offset sought."""


def search_first_readable(min_offset: int, max_offset: int) -> Search:
    """Look for the first readable offset of `[min_offset, max_offset)`; the end if there is none."""
    low, high, first = (
        min_offset,
        max_offset,
        max_offset,
    )  # Nothing below `low` is readable; at `high` `first` is found.
    probe = low
    while low < high:
        found = yield probe
        if found is None:
            low = probe + 1
        else:
            high, first = probe, min(max(found, probe), max_offset)
        probe = (low + high) // 2
    return first


def fetch_first_readable(
    brokers: Brokers,
    group: str,
    bounds: Mapping[MessageQueue, tuple[int, int]],
    deadline: Deadline | None = None,
) -> dict[MessageQueue, int]:
    """The first readable offset within each queue's bounds; nearly always by one small pull for each queue."""
    searches = {queue: search_first_readable(low, high) for queue, (low, high) in bounds.items()}
    answers: dict[MessageQueue, int | None] = dict.fromkeys(searches)
    found: dict[MessageQueue, int] = {}
    while answers:
        probes: dict[MessageQueue, int] = {}
        for queue, offset in answers.items():
            try:
                probes[queue] = searches[queue].send(offset)
            except StopIteration as end:
                found[queue] = end.value
        answers = _pull_each(brokers, group, probes, deadline) if probes else {}
    return found


def _pull_each(
    brokers: Brokers, group: str, offsets: Mapping[MessageQueue, int], deadline: Deadline | None
) -> dict[MessageQueue, int | None]:
    """The offset of the first message that a pull at each offset brings, if it brings any."""
    errands = {
        queue: Errand(queue.topic, queue.broker_name, _pull_one(group, queue, offset))
        for queue, offset in offsets.items()
    }
    answers = brokers.ask_all(errands, absent=_NOTHING_READABLE, any_copy=True, deadline=deadline)
    return {queue: _first_offset(answers[queue]) if queue in answers else None for queue in offsets}


def _pull_one(group: str, queue: MessageQueue, offset: int) -> RequestHeader:
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


def _first_offset(answer: Answer) -> int:
    """Where the message of an answer lies; some producers make brokers store another offset within a plain one."""
    with located(answer.question.where()):
        record = decode_record(answer.command.body)[0]
    return (
        record.queue_offset if record.is_inner_batch else answer.header(PullMessageResponseHeader).next_begin_offset - 1
    )
