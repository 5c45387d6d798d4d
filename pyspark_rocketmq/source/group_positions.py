"""Read and commit the group's positions in the queues of one member, and notice when somebody else moves them.

This is for a query that is one member of its group (`groupMembership=shared`). In a queue that the member owns without
a break, the checkpoint decides where the query goes on; in a gained queue, the group's position does. So:

- a gained queue begins at the group's position, or at the checkpoint's if that is larger (after a restart). Where
  neither exists, `beginnings` decides;
- finished work is committed only for queues that the member owns at that moment;
- before each commit, brokers are asked for the group's positions. A position that differs from the last committed one
  was set by somebody else, usually an administrator: the query goes there with its next batch;
- a replica's position is never compared with the committed one, because replicas always lag;
- a broker that was killed comes back with positions that are some seconds old. A position that the group may have had
  before counts as old if the broker did not answer before, or if another process or another connection reports it. Then
  the query's own position is committed again. An old position may be larger, if the group was moved back since.

The planning thread first fetches positions and then commits, so no reported position is older than the last commit. In
between, the planner compares the positions that it is about to commit with the queues' bounds. A broker is asked at
most once a second. A failure is a warning, and the requests are repeated later.

A position beyond the end of its queue is void: the queue was deleted and created again. A gained queue does not begin
at a void position if it has another one. If the query itself went back after a loss, so does the committed position.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

from ..client.assignment import Assigned
from ..cluster.queue_offsets import Offsets, ReportedPosition
from ..errors import BrokerError, RocketMQError
from ..model import Address, MessageQueue
from ..net.deadline import Deadline
from ..offsets.position import Positions
from .announcing import log_together
from .rhythm import PlannerRhythm

__all__ = ["GroupPositions", "QueueFacts"]

_FORGOTTEN = "%s: the broker reports offset %d for group %s, expected %d; committing again"
_MOVED = "%s: group %s was moved from %s to %d by somebody else; the next batch starts there"

_log = logging.getLogger(__name__)


class QueueFacts(Protocol):
    """Tells where gained queues begin, and which of them end before a known position."""

    def first_offsets(self, queues: Collection[MessageQueue]) -> Positions:
        """Return the first offset to read in each of these queues, in which neither group nor query has a position."""

    def ends_before(self, positions: Positions) -> Positions:
        """Return the end of each queue that ends before its offset in `positions`; ignore ends that replicas report."""


class BrokerIncarnation(NamedTuple):
    """One process of a broker, told apart by the connection to it, which ends with the process."""

    place: Address
    connection: object | None


@dataclass(slots=True)
class _Held:
    """One queue that the member owns: the position that brokers hold, and what is read and finished."""

    tenure: Assigned
    committed: int | None
    """The offset that brokers hold, by the last report or successful commit; None if they hold none."""
    tried: int | None = None
    """The last offset sent to brokers, answered or not; None at first, and after somebody else moved the group."""
    largest: int = -1
    """The largest offset that brokers reported or were sent; a larger one cannot be an old position of the group."""
    source: BrokerIncarnation | None = None
    """The process that reported the position last."""
    start: int = 0
    """The start of the batch that was planned last."""
    done: int | None = None
    """The end of finished work; None after somebody moved the group, until a batch begins at the new position."""
    moved_to: int | None = None
    """The offset to which somebody else moved the group; the next batch begins there."""
    is_void: bool = False
    """Whether the brokers' position lies beyond the queue's end, so that a smaller one replaces it."""
    is_outdated: bool = False
    """Whether the brokers' position is from before the group was moved back, so that a smaller one replaces it."""

    def news(self) -> int | None:
        """Return the end of finished work if it is to be committed now, else None.

        It is not to be committed if brokers have it already, or if they have a larger position that is neither void
        (beyond the queue's end) nor outdated (from before the group was moved back).
        """
        if self.done is None or self.done == self.committed:
            return None
        if self.committed is not None and self.done < self.committed and not (self.is_void or self.is_outdated):
            return None
        return self.done

    def note_sent(self, offset: int) -> None:
        """Note an offset that is sent to brokers: they may have stored it even if they do not answer."""
        self.tried = offset
        self.largest = max(self.largest, offset)

    def note_committed(self, offset: int) -> None:
        """Note that brokers now store `offset` as the group's position in this queue."""
        self.committed = offset
        self.largest = max(self.largest, offset)

    def is_forgotten(self, reported: ReportedPosition, source: BrokerIncarnation, after_silence: bool) -> bool:
        """Return whether a broker lost the committed offset because it was killed, and reports an earlier one.

        `source` is the process that reports; `after_silence` tells that the broker did not respond before.
        """
        if self.committed is None or reported.offset in (self.committed, self.tried):
            return False
        if reported.offset > self.largest:
            return False
        return after_silence or reported.after_silence or self.source not in (None, source)


@dataclass(slots=True)
class _Pace:
    """The time of the next exchange with one broker, in which positions are fetched and then committed."""

    due_s: float = float("-inf")
    failures_in_a_row: int = 0
    is_silent: bool = False
    """Whether a request got no response since the last exchange that succeeded."""

    def note(self, now_s: float, interval_s: float, pause_s: float, failure: RocketMQError | None) -> None:
        """Note that an exchange of positions with the broker has ended, and its `failure`, if any.

        The next exchange is due after `interval_s`, or after `pause_s` (the backoff of a failure) if that is longer.
        """
        self.failures_in_a_row = self.failures_in_a_row + 1 if failure else 0
        self.is_silent = failure is not None and (self.is_silent or not isinstance(failure, BrokerError))
        self.due_s = now_s + max(interval_s, pause_s)


class GroupPositions:
    """The group's positions in the queues of one member. Only the planning thread uses it."""

    def __init__(
        self,
        offsets: Offsets,
        group: str,
        *,
        min_interval_s: float,
        rhythm: PlannerRhythm,
        note_progress: Callable[[MessageQueue, int], object],
        connection_to: Callable[[Address], object | None],
    ) -> None:
        self._offsets = offsets
        self._group = group
        self._interval_s = max(rhythm.exchange_s, min_interval_s)
        self._rhythm = rhythm
        self._now_s = rhythm.clock
        self._note_progress = note_progress
        self._connection_to = connection_to
        self._owned: Mapping[MessageQueue, Assigned] = {}
        self._held: dict[MessageQueue, _Held] = {}
        self._resets: dict[MessageQueue, int] = {}
        self._paces: defaultdict[str, _Pace] = defaultdict(_Pace)
        self._asked: dict[str, list[MessageQueue]] = {}
        """The brokers that have just reported the group's positions, with the queues they were asked about."""
        self._surprises: defaultdict[str, list[tuple[Any, ...]]] = defaultdict(list)
        """Queues whose reported position is not the committed one, by the text that a warning about them has."""
        self.failure_count = 0
        """The number of exchanges with brokers that failed."""

    def __repr__(self) -> str:
        return f"<GroupPositions of {self._group} in {len(self._held)} queues, {self.failure_count} failures>"

    # --- queues come and go ------------------------------------------------------------------------------------------

    def keep(self, owned: Mapping[MessageQueue, Assigned]) -> None:
        """Note the queues that the member owns now; forget positions of queues that it lost since, even if regained."""
        self._owned = owned
        self._held = {queue: held for queue, held in self._held.items() if owned.get(queue) is held.tenure}

    def choose_starts(
        self, ready: Collection[MessageQueue], known: Positions, facts: QueueFacts
    ) -> dict[MessageQueue, int]:
        """Return the start of the next batch in each owned queue.

        A gained queue is left out until it is in `ready`, the queues whose locks are not missing. `known` are the
        checkpoint's positions.
        """
        starts = {queue: self._go_on(held, known.get(queue)) for queue, held in self._held.items()}
        gained = [queue for queue in self._owned if queue not in self._held and queue in ready]
        return {**starts, **self._gain(gained, known, facts)} if gained else starts

    def _go_on(self, held: _Held, known: int | None) -> int:
        if held.moved_to is not None:
            held.start, held.moved_to = held.moved_to, None
        elif known is not None:
            held.start = known
        return held.start

    def _gain(self, gained: Collection[MessageQueue], known: Positions, facts: QueueFacts) -> dict[MessageQueue, int]:
        reported_positions = self._offsets.fetch_reported_positions(self._group, gained)
        committed = {queue: reported.offset for queue, reported in reported_positions.items()}
        checkpoint = {queue: known[queue] for queue in gained if queue in known}
        void = self._find_void(committed, checkpoint, facts)
        starts = {**checkpoint, **committed}
        starts |= {queue: max(committed[queue], checkpoint[queue]) for queue in committed.keys() & checkpoint}
        starts |= {queue: min(committed[queue], checkpoint[queue]) for queue in void}
        if unknown := [queue for queue in gained if queue not in starts]:
            starts |= facts.first_offsets(unknown)
        for queue, start in starts.items():
            source = self._source_of(reported_positions[queue]) if queue in reported_positions else None
            is_void = queue in void and committed[queue] > start
            held = _Held(self._owned[queue], None, source=source, start=start, is_void=is_void)
            if queue in committed:
                held.note_committed(committed[queue])
            self._held[queue] = held
        return starts

    def _find_void(self, committed: Positions, checkpoint: Positions, facts: QueueFacts) -> Collection[MessageQueue]:
        """Return the queues that end between their committed position and their checkpoint position; warn of each.

        The larger of these two positions is void, because the queue was created again or the broker was restored; a
        batch can start at the smaller one.
        """
        both = {
            queue: sorted((committed[queue], known))
            for queue, known in checkpoint.items()
            if committed.get(queue, known) != known
        }
        ends = facts.ends_before({queue: larger for queue, (_, larger) in both.items()})
        void = [queue for queue, end in ends.items() if both[queue][0] <= end]
        told = []
        for queue in void:
            is_groups = committed[queue] > checkpoint[queue]
            whose = f"group {self._group}" if is_groups else "the checkpoint"
            told.append((queue, both[queue][1], whose, both[queue][0]))
        text = "%s: position %d of %s is beyond the queue's end (topic recreated or broker restored), starting at %d"
        log_together(_log, logging.WARNING, text, told)
        return void

    # --- exchanges with brokers --------------------------------------------------------------------------------------

    def note_done(self, positions: Positions, rewound: Positions) -> None:
        """Note that everything before these positions is finished, so that `commit` commits them.

        Ignore a queue whose next batch does not start at its position, because somebody else moved the group. `rewound`
        has the ends of queues that now end before their position; there the end is committed.
        """
        for queue, held in self._held.items():
            held.is_void = held.is_void or queue in rewound
            if positions.get(queue) == held.start:
                held.done = rewound.get(queue, held.start)

    def note_resets(self, offsets: Positions) -> None:
        """Note the offsets to which an administrator resets owned queues."""
        self._resets |= {queue: offset for queue, offset in offsets.items() if queue in self._held}

    def fetch(self, *, at_once: bool = False, deadline: Deadline | None = None) -> None:
        """Fetch the group's positions from each broker at which this is due; with `at_once`, from all brokers.

        Where somebody else moved the group's position, the next batch starts there.
        """
        self._asked = {}
        for broker_name, queues in _by_broker(self._held).items():
            pace = self._paces[broker_name]
            if not at_once and self._now_s() < pace.due_s:
                continue
            if failure := self._attempt(partial(self._fetch_from, queues, pace.is_silent, deadline)):
                self._note(broker_name, queues, failure)
            else:
                self._asked[broker_name] = queues

    def commit(self, deadline: Deadline | None = None) -> None:
        """Commit the ends of finished work (see `note_done`) for the group, at brokers that answered the last `fetch`.

        A failure is logged and counted, not raised; the commit is repeated after a later `fetch`.
        """
        for broker_name, queues in self._asked.items():
            failure = self._attempt(partial(self._commit_news, queues, deadline))
            self._note(broker_name, queues, failure)
        self._asked = {}

    def _note(self, broker_name: str, queues: Collection[MessageQueue], failure: RocketMQError | None) -> None:
        interval_s = max(self._interval_s, self._rhythm.exchange_per_queue_s * len(queues))
        pace = self._paces[broker_name]
        pause_s = self._rhythm.commit_backoff.delay_s(pace.failures_in_a_row) if failure else 0.0
        pace.note(self._now_s(), interval_s, pause_s, failure)

    def _attempt(self, exchange: Callable[[], None]) -> RocketMQError | None:
        """Run a part of an exchange with one broker; log, count and return its failure, None if it succeeded."""
        try:
            exchange()
        except RocketMQError as error:
            self.failure_count += 1
            _log.warning("positions were not committed, repeating later: %s", error)
            return error
        return None

    def _fetch_from(self, queues: Collection[MessageQueue], after_silence: bool, deadline: Deadline | None) -> None:
        self._obey(queues, deadline)
        reported_positions = self._offsets.fetch_reported_positions(self._group, queues, deadline)
        for queue in queues:
            self._take(queue, self._held[queue], reported_positions.get(queue), after_silence)
        for text, told in self._surprises.items():
            log_together(_log, logging.WARNING, text, told)
        self._surprises.clear()

    def _source_of(self, reported: ReportedPosition) -> BrokerIncarnation:
        return BrokerIncarnation(reported.place, self._connection_to(reported.place))

    def _take(self, queue: MessageQueue, held: _Held, reported: ReportedPosition | None, after_silence: bool) -> None:
        """Compare the position that a broker process reports for a queue with the committed one, and note the process.

        A replica's position is not compared. If `reported` is None, the broker has no position: note that none is
        committed. `after_silence` tells that the broker did not respond to an earlier request.
        """
        if reported is None:
            held.committed = None
            return
        source = self._source_of(reported)
        if not reported.from_replica:
            self._compare(queue, held, reported, source, after_silence)
        held.source = source

    def _compare(
        self,
        queue: MessageQueue,
        held: _Held,
        reported: ReportedPosition,
        source: BrokerIncarnation,
        after_silence: bool,
    ) -> None:
        """Compare the position that a broker reports for a queue with the one that was committed last.

        If somebody else set the reported position, the next batch starts there. If it is an old one, which came back
        because the broker was killed, the query's own position is committed again.
        """
        stored = reported.offset
        if held.is_forgotten(reported, source, after_silence):
            self._surprises[_FORGOTTEN].append((queue, stored, self._group, held.committed))
            held.is_outdated = True
        elif stored not in (held.committed, held.tried):
            self._surprises[_MOVED].append((queue, self._group, held.committed, stored))
            held.moved_to, held.done, held.tried, held.is_outdated = stored, None, None, False
        held.note_committed(stored)

    def _commit_news(self, queues: Collection[MessageQueue], deadline: Deadline | None) -> None:
        held = {queue: self._held[queue] for queue in queues if queue in self._held}
        news = {queue: offset for queue, each in held.items() if (offset := each.news()) is not None}
        for queue, offset in news.items():
            committed = held[queue].committed
            if held[queue].is_void and committed is not None and committed > offset:
                text = "%s: the broker's position %d of group %s is ahead of this query's %d and is moved back to it"
                _log.warning(text + ": the queue ends before it", queue, committed, self._group, offset)
        self._send(news, deadline)
        for queue in news:
            held[queue].is_void = held[queue].is_outdated = False

    def _obey(self, queues: Collection[MessageQueue], deadline: Deadline | None) -> None:
        """Commit the offsets to which an administrator reset these queues, and have the next batch start there."""
        resets = {queue: self._resets[queue] for queue in queues if queue in self._resets}
        self._send(resets, deadline)
        for queue, offset in resets.items():
            del self._resets[queue]
            self._held[queue].moved_to, self._held[queue].done = offset, None

    def _send(self, offsets: Positions, deadline: Deadline | None) -> None:
        if not offsets:
            return
        for queue, offset in offsets.items():
            self._held[queue].note_sent(offset)
        self._offsets.commit(self._group, offsets, deadline)
        for queue, offset in offsets.items():
            self._held[queue].note_committed(offset)
            self._note_progress(queue, offset)


def _by_broker(queues: Iterable[MessageQueue]) -> Mapping[str, list[MessageQueue]]:
    parts: defaultdict[str, list[MessageQueue]] = defaultdict(list)
    for queue in queues:
        parts[queue.broker_name].append(queue)
    return parts
