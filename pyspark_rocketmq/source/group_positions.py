"""Where does the group stand in the queues that are ours, and who moved it?

For a query that is one member of its group (`groupMembership=shared`). The checkpoint says where the query goes on as
long as a queue is its own without a break; whoever gains a queue goes on where the group stands. So:

- a gained queue begins at the group's position, or at the checkpoint's if that is larger (after a restart); where
  there is neither, where the planner says;
- finished work is published only for queues that are ours while it is published;
- before anything is published, brokers are asked where the group stands. A position that is not the one they were told
  last was set by somebody else, an administrator as a rule: the query goes there with its next batch. But a broker
  that was killed comes back with a table some seconds old, and a replica's is always that old. So a replica's word is
  compared with nothing, and a position that the group may have had before, after silence, from another process, or over
  another connection, is an old table: the broker is told once more. Such a position is larger than the query's own
  where the group was moved back since.

Asking and publishing are done by the planning thread, one after the other, so that no answer is older than what was
published meanwhile. Between the two the planner judges by the queues' bounds what it is about to publish. Both happen
at most once a second. What fails is warned about, and tried again later.

A position beyond the end of its queue is void: it outlived a queue that was made anew. So a gained queue does not begin
there while there is another one to begin at; and where the query itself fell back, after a loss that was judged, the
published position follows it down.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

from ..client.assignment import Assigned
from ..cluster.queue_offsets import Offsets, Standing
from ..errors import BrokerError, RocketMQError
from ..model import Address, MessageQueue
from ..net.backoff import Backoff
from ..net.deadline import Deadline
from ..offsets.position import Positions

__all__ = ["GroupPositions"]

LEAST_INTERVAL_S = 1.0
SECONDS_PER_QUEUE = 0.01
"""Every queue is a question of its own, and an idle query must not keep its brokers busy."""
_PAUSE = Backoff(first_s=1.0, longest_s=30.0)
_log = logging.getLogger(__name__)


class Places(Protocol):
    """What the planner knows of queues that are gained."""

    def first_offsets(self, queues: Collection[MessageQueue]) -> Positions:
        """Where queues begin in which neither the group nor the query stands anywhere."""

    def ends_before(self, positions: Positions) -> Positions:
        """Where queues end that do so before these positions, by what a master said after they became known."""


class _Voice(NamedTuple):
    """A process of a broker, and the connection to it, which lasts no longer than the process."""

    place: Address
    connection: object | None


@dataclass(slots=True)
class _Held:
    """One queue while it is ours."""

    tenure: Assigned
    published: int | None
    """What brokers said, or were told, last."""
    tried: int | None = None
    """What brokers were told without an answer, or with one, since somebody else moved the group."""
    largest: int = -1
    """The largest position that brokers said or were told; an old table holds nothing beyond it."""
    voice: _Voice | None = None
    """Who said where the group stands."""
    start: int = 0
    """Where the query went on when it was asked last."""
    done: int | None = None
    """Everything before it is finished; unknown from a move on until a batch has begun there."""
    moved_to: int | None = None
    """Where somebody wants us to go with the next batch."""
    is_void: bool = False
    """Whether what brokers say lies beyond the queue's end, so that a smaller position replaces it."""
    is_outdated: bool = False
    """Whether what brokers say is from before the group was moved back, so that a smaller position replaces it."""

    def publishable(self) -> int | None:
        """What brokers are to be told now."""
        if self.done is None or self.done == self.published:
            return None
        if self.published is not None and self.done < self.published and not (self.is_void or self.is_outdated):
            return None
        return self.done

    def note_told(self, offset: int) -> None:
        """Brokers are told a position; an old table may hold it even if there is no answer."""
        self.tried = offset
        self.largest = max(self.largest, offset)

    def note_published(self, offset: int) -> None:
        """Brokers hold this position now."""
        self.published = offset
        self.largest = max(self.largest, offset)

    def is_forgotten(self, standing: Standing, voice: _Voice, after_silence: bool) -> bool:
        """Whether a broker says something else than it was told because its table is an older one."""
        if self.published is None or standing.offset in (self.published, self.tried):
            return False
        if standing.offset > self.largest:
            return False
        return after_silence or standing.after_silence or self.voice not in (None, voice)


@dataclass(slots=True)
class _Pace:
    """When one broker is asked again."""

    due_s: float = float("-inf")
    failures_in_a_row: int = 0
    is_silent: bool = False
    """Whether there was no answer since the last exchange that worked."""

    def note(self, now_s: float, interval_s: float, failure: RocketMQError | None) -> None:
        """An exchange has ended; the next one follows after the interval, or after a pause that grows."""
        pause_s = _PAUSE.delay_s(self.failures_in_a_row) if failure else 0.0
        self.failures_in_a_row = self.failures_in_a_row + 1 if failure else 0
        self.is_silent = failure is not None and (self.is_silent or not isinstance(failure, BrokerError))
        self.due_s = now_s + max(interval_s, pause_s)


class GroupPositions:
    """The group's positions in our queues. For the planning thread."""

    def __init__(
        self,
        offsets: Offsets,
        group: str,
        *,
        min_interval_s: float,
        now_s: Callable[[], float],
        note_progress: Callable[[MessageQueue, int], object],
        connection_to: Callable[[Address], object | None],
    ) -> None:
        self._offsets = offsets
        self._group = group
        self._interval_s = max(LEAST_INTERVAL_S, min_interval_s)
        self._now_s = now_s
        self._note_progress = note_progress
        self._connection_to = connection_to
        self._held: dict[MessageQueue, _Held] = {}
        self._resets: dict[MessageQueue, int] = {}
        self._paces: defaultdict[str, _Pace] = defaultdict(_Pace)
        self._asked: dict[str, list[MessageQueue]] = {}
        """The brokers that said where the group stands and may be told now, with the queues they were asked about."""
        self.failure_count = 0
        """How many times a broker was not told where the group stands."""

    def __repr__(self) -> str:
        return f"<GroupPositions of {self._group} in {len(self._held)} queues, {self.failure_count} failures>"

    # --- queues come and go ------------------------------------------------------------------------------------------

    def keep(self, owned: Mapping[MessageQueue, Assigned]) -> None:
        """Forget the queues that are not ours any more, or were not for a while."""
        self._held = {queue: held for queue, held in self._held.items() if owned.get(queue) is held.tenure}

    def starts(
        self,
        owned: Mapping[MessageQueue, Assigned],
        ready: Collection[MessageQueue],
        known: Positions,
        places: Places,
    ) -> dict[MessageQueue, int]:
        """Where the next batch starts in each queue that is ours; a gained one joins when it is `ready`."""
        self.keep(owned)
        starts = {queue: self._go_on(held, known.get(queue)) for queue, held in self._held.items()}
        gained = [queue for queue in owned if queue not in self._held and queue in ready]
        return {**starts, **self._gain(gained, owned, known, places)} if gained else starts

    def _go_on(self, held: _Held, known: int | None) -> int:
        if held.moved_to is not None:
            held.start, held.moved_to = held.moved_to, None
        elif known is not None:
            held.start = known
        return held.start

    def _gain(
        self,
        gained: Collection[MessageQueue],
        owned: Mapping[MessageQueue, Assigned],
        known: Positions,
        places: Places,
    ) -> dict[MessageQueue, int]:
        standings = self._offsets.fetch_standings(self._group, gained)
        committed = {queue: standing.offset for queue, standing in standings.items()}
        checkpoint = {queue: known[queue] for queue in gained if queue in known}
        void = self._void(committed, checkpoint, places)
        stood = {**checkpoint, **committed}
        stood |= {queue: max(committed[queue], checkpoint[queue]) for queue in committed.keys() & checkpoint}
        stood |= {queue: min(committed[queue], checkpoint[queue]) for queue in void}
        unknown = [queue for queue in gained if queue not in stood]
        starts = {**stood, **(places.first_offsets(unknown) if unknown else {})}
        for queue, start in starts.items():
            voice = self._voice_of(standings[queue]) if queue in standings else None
            is_void = queue in void and committed[queue] > start
            held = _Held(owned[queue], None, voice=voice, start=start, is_void=is_void)
            if queue in committed:
                held.note_published(committed[queue])
            self._held[queue] = held
        return starts

    def _void(self, committed: Positions, checkpoint: Positions, places: Places) -> Collection[MessageQueue]:
        """The queues that end before the larger of both positions but not before the smaller one."""
        both = {
            queue: sorted((committed[queue], known))
            for queue, known in checkpoint.items()
            if committed.get(queue, known) != known
        }
        ends = places.ends_before({queue: larger for queue, (_, larger) in both.items()})
        void = [queue for queue, end in ends.items() if both[queue][0] <= end]
        for queue in void:
            text = (
                "%s: position %d of %s lies beyond the queue's end (topic made anew, or broker restored); begin at %d"
            )
            is_groups = committed[queue] > checkpoint[queue]
            whose = f"group {self._group}" if is_groups else "the checkpoint"
            _log.warning(text, queue, both[queue][1], whose, both[queue][0])
        return void

    # --- publishing --------------------------------------------------------------------------------------------------

    def note_done(self, positions: Positions, fallen: Positions) -> None:
        """Everything before these positions is finished, in queues in which the query goes on from there.

        The `fallen` ones were found to end at a smaller offset, to which the query and its position go back.
        """
        for queue, held in self._held.items():
            held.is_void = held.is_void or queue in fallen
            if positions.get(queue) == held.start:
                held.done = fallen.get(queue, held.start)

    def note_resets(self, offsets: Positions) -> None:
        """An administrator told this member where to go."""
        self._resets |= {queue: offset for queue, offset in offsets.items() if queue in self._held}

    def ask(self, *, at_once: bool = False, deadline: Deadline | None = None) -> None:
        """Ask brokers where the group stands, each of them if it is time to."""
        self._asked = {}
        for broker_name, queues in _by_broker(self._held).items():
            pace = self._paces[broker_name]
            if not at_once and self._now_s() < pace.due_s:
                continue
            if failure := self._attempt(partial(self._listen, queues, pace.is_silent, deadline)):
                self._note(broker_name, queues, failure)
            else:
                self._asked[broker_name] = queues

    def tell(self, deadline: Deadline | None = None) -> None:
        """Tell the brokers that have answered what is finished."""
        for broker_name, queues in self._asked.items():
            failure = self._attempt(partial(self._publish, queues, deadline))
            self._note(broker_name, queues, failure)
        self._asked = {}

    def _note(self, broker_name: str, queues: Collection[MessageQueue], failure: RocketMQError | None) -> None:
        interval_s = max(self._interval_s, SECONDS_PER_QUEUE * len(queues))
        self._paces[broker_name].note(self._now_s(), interval_s, failure)

    def _attempt(self, exchange: Callable[[], None]) -> RocketMQError | None:
        """With one broker, whose failure holds up nothing elsewhere; why it did not work, if it did not."""
        try:
            exchange()
        except RocketMQError as error:
            self.failure_count += 1
            _log.warning("positions were not published and will be later: %s", error)
            return error
        return None

    def _listen(self, queues: Collection[MessageQueue], after_silence: bool, deadline: Deadline | None) -> None:
        self._obey(queues, deadline)
        standings = self._offsets.fetch_standings(self._group, queues, deadline)
        for queue in queues:
            self._hear(queue, self._held[queue], standings.get(queue), after_silence)

    def _voice_of(self, standing: Standing) -> _Voice:
        return _Voice(standing.place, self._connection_to(standing.place))

    def _hear(self, queue: MessageQueue, held: _Held, standing: Standing | None, after_silence: bool) -> None:
        """Take in what a broker says; a replica's word shows nothing but who answers now."""
        if standing is None:
            held.published = None
            return
        voice = self._voice_of(standing)
        if not standing.from_replica:
            self._compare(queue, held, standing, voice, after_silence)
        held.voice = voice

    def _compare(
        self, queue: MessageQueue, held: _Held, standing: Standing, voice: _Voice, after_silence: bool
    ) -> None:
        """Obey whoever moved the group; what the broker has forgotten is told once more with the next publication."""
        stored = standing.offset
        if held.is_forgotten(standing, voice, after_silence):
            text = "%s: the broker has forgotten that group %s stands at %d and says %d; it is told once more"
            _log.warning(text, queue, self._group, held.published, stored)
            held.is_outdated = True
        elif stored not in (held.published, held.tried):
            text = "%s: group %s was moved from %s to %d by somebody else; the next batch starts there"
            _log.warning(text, queue, self._group, held.published, stored)
            held.moved_to, held.done, held.tried, held.is_outdated = stored, None, None, False
        held.note_published(stored)

    def _publish(self, queues: Collection[MessageQueue], deadline: Deadline | None) -> None:
        held = {queue: self._held[queue] for queue in queues if queue in self._held}
        news = {queue: offset for queue, each in held.items() if (offset := each.publishable()) is not None}
        for queue, offset in news.items():
            published = held[queue].published
            if held[queue].is_void and published is not None and published > offset:
                text = "%s: the broker's position %d of group %s is ahead of this query's %d and is moved back to it"
                _log.warning(text + ": the queue was found to end before it", queue, published, self._group, offset)
        self._tell(news, deadline)
        for queue in news:
            held[queue].is_void = held[queue].is_outdated = False

    def _obey(self, queues: Collection[MessageQueue], deadline: Deadline | None) -> None:
        """Write an administrator's wish down where the group's positions are, and go there."""
        resets = {queue: self._resets[queue] for queue in queues if queue in self._resets}
        self._tell(resets, deadline)
        for queue, offset in resets.items():
            del self._resets[queue]
            self._held[queue].moved_to, self._held[queue].done = offset, None

    def _tell(self, offsets: Positions, deadline: Deadline | None) -> None:
        if not offsets:
            return
        for queue, offset in offsets.items():
            self._held[queue].note_told(offset)
        self._offsets.commit(self._group, offsets, deadline)
        for queue, offset in offsets.items():
            self._held[queue].note_published(offset)
            self._note_progress(queue, offset)


def _by_broker(queues: Iterable[MessageQueue]) -> Mapping[str, list[MessageQueue]]:
    parts: defaultdict[str, list[MessageQueue]] = defaultdict(list)
    for queue in queues:
        parts[queue.broker_name].append(queue)
    return parts
