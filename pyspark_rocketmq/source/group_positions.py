"""Read and commit the group's positions in the queues of one member, and notice who moved them.

For a query that is one member of its group (`groupMembership=shared`). The checkpoint decides where the query goes on
as long as it owns a queue without a break; a member that gains a queue goes on at the group's position. So:

- a gained queue begins at the group's position, or at the checkpoint's if that is larger (after a restart); where
  neither exists, the planner decides;
- finished work is committed only for queues that the member owns at that moment;
- before each commit, brokers are asked for the group's positions. A position that differs from the last committed one
  was set by somebody else, an administrator as a rule: the query goes there with its next batch. But a broker that was
  killed comes back with a table some seconds old, and a replica's table always lags. So a replica's position is never
  compared, and a position that the group may have had before counts as an old table if it comes after silence, from
  another process, or over another connection: then the offset is committed again. Such a position is larger than the
  query's own where the group was moved back since.

The planning thread asks and commits, one after the other, so that no answer is older than the last commit. Between the
two, the planner judges by the queues' bounds what it is about to commit. Both happen at most once a second. A failure
is a warning and is repeated later.

A position beyond the end of its queue is void: it outlived a queue that was created again. So a gained queue does not
begin there while another position exists; and where the query itself was rewound after a judged loss, the committed
position follows it down.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

from ..client.assignment import Assigned
from ..cluster.queue_offsets import Offsets, ReportedPosition
from ..errors import BrokerError, RocketMQError
from ..model import Address, MessageQueue
from ..net.deadline import Deadline
from ..offsets.position import Positions
from .rhythm import PlannerRhythm

__all__ = ["GroupPositions", "QueueFacts"]

_log = logging.getLogger(__name__)


class QueueFacts(Protocol):
    """The planner's facts about queues that are gained."""

    def first_offsets(self, queues: Collection[MessageQueue]) -> Positions:
        """Return where queues begin in which neither the group nor the query has a position."""

    def ends_before(self, positions: Positions) -> Positions:
        """Return the ends of the queues that end before these positions, as a master reported after they were known."""


class BrokerIncarnation(NamedTuple):
    """One process of a broker, told apart by the connection to it, which ends with the process."""

    place: Address
    connection: object | None


@dataclass(slots=True)
class _Held:
    """One queue while the member owns it."""

    tenure: Assigned
    committed: int | None
    """The last offset that brokers reported or confirmed."""
    tried: int | None = None
    """The last offset sent to brokers, answered or not, since somebody else moved the group."""
    largest: int = -1
    """The largest offset that brokers reported or were sent; an old table holds nothing beyond it."""
    source: BrokerIncarnation | None = None
    """The process that reported the position last."""
    start: int = 0
    """The query's start in its last planning."""
    done: int | None = None
    """The end of finished work; unknown after a move until a batch begins there."""
    moved_to: int | None = None
    """The offset to which somebody else moved the group; the next batch begins there."""
    is_void: bool = False
    """Whether the brokers' position lies beyond the queue's end, so that a smaller one replaces it."""
    is_outdated: bool = False
    """Whether the brokers' position is from before the group was moved back, so that a smaller one replaces it."""

    def news(self) -> int | None:
        """Return the offset to commit now; None if there is none."""
        if self.done is None or self.done == self.committed:
            return None
        if self.committed is not None and self.done < self.committed and not (self.is_void or self.is_outdated):
            return None
        return self.done

    def note_sent(self, offset: int) -> None:
        """Note an offset on its way to brokers: an old table may hold it even if no answer comes."""
        self.tried = offset
        self.largest = max(self.largest, offset)

    def note_committed(self, offset: int) -> None:
        """Note an offset that brokers hold now."""
        self.committed = offset
        self.largest = max(self.largest, offset)

    def is_forgotten(self, reported: ReportedPosition, source: BrokerIncarnation, after_silence: bool) -> bool:
        """Return whether a broker reports another offset than was committed because its table is older."""
        if self.committed is None or reported.offset in (self.committed, self.tried):
            return False
        if reported.offset > self.largest:
            return False
        return after_silence or reported.after_silence or self.source not in (None, source)


@dataclass(slots=True)
class _Pace:
    """The time of the next exchange with one broker."""

    due_s: float = float("-inf")
    failures_in_a_row: int = 0
    is_silent: bool = False
    """Whether the broker gave no answer since the last exchange that worked."""

    def note(self, now_s: float, interval_s: float, pause_s: float, failure: RocketMQError | None) -> None:
        """Note the end of an exchange; the next one follows after the interval, or after a longer pause."""
        self.failures_in_a_row = self.failures_in_a_row + 1 if failure else 0
        self.is_silent = failure is not None and (self.is_silent or not isinstance(failure, BrokerError))
        self.due_s = now_s + max(interval_s, pause_s)


class GroupPositions:
    """The group's positions in the queues of one member. For the planning thread."""

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
        self.failure_count = 0
        """How many exchanges with a broker failed."""

    def __repr__(self) -> str:
        return f"<GroupPositions of {self._group} in {len(self._held)} queues, {self.failure_count} failures>"

    # --- queues come and go ------------------------------------------------------------------------------------------

    def keep(self, owned: Mapping[MessageQueue, Assigned]) -> None:
        """Take the queues that the member owns now; forget those that it lost, if only for a while."""
        self._owned = owned
        self._held = {queue: held for queue, held in self._held.items() if owned.get(queue) is held.tenure}

    def choose_starts(
        self, ready: Collection[MessageQueue], known: Positions, facts: QueueFacts
    ) -> dict[MessageQueue, int]:
        """Choose where the next batch starts in each owned queue; a gained queue joins when it is `ready`."""
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
        """Return the queues that end before the larger of both positions but not before the smaller one."""
        both = {
            queue: sorted((committed[queue], known))
            for queue, known in checkpoint.items()
            if committed.get(queue, known) != known
        }
        ends = facts.ends_before({queue: larger for queue, (_, larger) in both.items()})
        void = [queue for queue, end in ends.items() if both[queue][0] <= end]
        for queue in void:
            text = (
                "%s: position %d of %s is beyond the queue's end (topic recreated or broker restored), starting at %d"
            )
            is_groups = committed[queue] > checkpoint[queue]
            whose = f"group {self._group}" if is_groups else "the checkpoint"
            _log.warning(text, queue, both[queue][1], whose, both[queue][0])
        return void

    # --- exchanges with brokers --------------------------------------------------------------------------------------

    def note_done(self, positions: Positions, rewound: Positions) -> None:
        """Note that everything before these positions is finished, in queues in which the query goes on from there.

        The `rewound` queues were found to end at a smaller offset, to which the query and its position go back.
        """
        for queue, held in self._held.items():
            held.is_void = held.is_void or queue in rewound
            if positions.get(queue) == held.start:
                held.done = rewound.get(queue, held.start)

    def note_resets(self, offsets: Positions) -> None:
        """Note where an administrator wants this member to go."""
        self._resets |= {queue: offset for queue, offset in offsets.items() if queue in self._held}

    def fetch(self, *, at_once: bool = False, deadline: Deadline | None = None) -> None:
        """Ask each broker that is due for the group's positions, and follow those that somebody else moved."""
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
        """Commit what is finished at the brokers that have just answered."""
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
        """Run an exchange with one broker and return its failure, which delays no other broker."""
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

    def _source_of(self, reported: ReportedPosition) -> BrokerIncarnation:
        return BrokerIncarnation(reported.place, self._connection_to(reported.place))

    def _take(self, queue: MessageQueue, held: _Held, reported: ReportedPosition | None, after_silence: bool) -> None:
        """Take a reported position; a replica's shows only which process answers now."""
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
        """Follow a move by somebody else; have a forgotten position committed again."""
        stored = reported.offset
        if held.is_forgotten(reported, source, after_silence):
            text = "%s: the broker reports offset %d for group %s, expected %d; committing again"
            _log.warning(text, queue, stored, self._group, held.committed)
            held.is_outdated = True
        elif stored not in (held.committed, held.tried):
            text = "%s: group %s was moved from %s to %d by somebody else; the next batch starts there"
            _log.warning(text, queue, self._group, held.committed, stored)
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
        """Commit the positions of an administrator's reset, and have the next batch start there."""
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
