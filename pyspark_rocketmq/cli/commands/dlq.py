"""List, read and replay dead letters."""

from __future__ import annotations

import re
import shlex
import signal
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ...errors import MOST_TEXT, OptionError, RocketMQError, shown
from ...model import MessageQueue, QueueBounds, QueueRange
from ..command import Command, Parameter
from ..exits import Exit
from ..messages import BODY, MessageRow, show_messages, to_row
from ..state_files import state_folder
from ..values import Moment, moment
from ..views import Column, Note, Table, Text, View, show_time

if TYPE_CHECKING:
    from ...client.letters import LetterFilter, StoredLetter
    from ...client.replay import ReplayReport, ReplaySettings
    from ..session import Session

__all__ = ["COMMANDS"]


@dataclass(frozen=True, slots=True)
class LetterRow:
    """A dead letter."""

    broker: str
    queue_id: int
    offset: int
    message_id: str
    origin: str | None
    """The topic to which the message was first sent; null if the letter does not name it."""
    cause: str | None
    """The reason; null for a letter of RocketMQ, which does not know it."""
    count: int
    """The number of deliveries that failed."""
    stored: Moment


@dataclass(frozen=True, slots=True)
class LetterList:
    """Dead letters, in the order in which they were stored; `letterCount` counts those that are not listed, too."""

    topic: str
    letter_count: int
    letters: tuple[LetterRow, ...]


@dataclass(frozen=True, slots=True)
class ReadLetter:
    """A dead letter with its message."""

    letter: LetterRow
    message: MessageRow


@dataclass(frozen=True, slots=True)
class ReadLetters:
    """Dead letters with their messages, in the order in which they were stored."""

    topic: str
    letter_count: int
    letters: tuple[ReadLetter, ...]


@dataclass(frozen=True, slots=True)
class TargetCount:
    """The number of letters that were sent to a topic, or would be."""

    topic: str
    letters: int


@dataclass(frozen=True, slots=True)
class Failure:
    """A letter that was not sent, or that no broker took."""

    broker: str
    queue_id: int
    offset: int
    message_id: str
    target: str | None
    code: str
    why: str


@dataclass(frozen=True, slots=True)
class Gone:
    """Offsets of a queue whose letters were deleted before they were sent."""

    broker: str
    queue_id: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Replayed:
    """The result of a replay; without `applied` it was only shown. `failures` and `gone` have at most 100 items."""

    topic: str
    applied: bool
    letter_count: int
    """Letters that were sent, or would be."""
    targets: tuple[TargetCount, ...]
    sent_before: int
    """Letters that the audit file has as landed."""
    unwanted: int
    """Letters that the filter left out."""
    failed_count: int
    failures: tuple[Failure, ...]
    gone_count: int
    gone: tuple[Gone, ...]
    audit_file: str


# --- list, read ------------------------------------------------------------------------------------------------------


def _list(session: Session, name: str, count: int, **filters: str | None) -> LetterList:
    topic, total, letters = _find(session, name, count, filters)
    return LetterList(topic, total, tuple(map(_row, letters)))


def _read(session: Session, name: str, count: int, body: str | None, **filters: str | None) -> ReadLetters:
    topic, total, letters = _find(session, name, count, filters)
    return ReadLetters(topic, total, tuple(ReadLetter(_row(each), to_row(each.message, body)) for each in letters))


def _find(
    session: Session, name: str, count: int, filters: Mapping[str, str | None]
) -> tuple[str, int, Sequence[StoredLetter]]:
    """Return the topic of the letters, the number of all wanted letters, and the last `count` of them."""
    from ...client.letters import LetterFilter, fetch_letter_bounds, find_letter_topic
    from ...client.replay import read_letters

    if count < 1:
        raise OptionError("--count", str(count), "out of range", advice="give at least 1")
    cluster = session.cluster
    wanted = _filter(session, filters)
    topic = find_letter_topic(cluster, name)
    bounds = fetch_letter_bounds(cluster, topic, wanted.queue)
    is_filtered = wanted != LetterFilter(queue=wanted.queue)
    ranges = [_range(queue, each, None if is_filtered else count) for queue, each in bounds.items()]
    letters = _Newest(count)
    for letter in read_letters(cluster, ranges, wanted, session.screen.warn):
        letters.add(letter)
    total = letters.seen if is_filtered else sum(each.max_offset - each.min_offset for each in bounds.values())
    return topic, total, letters.sorted()


def _range(queue: MessageQueue, bounds: QueueBounds, last: int | None) -> QueueRange:
    start = bounds.min_offset if last is None else max(bounds.min_offset, bounds.max_offset - last)
    return QueueRange(queue, start, bounds.max_offset)


class _Newest:
    """Keeps the last letters of each queue, so that memory does not grow with the number of letters."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._kept: dict[MessageQueue, deque[StoredLetter]] = {}
        self.seen = 0

    def add(self, letter: StoredLetter) -> None:
        """Take a letter; those of one queue come in order."""
        self.seen += 1
        self._kept.setdefault(letter.queue, deque(maxlen=self._count)).append(letter)

    def sorted(self) -> Sequence[StoredLetter]:
        """Return the letters that were stored last, in the order of their store times."""
        kept = (letter for letters in self._kept.values() for letter in letters)
        return sorted(kept, key=lambda each: (each.stored_ms, *each.queue, each.offset))[-self._count :]


def _filter(session: Session, filters: Mapping[str, str | None]) -> LetterFilter:
    """Return the filter of the parameters; a queue's name is checked when its topic is known."""
    from ...client.letters import LetterFilter
    from ...options.values import OptionText, read_time_ms

    def read(name: str) -> int | None:
        text = filters[name]
        return None if text is None else read_time_ms(OptionText(f"--{name}", text, session.now_ms()))

    return LetterFilter(
        queue=filters["queue"], cause=filters["cause"], since_ms=read("since") or 0, until_ms=read("until")
    )


def _row(letter: StoredLetter) -> LetterRow:
    return LetterRow(
        letter.queue.broker_name,
        letter.queue.queue_id,
        letter.offset,
        letter.message_id,
        letter.origin,
        letter.cause,
        letter.count,
        moment(letter.stored_ms),
    )


def _show_list(found: LetterList) -> list[View]:
    if not found.letters:
        return [Note(f"no dead letters in {found.topic}")]
    columns = (
        Column("stored"),
        Column("origin"),
        Column("id"),
        Column("place"),
        Column("count", is_number=True),
        Column("cause"),
    )
    rows = [
        (
            show_time(each.stored),
            each.origin or "unknown",
            each.message_id,
            f"{each.broker}/{each.queue_id} @ {each.offset}",
            str(each.count),
            each.cause or "",
        )
        for each in found.letters
    ]
    return [Table(columns, rows), *_show_count(found)]


def _show_read(found: ReadLetters) -> list[View]:
    if not found.letters:
        return [Note(f"no dead letters in {found.topic}")]
    views: list[View] = []
    for each in found.letters:
        origin, cause = each.letter.origin or "unknown", each.letter.cause or "not known"
        views += [Text(shown(f"from {origin}, cause: {cause}", MOST_TEXT)), *show_messages([each.message])]
    return [*views, *_show_count(found)]


def _show_count(found: LetterList | ReadLetters) -> list[View]:
    left = found.letter_count - len(found.letters)
    return [Note(f"{left} older letters are not shown; --count shows more")] if left else []


# --- replay ----------------------------------------------------------------------------------------------------------


def _replay(
    session: Session,
    name: str,
    to: str | None,
    rate: float | None,
    audit: str | None,
    apply: bool,
    **filters: str | None,
) -> Replayed:
    from ...client.letters import find_letter_topic
    from ...client.replay import ReplaySettings, replay_letters

    wanted = _filter(session, filters)
    topic = find_letter_topic(session.cluster, name)
    settings = ReplaySettings(topic=topic, to=to, wanted=wanted, rate=rate).within(session.cluster.settings.namespace)
    path = Path(audit).absolute() if audit else _default_path(session, settings)
    progress = _Progress(session, _resume_command(session, settings, path))
    if apply:
        session.screen.warn(f"audit file: {path}")
    try:
        with progress:
            report = replay_letters(
                session.cluster, settings, path, apply=apply, told=progress.tell, warn=session.screen.warn
            )
    except RocketMQError as error:
        if apply and not isinstance(error, OptionError):
            session.screen.warn(progress.way_on)
        raise
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted; {progress.way_on}" if apply else "") from None
    return _replayed(report, path)


class _Progress:
    """Tells how many letters were sent, and ends the replay after Ctrl-C.

    The first Ctrl-C lets the current group of letters land, so that their landing is recorded; a second one waits for
    the attempts in flight only, and a third one for nothing.
    """

    def __init__(self, session: Session, command: str) -> None:
        self._session = session
        self._command = command
        self._is_interrupted = False
        self._before: Any = signal.SIG_DFL

    def __enter__(self) -> Self:
        self._before = signal.getsignal(signal.SIGINT)
        if self._before is not signal.SIG_IGN:  # It is ignored where a shell began the command in the background.
            signal.signal(signal.SIGINT, self._interrupt)
        return self

    def __exit__(self, *error: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _interrupt(self, number: int, frame: object) -> None:
        self._is_interrupted = True
        signal.signal(signal.SIGINT, self._before)

    def tell(self, report: ReplayReport) -> None:
        """Tell how far the replay is; raise `KeyboardInterrupt` after Ctrl-C."""
        if self._is_interrupted:
            raise KeyboardInterrupt
        verb = "sent" if report.applied else "read"
        self._session.screen.note_step(f"dlq replay: {report.sent_count} letters {verb}")

    @property
    def way_on(self) -> str:
        """The command that goes on."""
        return f"the audit file has what was sent; go on with: {self._command}"


def _resume_command(session: Session, settings: ReplaySettings, path: Path) -> str:
    wanted = settings.wanted
    values = {
        "--to": settings.to,
        "--rate": settings.rate,
        "--queue": wanted.queue,
        "--cause": wanted.cause,
        "--since": wanted.since_ms or None,
        "--until": wanted.until_ms,
    }
    given = [f"{name}={value}" for name, value in values.items() if value is not None]
    words = ("pyspark-rocketmq", "dlq", "replay", _exact(settings.topic), "--apply", "--audit", str(path))
    return shlex.join((*words, *given, *session.connection_words()))


def _exact(topic: str) -> str:
    from ...client.letters import TOPIC_MARK
    from ...model import DEAD_LETTER_PREFIX

    return topic if topic.startswith(DEAD_LETTER_PREFIX) else TOPIC_MARK + topic


def _default_path(session: Session, settings: ReplaySettings) -> Path:
    """Return the path of the audit file for these letters and this target, so that another run goes on with it."""
    clusters = sorted({each.cluster for each in session.cluster.survey.fetch_brokers()})
    namespace = session.cluster.settings.namespace
    spaces = filter(None, [namespace.prefix, namespace.header])
    parts = ["+".join(clusters), *spaces, settings.topic, *(["to", settings.to] if settings.to else [])]
    try:
        folder = state_folder("replays")
    except RuntimeError as cause:
        raise OptionError("--audit", None, f"no default: {cause}", advice="give the path of a file") from None
    return folder / (re.sub(r"[^A-Za-z0-9+_-]", "_", "-".join(parts))[:200] + ".jsonl")


def _replayed(report: ReplayReport, path: Path) -> Replayed:
    return Replayed(
        report.topic,
        report.applied,
        report.sent_count,
        tuple(TargetCount(topic, letters) for topic, letters in sorted(report.sent.items())),
        report.sent_before,
        report.unwanted,
        report.failed_count,
        tuple(
            Failure(*each.place, each.message_id, each.target, each.error.code, str(each.error))
            for each in report.failed
        ),
        report.gone_count,
        tuple(Gone(*each) for each in report.gone),
        str(path),
    )


def _verdict(replayed: Replayed, values: dict[str, Any]) -> int:
    if replayed.gone_count:
        return Exit.DATA_GONE
    if replayed.letter_count and not replayed.applied:
        return Exit.NEEDS_APPLY
    return Exit.FAILED if replayed.failed_count else Exit.DONE


def _show_replayed(replayed: Replayed) -> Iterator[View]:
    if replayed.targets:
        columns = (Column("to"), Column("letters", is_number=True))
        yield Table(columns, [(each.topic, str(each.letters)) for each in replayed.targets])
    if replayed.failures:
        names = ("not sent", "id", "why")
        rows = [
            (f"{each.broker}/{each.queue_id} @ {each.offset}", each.message_id, each.why) for each in replayed.failures
        ]
        yield Table(tuple(map(Column, names)), rows)
    if replayed.gone_count:
        yield Note(f"{replayed.gone_count} letters are gone; the audit file has their offsets", is_warning=True)
    yield Note(_summary(replayed), is_warning=bool(replayed.failed_count))


def _summary(replayed: Replayed) -> str:
    counts = [
        f"{replayed.letter_count} letters {'sent' if replayed.applied else 'to be sent'}",
        f"{replayed.failed_count} cannot be sent" if replayed.failed_count else "",
        f"{replayed.sent_before} were sent before" if replayed.sent_before else "",
        f"{replayed.unwanted} are not wanted" if replayed.unwanted else "",
    ]
    text = ", ".join(filter(None, counts))
    if replayed.applied:
        return f"{text}; all letters stay in {replayed.topic}; audit file: {replayed.audit_file}"
    return f"{text}; nothing was sent, --apply does it" if replayed.letter_count else text


_NAME = Parameter("NAME", "consumer group, or topic of dead letters", is_required=True)
_FILTERS = (
    Parameter("--queue", "only this queue", metavar="BROKER/ID"),
    Parameter("--cause", "only letters whose cause has this text in it", metavar="TEXT"),
    Parameter("--since", "only letters stored at this time or later: -2h, 2026-01-31T00:00:00Z", metavar="TIME"),
    Parameter("--until", "only letters stored before this time", metavar="TIME"),
)
_COUNT = Parameter("-n/--count", "number of letters, the last ones", int, 100, metavar="COUNT")
_WHOSE = (
    "The letters are those of a consumer group, or those in a topic to which Spark's tasks write rows that failed "
    "(onBadRow=deadLetter, retry.dead_letter). If both exist, give %DLQ%NAME for the group, topic:NAME for the topic. "
    "Letters of a group have no cause."
)

COMMANDS = (
    Command(
        "dlq list",
        LetterList,
        _list,
        _show_list,
        parameters=(_NAME, _COUNT, *_FILTERS),
        details=_WHOSE,
        examples=("pyspark-rocketmq dlq list billing", "pyspark-rocketmq dlq list billing --since -1d -n 5"),
    ),
    Command(
        "dlq read",
        ReadLetters,
        _read,
        _show_read,
        parameters=(_NAME, _COUNT, *_FILTERS, BODY),
        details=f"{_WHOSE} Reads without a group, so no position moves.",
        examples=("pyspark-rocketmq dlq read billing -n 1",),
    ),
    Command(
        "dlq replay",
        Replayed,
        _replay,
        _show_replayed,
        parameters=(
            _NAME,
            Parameter("--to", "send all letters to this topic (default: each to its origin)", metavar="TOPIC"),
            Parameter("--rate", "most letters in a second", float, metavar="NUMBER"),
            Parameter(
                "--audit",
                "file that records what is sent (default: a file in ~/.local/state/pyspark-rocketmq/replays)",
                metavar="FILE",
            ),
            *_FILTERS,
            Parameter("--apply", "do it; without this, only show what would be done, and exit with 6", bool),
        ),
        details="Sends dead letters to the topics that they came from, under their own ids and in no order. The "
        "letters stay where they are. The audit file records each letter before it is sent and after it has landed; "
        "the same command again goes on where the last one ended, and sends nothing twice that is recorded as landed. "
        "After a kill, letters may be sent again, under the same ids. Letters that name no origin, or that no broker "
        "takes, are listed, and are tried again by the next run; the exit code is 1 then, and 7 if letters are gone. "
        f"{_WHOSE}",
        examples=("pyspark-rocketmq dlq replay billing --since -1h --cause timeout",),
        verdict=_verdict,
    ),
)
