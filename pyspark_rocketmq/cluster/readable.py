"""Find the first message of a queue that can be read.

A broker deletes files of its commit log and raises the minimum of each consume queue by a thread of its own, up to
10 s later. Until then the queue's minimum names messages that are gone. So a message is pulled at the minimum; the
answer holds the first one that can be read, as a rule that very one. Where a master says that there is none, the place
is found by halving what is left, since retention takes from the front. All queues are asked at once in each round.

A broker of 5.x whose first file is deleted answers a pull of the message at place 0 of its log with the head of the
file that is first now, until it raises the minimum. That message is gone as well. A record counts as such a head only
if it is proved to lie elsewhere: it has another size than the queue's entry names, it belongs to another queue, or the
offset written in it brings the same record. The offset alone proves nothing, since producers make brokers store larger
ones.

Invariant: what is passed over is what a master said is gone, and still says so in the end. Whatever else comes, an
error or an answer that makes no sense, counts as a message that is there: reading begins earlier, and tells more.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Mapping
from typing import NamedTuple

from ..broker_errors import PullRetryImmediately
from ..errors import RocketMQError, located
from ..model import MessageQueue, is_light
from ..net.deadline import Deadline
from ..wire.commands import PullMessageResponseHeader
from ..wire.record import decode_record
from .broker import Brokers, Errand
from .names import Namespace
from .requests import Answer
from .times import pull_one

__all__ = ["fetch_first_readable", "search_first_readable"]

_HEAD = struct.Struct(">i8xi4xqq")
"""A record's size, queue id, queue offset and place in the log."""
_FILE_STEP = 2**16
"""A divisor of the size of every file of a commit log."""

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
    answers: dict[MessageQueue, int | None] = dict.fromkeys(searches)
    found: dict[MessageQueue, int] = {}
    while answers:
        probes: dict[MessageQueue, int] = {}
        for queue, offset in answers.items():
            try:
                probes[queue] = searches[queue].send(offset)
            except StopIteration as end:
                found[queue] = end.value
        answers = _find_each(brokers, group, probes, deadline) if probes else {}
    return found


def _find_each(
    brokers: Brokers, group: str, offsets: Mapping[MessageQueue, int], deadline: Deadline | None
) -> dict[MessageQueue, int | None]:
    """Return for each queue the offset of the first message from there on; None where its master has none."""
    results = _pull_each(brokers, group, offsets, deadline)
    heads = {queue: head for queue, offset in offsets.items() if (head := _maybe_file_head(offset, results[queue]))}
    misplaced = {queue for queue, head in heads.items() if _is_foreign(queue, head, brokers.settings.namespace)}
    stated = {queue: head.queue_offset for queue, head in heads.items() if head.queue_offset > offsets[queue]}
    again = _pull_each(brokers, group, stated, deadline) if stated else {}
    misplaced |= {queue for queue in again if _maybe_file_head(stated[queue], again[queue]) == heads[queue]}
    return {
        queue: None if queue in misplaced else _maybe_found(offset, results[queue]) for queue, offset in offsets.items()
    }


def _pull_each(
    brokers: Brokers, group: str, offsets: Mapping[MessageQueue, int], deadline: Deadline | None
) -> dict[MessageQueue, Answer | RocketMQError]:
    """Pull one message of each queue at its master."""
    errands = {
        queue: Errand(queue.topic, queue.broker_name, pull_one(queue, offset, group))
        for queue, offset in offsets.items()
    }
    return brokers.try_all(errands, deadline=deadline)


class _FileHead(NamedTuple):
    """The first record of a file of the commit log."""

    queue_id: int
    queue_offset: int
    physical_offset: int
    topic: str
    """Its topic; empty for a record whose size is not that of the message that was pulled."""


def _maybe_file_head(offset: int, result: Answer | RocketMQError) -> _FileHead | None:
    """Return the head of a file that came as the message at `offset`; None for any other answer."""
    if isinstance(result, RocketMQError) or len(result.command.body) < _HEAD.size:
        return None
    size, queue_id, queue_offset, physical_offset = _HEAD.unpack_from(body := result.command.body)
    is_at_file_start = physical_offset > 0 and physical_offset % _FILE_STEP == 0
    if not is_at_file_start or result.header(PullMessageResponseHeader).next_begin_offset != offset + 1:
        return None
    with located(result.question.where()):
        topic = decode_record(body)[0].topic if size == len(body) else ""
    return _FileHead(queue_id, queue_offset, physical_offset, topic)


def _is_foreign(queue: MessageQueue, head: _FileHead, namespace: Namespace) -> bool:
    """Return whether a head is no message of the queue; records of light topics name other queues."""
    if not head.topic:
        return True
    return not is_light(queue) and (head.topic, head.queue_id) != (namespace.wrap(queue.topic), queue.queue_id)


def _maybe_found(offset: int, result: Answer | RocketMQError) -> int | None:
    if isinstance(result, PullRetryImmediately):
        return None
    return offset if isinstance(result, RocketMQError) else _first_offset(result)


def _first_offset(answer: Answer) -> int:
    """Return where the message of an answer lies; the smaller offset, where the answer and its record differ.

    Some producers make brokers store a larger offset within a plain record.
    """
    with located(answer.question.where()):
        record = decode_record(answer.command.body)[0]
    if record.is_inner_batch:
        return record.queue_offset
    return min(record.queue_offset, answer.header(PullMessageResponseHeader).next_begin_offset - 1)
