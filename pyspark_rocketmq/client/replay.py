"""Send dead letters back to the topics that they came from, so that nothing is skipped and everything is recorded.

Letters are read queue by queue, in slices. Before a letter is sent, the audit file has it as intended; after a broker
has stored it, as landed. Both are on the disk before anything else happens, so a replay that is killed can go on: it
sends again, under the same id, what was intended and has not landed, and leaves out what has landed. The id is the
letter's own, which for a letter of RocketMQ is that of its message.

The letters stay where they are. A letter whose origin is not known, or whose target refuses it, is recorded as failed,
and the next run tries it again. Letters that retention deletes before they are read are recorded as gone. If a broker
cannot be reached, the replay ends with that error.
"""

from __future__ import annotations

import copy
import logging
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from ..broker_errors import FlushDiskTimeout, FlushSlaveTimeout, ServiceNotAvailable, SlaveNotAvailable
from ..cluster.cluster import Cluster
from ..cluster.names import Namespace
from ..errors import (
    LimitExceeded,
    LocalProtocolError,
    MalformedFrame,
    NoBrokerAvailable,
    OptionError,
    QueueMoved,
    RocketMQError,
    StaticTopicUnsupported,
    TopicNotFound,
    TransportError,
    shown,
)
from ..model import MessageQueue, QueueBounds, QueueRange, SendRequest
from ..pull.settings import PullSettings
from ..send.failures import NextStep, judge
from ..send.outcome import Outcome
from ..send.pipeline import SendPipeline
from ..send.settings import SendSettings
from .audit_file import FORMAT, AuditFile, Entry, History, Identity, LetterPlace, Stretch
from .letters import LetterFilter, StoredLetter, choose_letter_queues, fault_of_target, fetch_letter_bounds
from .range_reading import Warn, read_queue_ranges

__all__ = ["FailedLetter", "GoneLetters", "ReplayReport", "ReplaySettings", "read_letters", "replay_letters"]

_log = logging.getLogger(__name__)

PRODUCER_GROUP = "pyspark_rocketmq_replay"
_SLICE = 64
"""The number of letters that are read at once, and that are sent before their landing is recorded."""
_MOMENT_S = 0.1
_MOST_LISTED = 100
_DEADLINE_IN_ATTEMPTS = 10
"""The time after which a send has failed, in timeouts of an attempt."""
_PULLS = PullSettings(batch_size=_SLICE, pull_timeout_s=5.0, max_retries=2, stall_timeout_s=30.0)
_NOT_OF_ONE_LETTER = (
    TransportError,
    NoBrokerAvailable,
    QueueMoved,
    ServiceNotAvailable,
    FlushDiskTimeout,
    FlushSlaveTimeout,
    SlaveNotAvailable,
)
"""Errors that the next letters would meet, too, beside those of busy brokers."""
_STATUS_ADVICE = "look for the cause at the broker and its replicas; the next run sends the letter again"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySettings:
    """The choice of letters, their target, and the rate."""

    topic: str
    """The topic of the dead letters."""
    to: str | None = None
    """The topic that gets all letters; None: each letter goes to its origin."""
    wanted: LetterFilter = field(default_factory=LetterFilter)
    rate: float | None = None
    """The most letters in a second; None: no limit."""

    def __post_init__(self) -> None:
        if self.rate is not None and not 0 < self.rate < float("inf"):
            raise OptionError("rate", str(self.rate), "not above 0", advice="give letters per second, or leave it out")
        if self.to is not None and (what := fault_of_target(self.to, self.topic)):
            raise OptionError("to", self.to, what, advice="give a topic of your own")

    def within(self, namespace: Namespace) -> ReplaySettings:
        """Return the settings with users' names of topics: one topic must not have two names."""
        return replace(self, topic=namespace.unwrap(self.topic), to=self.to and namespace.unwrap(self.to))


class FailedLetter(NamedTuple):
    """A letter that was not sent, or that no broker took."""

    place: LetterPlace
    message_id: str
    target: str | None
    error: RocketMQError


class GoneLetters(NamedTuple):
    """Offsets of a queue whose letters were deleted before they were replayed."""

    broker: str
    queue_id: int
    start: int
    end: int


@dataclass(slots=True)
class ReplayReport:
    """The result of a replay; lists have at most 100 items, the audit file has all."""

    topic: str
    applied: bool
    """Whether letters were sent; else this is what would be done."""
    sent: dict[str, int] = field(default_factory=dict)
    """The number of letters that were sent, or would be, by target."""
    sent_before: int = 0
    """Letters that landed in an earlier run."""
    unwanted: int = 0
    """Letters that the filter left out."""
    failed: list[FailedLetter] = field(default_factory=list)
    failed_count: int = 0
    gone: list[GoneLetters] = field(default_factory=list)
    gone_count: int = 0

    @property
    def sent_count(self) -> int:
        """The number of letters that were sent, or would be."""
        return sum(self.sent.values())

    def __str__(self) -> str:
        verb = "sent" if self.applied else "to be sent"
        return (
            f"{self.sent_count} letters {verb}, {self.sent_before} sent before, {self.unwanted} not wanted, "
            f"{self.failed_count} failed, {self.gone_count} gone"
        )


Told = Callable[[ReplayReport], object]


def replay_letters(
    cluster: Cluster,
    settings: ReplaySettings,
    audit: Path,
    *,
    apply: bool,
    warn: Warn,
    told: Told = lambda report: None,
) -> ReplayReport:
    """Replay dead letters, and return the report; without `apply` only read them, and write nothing.

    `told` gets the report before each group of letters is read or sent; if it raises, the replay ends there. `warn`
    gets a line about each loss.
    """
    settings = settings.within(cluster.settings.namespace)
    if not apply:
        return _Replay(cluster, settings, None, History.read(audit), warn, told).run()
    with AuditFile(audit, _now) as file:
        return _Replay(cluster, settings, file, file.history, warn, told).run()


def read_letters(
    cluster: Cluster, ranges: Iterable[QueueRange], wanted: LetterFilter, warn: Warn
) -> Iterator[StoredLetter]:
    """Yield the wanted letters of ranges, in slices; those of one queue in order."""
    for each in ranges:
        for start in range(each.start, each.end, _SLICE):
            for letter in _read_slice(cluster, each._replace(start=start, end=min(each.end, start + _SLICE)), warn):
                if wanted.wants(letter):
                    yield letter


def _read_slice(cluster: Cluster, wanted: QueueRange, warn: Warn) -> list[StoredLetter]:
    return [StoredLetter(each) for each in read_queue_ranges(cluster, [wanted], _PULLS, warn, "dead letters")]


class _Due(NamedTuple):
    """A letter that is to be sent."""

    letter: StoredLetter
    target: str
    request: SendRequest


class _Refused(NamedTuple):
    """A letter that cannot be sent."""

    letter: StoredLetter
    error: RocketMQError


class _Replay:
    """One run of a replay."""

    def __init__(
        self,
        cluster: Cluster,
        settings: ReplaySettings,
        audit: AuditFile | None,
        history: History,
        warn: Warn,
        told: Told,
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._audit = audit
        self._history = history
        self._landed = defaultdict[tuple[str, int], list[int]](list)
        """By broker and queue, the offsets whose letters have landed in earlier runs, sorted."""
        for place in sorted({each.place for each in history.landed}):
            self._landed[place.broker, place.queue_id].append(place.offset)
        self._warn = warn
        self._told = told
        self._faults: dict[str, RocketMQError | None] = {}
        """By topic, the reason why it takes no letters, or None."""
        self._report = ReplayReport(settings.topic, audit is not None)
        timeout_s, option = cluster.settings.net.request_timeout_s, "mqClientApiTimeout"
        sending = SendSettings(
            producer_group=PRODUCER_GROUP,
            attempt_timeout_s=timeout_s,
            deadline_s=_DEADLINE_IN_ATTEMPTS * timeout_s,
            rows_per_second=settings.rate,
            attempt_option=option,
            deadline_option=option,
        )
        self._pipeline = SendPipeline(cluster, sending, cluster.writable.queues)

    def run(self) -> ReplayReport:
        """Replay the letters that the topic has now."""
        topic, wanted = self._settings.topic, self._settings.wanted
        bounds = fetch_letter_bounds(self._cluster, topic, partly=wanted.queue is not None)
        chosen = fetch_letter_bounds(self._cluster, topic, wanted.queue) if wanted.queue else bounds
        ranges = [QueueRange(queue, each.min_offset, each.max_offset) for queue, each in chosen.items()]
        begin = self._beginning(ranges)
        if self._history.header:
            _require_same(self._history.header, begin)
        # In one go, because the beginning takes the place of the ranges in which the earlier runs' losses lie.
        self._write([*self._note_losses_since(bounds), begin])
        try:
            for each in ranges:
                self._replay_queue(each)
            self._told(self._report)
        finally:
            self._pipeline.close()
        self._write([{"event": "end", "counts": str(self._report)}])
        return self._report

    def _beginning(self, ranges: Sequence[QueueRange]) -> Entry:
        """Return the line that begins a run."""
        brokers, namespace = self._cluster.survey.fetch_brokers(), self._cluster.settings.namespace
        return {
            "event": "begin",
            "format": FORMAT,
            "topic": self._settings.topic,
            "to": self._settings.to,
            "namespace": namespace.prefix or namespace.header or None,
            "nameServers": list(map(str, self._cluster.settings.name_servers)),
            "clusters": sorted({each.cluster for each in brokers}),
            "ranges": [_queue_entry(each.queue) | {"start": each.start, "end": each.end} for each in ranges],
        }

    # --- one queue ---------------------------------------------------------------------------------------------------

    def _replay_queue(self, wanted: QueueRange) -> None:
        for start in range(wanted.start, wanted.end, _SLICE):
            self._told(self._report)
            piece = wanted._replace(start=start, end=min(wanted.end, start + _SLICE))
            letters = _read_slice(self._cluster, piece, _log.info)
            self._note_losses(piece, letters)
            chosen = list(self._choose(letters))
            for first in range(0, len(chosen), self._group_size):
                self._told(self._report)
                self._send(chosen[first : first + self._group_size])

    @property
    def _group_size(self) -> int:
        """The number of letters that are sent before their landing is recorded; with a rate, those of a moment."""
        rate = self._settings.rate
        return _SLICE if rate is None else max(1, min(_SLICE, int(rate * _MOMENT_S)))

    def _choose(self, letters: Iterable[StoredLetter]) -> Iterator[_Due | _Refused]:
        """Yield the letters that are to be sent, and those that cannot be, in their order; count the others."""
        for number, letter in enumerate(letters):
            if not self._settings.wanted.wants(letter):
                self._report.unwanted += 1
            elif _identity(letter) in self._history.landed:
                self._report.sent_before += 1
            else:
                yield self._prepare(letter, number)

    def _prepare(self, letter: StoredLetter, number: int) -> _Due | _Refused:
        """Return a letter with its target and request, or with the error because of which it cannot be sent."""
        try:
            target = self._settings.to or letter.require_origin()
            request = letter.to_request(target, number)
        except RocketMQError as error:
            where, queue_id, offset = letter.queue, letter.queue.queue_id, letter.offset
            error.locate(topic=where.topic, broker=where.broker_name, queue_id=queue_id, offset=offset)
            return _Refused(letter, error)
        fault = self._fault_of(target)
        return _Due(letter, target, request) if fault is None else _Refused(letter, copy.copy(fault))

    def _fault_of(self, target: str) -> RocketMQError | None:
        """Return why a target takes no messages; a topic that does not exist is not created by its first message."""
        if target not in self._faults:
            try:
                is_writable = bool(self._cluster.routes.route(target).writable)
            except (TopicNotFound, StaticTopicUnsupported, MalformedFrame, LimitExceeded) as error:
                self._faults[target] = error
            else:
                advice = f"give it write permission: mqadmin updateTopicPerm -t {target} -p 6"
                refusal = LocalProtocolError("no queue of the topic may be written", advice=advice, topic=target)
                self._faults[target] = None if is_writable else refusal
        return self._faults[target]

    # --- sending -----------------------------------------------------------------------------------------------------

    def _send(self, chosen: Sequence[_Due | _Refused]) -> None:
        """Send letters, each recorded before and after; raise if the next ones would fail for the same reason.

        The lines before are in the order of offsets, because each says that the run has passed the letters before it.
        If this is interrupted, the sends in flight are waited for, so that their landing is recorded, too.
        """
        self._write([self._first_line(each) for each in chosen])
        group = [each for each in chosen if isinstance(each, _Due)]
        if self._audit is None:
            for each in group:
                self._count(each)
            return
        by_row = {next(iter(each.request.rows)): each for each in group}
        outcomes: list[Outcome] = []
        try:
            for each in group:
                self._pipeline.submit(each.request)
            self._pipeline.flush()
        except BaseException:
            self._pipeline.stop()
            raise
        finally:
            outcomes = self._pipeline.take_outcomes()
            self._write([self._settle(by_row[next(iter(each.request.rows))], each) for each in outcomes])
        if error := next((each.error for each in outcomes if each.error and _is_of_all(each.error)), None):
            raise error

    def _first_line(self, chosen: _Due | _Refused) -> Entry:
        """Return the line about a letter before its group is sent; count it if it cannot be."""
        if isinstance(chosen, _Refused):
            return self._fail(chosen.letter, chosen.error)
        return _entry("intended", chosen.letter, target=chosen.target)

    def _settle(self, due: _Due, outcome: Outcome) -> Entry:
        """Count the outcome of a letter, and return the line about it."""
        letter, receipt = due.letter, outcome.receipt
        if outcome.error is not None or receipt is None:
            error = outcome.error or LocalProtocolError("no receipt")
            if receipt is not None:
                error.advice = _STATUS_ADVICE
            return self._fail(letter, error, due.target, may_be_stored=outcome.is_unknown or receipt is not None)
        self._count(due)
        landed = _queue_entry(receipt.queue) | {"offset": receipt.queue_offset}
        return _entry("landed", letter, target=due.target, landed=landed)

    def _count(self, due: _Due) -> None:
        self._report.sent[due.target] = self._report.sent.get(due.target, 0) + 1

    def _fail(
        self, letter: StoredLetter, error: RocketMQError, target: str | None = None, *, may_be_stored: bool = False
    ) -> Entry:
        """Count a letter that was not sent, and return the line about it."""
        report = self._report
        report.failed_count += 1
        if len(report.failed) < _MOST_LISTED:
            report.failed.append(FailedLetter(_identity(letter).place, letter.message_id, target, error))
        why = {"code": error.code, "why": str(error), "mayBeStored": may_be_stored}
        return _entry("failed", letter, target=target, **why)

    def _write(self, entries: Collection[Entry]) -> None:
        if self._audit is not None:
            self._audit.write(entries)

    # --- losses ------------------------------------------------------------------------------------------------------

    def _note_losses(self, wanted: QueueRange, letters: Sequence[StoredLetter]) -> None:
        """Record the letters of a range that are gone and have not landed, after its master has answered."""
        name = wanted.queue.broker_name, wanted.queue.queue_id
        known = sorted({each.offset for each in letters}.union(self._landed_offsets(name, wanted.start, wanted.end)))
        gone = list(_gaps(wanted, known))
        if gone:
            self._require_queue(wanted.queue)
        held = self._history.open
        gone += _merge(each.place for each in map(_identity, letters) if held.get(each.place, each) != each)
        self._write(self._note_gone(gone))

    def _require_queue(self, queue: MessageQueue) -> None:
        """Raise unless the master of a queue answers, without which letters may only seem to be gone."""
        if queue not in choose_letter_queues(self._cluster, queue.topic, partly=True):
            what, advice = "the route of the dead letters does not have the queue any more", "replay again when it does"
            raise QueueMoved(what, advice=advice, topic=queue.topic, broker=queue.broker_name, queue_id=queue.queue_id)
        fetch_letter_bounds(self._cluster, queue.topic, f"{queue.broker_name}/{queue.queue_id}")

    def _note_losses_since(self, bounds: Mapping[MessageQueue, QueueBounds]) -> Sequence[Entry]:
        """Return the lines about letters that earlier runs have not sent, and that lie outside of their queue now."""
        history = self._history
        known = {(queue.broker_name, queue.queue_id): each for queue, each in bounds.items()}
        here = [each for each in history.open if each[:2] in known]
        gone = [*_merge(each for each in here if not _holds(known[each[:2]], each.offset))]
        away = len(history.open) - len(here)
        for name, rest in ((name, rest) for name, parts in history.unread.items() for rest in parts):
            if held := known.get(name):
                for lost in rest.without(held.min_offset, held.max_offset):
                    gone += self._unread(name, lost)
            else:
                away += sum(each.end - each.start for each in self._unread(name, rest))
        if away:
            self._report.failed_count += away
            what = "letters that earlier runs have not sent, or not read, cannot be read"
            self._warn(f"{away} {what}: no route has their queues now")
        return self._note_gone(gone)

    def _unread(self, name: tuple[str, int], part: Stretch) -> Iterator[GoneLetters]:
        """Yield the offsets that an interrupted run has not read, without letters that an earlier run has recorded."""
        queue, (start, end) = MessageQueue(self._settings.topic, *name), part
        landed = self._landed_offsets(name, start, end)
        open_ = (each.offset for each in self._history.open if each[:2] == name and start <= each.offset < end)
        return _gaps(QueueRange(queue, start, end), sorted((*landed, *open_)))

    def _landed_offsets(self, name: tuple[str, int], start: int, end: int) -> Sequence[int]:
        """Return the offsets of a part of a queue whose letters have landed in earlier runs."""
        offsets = self._landed.get(name, [])
        return offsets[bisect_left(offsets, start) : bisect_left(offsets, end)]

    def _note_gone(self, gone: Collection[GoneLetters]) -> Sequence[Entry]:
        """Count and tell letters that are gone, and return the lines about them."""
        report = self._report
        for each in gone:
            report.gone_count += each.end - each.start
            if len(report.gone) < _MOST_LISTED:
                report.gone.append(each)
                where = f"dead letters from {each.start} to {each.end} of {shown(each.broker)}/{each.queue_id}"
                self._warn(f"{where} are gone, and none is known to have landed")
        return [_gone_entry(each) for each in gone]


# --- the audit file --------------------------------------------------------------------------------------------------


def _require_same(header: Mapping[str, Any], begin: Mapping[str, Any]) -> None:
    """Raise `OptionError` if a file is of a replay of other letters, to another target, or at another cluster."""
    differs = [name for name in ("topic", "to", "namespace") if header.get(name) != begin[name]]
    differs += [name for name in ("nameServers", "clusters") if not set(header.get(name) or ()) & set(begin[name])]
    for name in differs:
        what = f"the file is of a replay with {name} {header.get(name)!r}, and this is one with {begin[name]!r}"
        advice = "name the cluster, letters and target of that replay, or give another file"
        raise OptionError("audit", None, shown(what, 1000), advice=advice)


def _entry(event: str, letter: StoredLetter, **more: object) -> Entry:
    (broker, queue_id, offset), message_id, stored_ms = _identity(letter)
    place = {"broker": broker, "queueId": queue_id, "offset": offset}
    return {"event": event, **place, "id": message_id, "storedMs": stored_ms, **more}


def _queue_entry(queue: MessageQueue) -> Entry:
    return {"broker": queue.broker_name, "queueId": queue.queue_id}


def _gone_entry(gone: GoneLetters) -> Entry:
    broker, queue_id, start, end = gone
    return {"event": "gone", "broker": broker, "queueId": queue_id, "start": start, "end": end}


def _identity(letter: StoredLetter) -> Identity:
    place = LetterPlace(letter.queue.broker_name, letter.queue.queue_id, letter.offset)
    return Identity(place, letter.message_id, letter.stored_ms)


def _holds(bounds: QueueBounds, offset: int) -> bool:
    return bounds.min_offset <= offset < bounds.max_offset


def _is_of_all(error: RocketMQError) -> bool:
    """Return whether the next letters would meet an error, too."""
    return isinstance(error, _NOT_OF_ONE_LETTER) or judge(error).next_step is NextStep.PAUSE


def _merge(places: Iterable[LetterPlace]) -> Iterator[GoneLetters]:
    """Yield consecutive places as one."""
    ordered = sorted(places)
    for _, run in groupby(enumerate(ordered), lambda each: (each[1][:2], each[1].offset - each[0])):
        (_, first), *more = run
        yield GoneLetters(*first, first.offset + 1 + len(more))


def _gaps(wanted: QueueRange, offsets: Iterable[int]) -> Iterator[GoneLetters]:
    """Yield the parts of a range that have no letter, given the offsets of its letters in their order."""
    at = wanted.start
    for offset in (*offsets, wanted.end):
        if offset > at:
            yield GoneLetters(wanted.queue.broker_name, wanted.queue.queue_id, at, offset)
        at = offset + 1


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
