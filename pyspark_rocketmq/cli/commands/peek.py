"""Show the first or last messages of a topic or queue."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ...errors import OptionError
from ...model import MessageQueue, QueueRange
from ..command import Command, Parameter
from ..exits import Exit
from ..messages import BODY, MessageRow, choose_queue, read_messages, show_messages, to_row
from ..positions import resolve_time
from ..views import Note, View

if TYPE_CHECKING:
    from ...client.message import ReceivedMessage
    from ...model import QueueBounds
    from ..session import Session

__all__ = ["COMMANDS"]


@dataclass(frozen=True, slots=True)
class Peeked:
    """Messages of a topic, in the order in which they were stored."""

    topic: str
    messages: tuple[MessageRow, ...]
    gone: int
    """Number of offsets from that of `--offset` on whose messages are deleted."""
    warnings: tuple[str, ...]
    """Messages that were to be read and are lost, and an offset outside its queue."""


def _run(
    session: Session, topic: str, queue: str | None, count: int, start: str | None, offset: int | None, body: str | None
) -> Peeked:
    from ..store_order import read_first, read_last, require_count

    _check_offset(offset, queue, start)
    require_count("--count", count)
    queues = choose_queue(session.cluster, topic, queue)
    bounds = session.cluster.offsets.fetch_bounds(queues)
    warnings: list[str] = []

    def read(ranges: Iterable[QueueRange]) -> Iterator[ReceivedMessage]:
        return read_messages(session, ranges, warn=warnings.append)

    if offset is not None:
        starts = dict.fromkeys(queues, offset)
        warnings += [text for each in queues if (text := _outside(each, offset, bounds[each]))]
    elif start is not None:
        starts = resolve_time(session.cluster, queues, "--from", start, now_ms=session.now_ms())
    else:
        ranges = [QueueRange(each, bounds[each].min_offset, bounds[each].max_offset) for each in queues]
        rows = read_last(read, ranges, count, partial(to_row, body=body))
        return Peeked(topic, tuple(rows), 0, tuple(warnings))
    ranges = [_from(each, at, bounds[each]) for each, at in starts.items()]
    rows = read_first(read, ranges, count, partial(to_row, body=body))
    gone = 0 if offset is None else max(0, bounds[queues[0]].min_offset - offset)
    return Peeked(topic, tuple(rows), gone, tuple(warnings))


def _check_offset(offset: int | None, queue: str | None, start: str | None) -> None:
    if offset is None:
        return
    if queue is None or start is not None:
        raise OptionError("--offset", str(offset), "needs --queue, and no --from", advice="name the queue: BROKER/ID")
    if offset < 0:
        raise OptionError("--offset", str(offset), "out of range", advice="give at least 0")


def _outside(queue: MessageQueue, offset: int, bounds: QueueBounds) -> str | None:
    """Return what is wrong with an offset that is asked for; None if it lies within the queue."""
    low, high, _ = bounds
    if offset < low:
        return f"messages from {offset} to {low} of {queue} are gone"
    return f"{queue} ends at {high}: nothing is stored at {offset} yet" if offset >= high else None


def _from(queue: MessageQueue, offset: int, bounds: QueueBounds) -> QueueRange:
    return QueueRange(queue, min(max(offset, bounds.min_offset), bounds.max_offset), bounds.max_offset)


def _verdict(peeked: Peeked, values: dict[str, Any]) -> int:
    return Exit.DATA_GONE if peeked.gone else Exit.DONE


def _show(peeked: Peeked) -> list[View]:
    views = show_messages(peeked.messages) or [Note(f"no messages in {peeked.topic}")]
    return [*views, *(Note(text, is_warning=True) for text in peeked.warnings)]


COMMANDS = (
    Command(
        "peek",
        Peeked,
        _run,
        _show,
        parameters=(
            Parameter("TOPIC", "topic", is_required=True),
            Parameter("-n/--count", "number of messages, at most 10000", int, 10, metavar="COUNT"),
            Parameter("--queue", "only this queue", metavar="BROKER/ID"),
            Parameter(
                "--from/--start", "the first messages from here on, instead of the last: earliest or a time",
                metavar="WHERE",
            ),
            Parameter("--offset", "the first messages from this offset of --queue on", int, metavar="OFFSET"),
            BODY,
        ),
        details="Reads without a group, so no position moves. "
        "Messages of several queues are ordered by their store times. Exits with 7 if messages from --offset on are "
        "deleted already.",
        examples=(
            "pyspark-rocketmq peek orders -n 3",
            "pyspark-rocketmq peek orders --from earliest -n 1 --body json",
            "pyspark-rocketmq peek orders --queue broker-a/0 --offset 2",
        ),
        verdict=_verdict,
    ),
)  # fmt: skip
