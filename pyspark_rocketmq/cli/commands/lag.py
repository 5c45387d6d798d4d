"""Show how far a group is behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...lag.figures import Figure, QueueLag, Total, TotalLag
from ...model import MessageQueue
from ..command import Command, Parameter
from ..exits import Exit, NotFound
from ..values import Moment, Trouble, moment, troubles_of
from ..views import Column, Note, Table, View, show_size, show_span, show_troubles

if TYPE_CHECKING:
    from ..session import Session

__all__ = ["COMMANDS"]

_UNKNOWN = "?"
_NOTHING = "-"


@dataclass(frozen=True, slots=True)
class GroupLag:
    """The lag of a group at one moment, by queue and in total."""

    group: str
    at: Moment
    queues: tuple[QueueLag, ...]
    total: TotalLag
    troubles: tuple[Trouble, ...]
    """The brokers that did not answer, and may have more queues of the group."""


def _run(
    session: Session, group: str, topic: str | None, max: int | None, watch: bool, interval: float
) -> GroupLag | Iterator[GroupLag]:
    return _watch(session, group, topic, interval) if watch else _measure(session, group, topic)


def _watch(session: Session, group: str, topic: str | None, interval: float) -> Iterator[GroupLag]:
    measured = None
    while True:
        measured = _measure(session, group, topic, measured)
        if not session.screen.as_json:
            session.screen.clear()
        yield measured
        session.sleep(interval)


def _measure(session: Session, group: str, topic: str | None, before: GroupLag | None = None) -> GroupLag:
    from ...lag.measure import measure_group

    now_ms = session.now_ms()
    known = [MessageQueue(each.topic, each.broker, each.queue_id) for each in before.queues] if before else []
    lag = measure_group(session.cluster, group, topic, now_ms=now_ms, known=known)
    if not lag.queues and not lag.unanswered:
        where = f"in topic {topic}" if topic else "in any topic"
        raise NotFound(
            f"no broker has a position of group {group} {where}",
            advice="check the name; groups list shows all groups, and --topic includes queues without a position",
        )
    return GroupLag(group, moment(now_ms), lag.queues, lag.total, troubles_of(lag.unanswered))


def _verdict(lag: GroupLag, values: dict[str, Any]) -> int:
    most = values["max"]
    if most is None:
        return Exit.DONE
    messages = lag.total.messages
    return Exit.CHECK_FAILED if messages.unknown is not None or (messages.value or 0) > most else Exit.DONE


# --- for people ------------------------------------------------------------------------------------------------------

_COLUMNS = (
    Column("topic"),
    Column("broker"),
    Column("queue", is_number=True),
    Column("position", is_number=True),
    Column("end", is_number=True),
    Column("messages", is_number=True),
    Column("bytes ~", is_number=True),
    Column("behind", is_number=True),
    Column("kept for", is_number=True),
)


def _show(lag: GroupLag) -> list[View]:
    rows = [_row(each) for each in lag.queues]
    views: list[View] = [Table(_COLUMNS, [*rows, _total_row(lag.total)])]
    if lag.total.unknown_queues:
        views.append(Note(f"{lag.total.unknown_queues} queues are unknown and not in the total", is_warning=True))
    if lag.total.gone.value:
        at_least = "at least " if lag.total.gone.is_bound else ""
        views.append(Note(f"{at_least}{lag.total.gone.value} of the messages are deleted already", is_warning=True))
    if lag.troubles:
        brokers = ", ".join(each.what for each in lag.troubles)
        views.append(Note(f"{brokers} may have more queues of the group, which are not in the total", is_warning=True))
    reasons = (Note(f"{_UNKNOWN} {reason}", is_warning=True) for reason in _reasons(lag))
    return [*views, *show_troubles(lag.troubles), *reasons]


def _row(lag: QueueLag) -> tuple[str, ...]:
    numbers = (lag.position, lag.end, lag.messages)
    return (
        lag.topic,
        lag.broker,
        str(lag.queue_id),
        *(_number(each) for each in numbers),
        _size(lag.bytes),
        _span(lag.seconds),
        _span(lag.retention_seconds),
    )


def _total_row(total: TotalLag) -> tuple[str, ...]:
    figures = (
        _bound("≥", total.messages, _number),
        _bound("≥", total.bytes, _size),
        _bound("≥", total.seconds, _span),
        _bound("≤", total.retention_seconds, _span),
    )
    return "total", "", "", "", "", *figures


def _bound(sign: str, total: Total, show: Callable[[Figure | Total], str]) -> str:
    return f"{sign} {show(total)}" if total.is_bound else show(total)


def _number(figure: Figure | Total) -> str:
    return _UNKNOWN if figure.value is None else str(figure.value)


def _size(figure: Figure | Total) -> str:
    return _UNKNOWN if figure.value is None else show_size(figure.value)


def _span(figure: Figure | Total) -> str:
    if figure.value is None:
        return _UNKNOWN if figure.is_unknown else _NOTHING
    return show_span(figure.value)


def _reasons(lag: GroupLag) -> list[str]:
    figures = (
        figure
        for each in lag.queues
        for figure in (
            each.position,
            each.end,
            each.messages,
            each.gone,
            each.bytes,
            each.seconds,
            each.retention_seconds,
        )
    )
    return list(dict.fromkeys(figure.unknown for figure in figures if figure.unknown is not None))


COMMANDS = (
    Command(
        "lag",
        GroupLag,
        _run,
        _show,
        parameters=(
            Parameter("GROUP", "consumer group", is_required=True),
            Parameter("--topic", "only this topic, also queues in which the group has no position", metavar="TOPIC"),
            Parameter("--max", "exit with 8 if more messages wait, or if some are unknown", int, metavar="COUNT"),
            Parameter("--watch", "measure again and again, until Ctrl-C", bool),
            Parameter("--interval", "seconds between two measurements", float, 2.0, metavar="SECONDS"),
        ),
        details="Messages are offsets from the group's position to the queue's end; a filter of the group is not taken "
        "into account. Bytes are estimated from the size of the next messages. 'behind' is the age of the next "
        "message, 'kept for' the time until its broker may delete it because of its age. What cannot be known is shown "
        "as ?, with the reason, and never counts as 0; a total with ≥ or ≤ is a bound, because a part is unknown.",
        examples=("pyspark-rocketmq lag billing", "pyspark-rocketmq lag billing --topic orders --max 10000"),
        streams_if="watch",
        verdict=_verdict,
    ),
)
