"""Show the first or last messages of a topic or queue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...errors import OptionError
from ...model import MessageQueue, QueueRange
from ..command import Command, Parameter
from ..messages import BODY, MessageRow, choose_queue, read_messages, show_messages, to_row
from ..positions import resolve
from ..views import Note, View

if TYPE_CHECKING:
    from ...model import QueueBounds
    from ..session import Session

__all__ = ["COMMANDS"]


@dataclass(frozen=True, slots=True)
class Peeked:
    """Messages of a topic, in the order in which they were stored."""

    topic: str
    messages: tuple[MessageRow, ...]


def _run(
    session: Session, topic: str, queue: str | None, count: int, start: str | None, offset: int | None, body: str | None
) -> Peeked:
    if offset is not None and (queue is None or start is not None):
        raise OptionError("--offset", str(offset), "needs --queue, and no --from", advice="name the queue: BROKER/ID")
    if count < 1:
        raise OptionError("--count", str(count), "out of range", advice="give at least 1")
    queues = choose_queue(session.cluster, topic, queue)
    bounds = session.cluster.offsets.fetch_bounds(queues)
    is_first = start is not None or offset is not None
    if offset is not None:
        ranges = [_from(each, offset, bounds[each], count) for each in queues]
    elif start is not None:
        starts = resolve(session.cluster, queues, "--from", start, now_ms=session.now_ms())
        ranges = [_from(each, at, bounds[each], count) for each, at in starts.items()]
    else:
        ranges = [_last(each, bounds[each], count) for each in queues]
    found = sorted(
        (to_row(message, body) for message in read_messages(session, ranges)),
        key=lambda each: (each.stored.ms, each.broker, each.queue_id, each.offset),
    )
    return Peeked(topic, tuple(found[:count] if is_first else found[-count:]))


def _from(queue: MessageQueue, offset: int, bounds: QueueBounds, count: int) -> QueueRange:
    start = min(max(offset, bounds.min_offset), bounds.max_offset)
    return QueueRange(queue, start, min(start + count, bounds.max_offset))


def _last(queue: MessageQueue, bounds: QueueBounds, count: int) -> QueueRange:
    return QueueRange(queue, max(bounds.min_offset, bounds.max_offset - count), bounds.max_offset)


def _show(peeked: Peeked) -> list[View]:
    return show_messages(peeked.messages) or [Note(f"no messages in {peeked.topic}")]


COMMANDS = (
    Command(
        "peek",
        Peeked,
        _run,
        _show,
        parameters=(
            Parameter("TOPIC", "topic", is_required=True),
            Parameter("-n/--count", "number of messages", int, 10, metavar="COUNT"),
            Parameter("--queue", "only this queue", metavar="BROKER/ID"),
            Parameter(
                "--from/--start", "the first messages from here on, instead of the last: earliest or a time",
                metavar="WHERE",
            ),
            Parameter("--offset", "the first messages from this offset of --queue on", int, metavar="OFFSET"),
            BODY,
        ),
        details="Reads without a group, so no position moves. "
        "Messages of several queues are ordered by their store times.",
        examples=(
            "pyspark-rocketmq peek orders -n 3",
            "pyspark-rocketmq peek orders --from earliest -n 1 --body json",
            "pyspark-rocketmq peek orders --queue broker-a/0 --offset 2",
        ),
    ),
)  # fmt: skip
