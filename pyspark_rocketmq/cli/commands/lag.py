"""Show how far a group is behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...errors import OptionError, RocketMQError
from ...lag.figures import Figure, QueueLag, Total, TotalLag
from ...model import MessageQueue
from ..asking import fetch_brokers, may_pass
from ..command import Command, Parameter
from ..exits import Exit, NotFound
from ..values import Moment, Trouble, moment, troubles_of
from ..views import Column, Note, Table, View, show_count, show_size, show_span, show_troubles

if TYPE_CHECKING:
    from ..session import Session

__all__ = ["COMMANDS", "watch_lag"]

_UNKNOWN = "?"
_NOTHING = "-"
_SHORTEST_S, _LONGEST_S = 0.1, 86_400
_MOST_REASONS = 5
"""The most reasons that people see; each may name another queue."""


@dataclass(frozen=True, slots=True)
class GroupLag:
    """The lag of a group at one moment, by queue and in total."""

    group: str
    at: Moment
    queues: tuple[QueueLag, ...]
    total: TotalLag
    troubles: tuple[Trouble, ...]
    """The brokers that did not answer, and may have more queues of the group."""
    without_clock: tuple[Trouble, ...]
    """The brokers that did not tell their time; ages there are by the clock of this machine."""


def _run(
    session: Session, group: str, topic: str | None, max: int | None, watch: bool, interval: float
) -> GroupLag | Iterator[GroupLag]:
    if not watch:
        return _measure(session, group, topic)
    if max is not None:
        raise OptionError("--max", str(max), "not together with --watch, which never ends", advice="drop one of them")
    if not _SHORTEST_S <= interval <= _LONGEST_S:
        advice = f"give {_SHORTEST_S} seconds or more, at most a day"
        raise OptionError("--interval", str(interval), "out of range", advice=advice)
    return watch_lag(session, group, topic, interval)


def watch_lag(session: Session, group: str, topic: str | None, interval: float) -> Iterator[GroupLag]:
    """Yield the lag again and again; after the first time, a failure that may pass is told, and the watch goes on."""
    with session.screen.waiting("lag: waiting for the cluster"):
        measured = _measure(session, group, topic)
    while True:
        if not session.screen.as_json:
            session.screen.clear()
        yield measured
        session.sleep(interval)
        while (found := _try_measure(session, group, topic, measured)) is None:
            session.sleep(interval)
        measured = found


def _try_measure(session: Session, group: str, topic: str | None, before: GroupLag) -> GroupLag | None:
    try:
        return _measure(session, group, topic, before)
    except RocketMQError as error:
        if not may_pass(error):
            raise
        session.screen.warn(f"not measured: {error}")
        return None


def _measure(session: Session, group: str, topic: str | None, before: GroupLag | None = None) -> GroupLag:
    from ...lag.measure import measure_group

    now_ms = session.now_ms()
    known = [MessageQueue(each.topic, each.broker, each.queue_id) for each in before.queues] if before else []
    lag = measure_group(session.cluster, group, topic, now_ms=now_ms, known=known)
    if not lag.queues and not lag.unanswered:
        fetch_brokers(session)
        raise _not_found(group, topic)
    troubles, without_clock = troubles_of(lag.unanswered), troubles_of(lag.without_clock)
    return GroupLag(group, moment(now_ms), lag.queues, lag.total, troubles, without_clock)


def _not_found(group: str, topic: str | None) -> NotFound:
    if topic is None:
        advice = "check the name; groups list shows all groups, and --topic includes queues without a position"
        return NotFound(f"no broker has a position of group {group} in any topic", advice=advice)
    what = f"no broker reports queues of topic {topic} for group {group}"
    advice = "check the names; while the group has live members, brokers report only the topics that these subscribe to"
    return NotFound(what, advice=advice)


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
        verb = "is" if lag.total.unknown_queues == 1 else "are"
        text = f"{show_count(lag.total.unknown_queues, 'queue')} {verb} unknown and not in the total"
        views.append(Note(text, is_warning=True))
    if lag.total.gone.value:
        at_least = "at least " if lag.total.gone.is_bound else ""
        views.append(Note(f"{at_least}{lag.total.gone.value} of the messages are deleted already", is_warning=True))
    if lag.troubles:
        brokers = ", ".join(each.what for each in lag.troubles)
        views.append(Note(f"{brokers} may have more queues of the group, which are not in the total", is_warning=True))
    if lag.without_clock:
        brokers = ", ".join(each.what for each in lag.without_clock)
        views.append(Note(f"{brokers} did not tell the time: ages there are by the clock of this machine"))
    reasons = _reasons(lag)
    views += (Note(f"{_UNKNOWN} {reason}", is_warning=True) for reason in reasons[:_MOST_REASONS])
    if len(reasons) > _MOST_REASONS:
        views.append(Note(f"{_UNKNOWN} and {len(reasons) - _MOST_REASONS} more reasons; --json has all"))
    return [*views, *show_troubles(lag.troubles)]


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
        "message by its broker's clock. 'kept for' is the time until its broker may delete it, if the group does not "
        "move: fileReservedTime less the age, whatever the rates. Brokers delete whole files, at deleteWhen, so the "
        "message may stay longer; above 85 % of the disk they delete messages of any age, and 'kept for' is 0. What "
        "cannot be known is shown as ?, with the reason, and never counts as 0; a total with ≥ or ≤ is a bound, "
        "because a part is unknown. While the group has live members, brokers report only the topics that these "
        "subscribe to. Queues of a broker that the name servers have dropped are seen only by a --watch that "
        "began before.",
        examples=("pyspark-rocketmq lag billing", "pyspark-rocketmq lag billing --topic orders --max 10000"),
        streams_if="watch",
        verdict=_verdict,
    ),
)
