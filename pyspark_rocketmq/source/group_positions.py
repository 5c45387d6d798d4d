"""Where does the group stand in the queues that are ours, and who moved it?

For a query that is one member of its group (`groupMembership=shared`). The checkpoint says where the query goes on as
long as a queue is its own without a break; whoever gains a queue goes on where the group stands. So:

- a gained queue begins at the group's position, or at the checkpoint's if that is larger (after a restart), and where
  there is neither, as `startingOffsetsDefault` says;
- finished work is published only for queues that are ours while it is published;
- before anything is published, brokers are asked where the group stands. A position that is not the one they were told
  last was set by somebody else, an administrator as a rule: the query goes there with its next batch. But a broker
  that was killed comes back with a table some seconds old, and a replica's is always that old. So a replica's word is
  compared with nothing, and a smaller position after silence, from another process, or over another connection, is
  what the broker has forgotten: it is told once more.

Asking and publishing are done by the planning thread, one after the other, so that no answer is older than what was
published meanwhile. Both happen at most once a second. What fails is warned about, and tried again later.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ..client.assignment import Assigned
from ..cluster.offsets import Offsets, Standing
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

FirstOffsets = Callable[[Collection[MessageQueue]], Positions]
"""Where queues begin in which neither the group nor the query stands anywhere."""


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
    """What brokers were told without an answer, or with one."""
    voice: _Voice | None = None
    """Who said where the group stands."""
    start: int = 0
    """Where the query went on when it was asked last."""
    done: int | None = None
    """Everything before it is finished; unknown from a move on until a batch has begun there."""
    moved_to: int | None = None
    """Where somebody wants us to go with the next batch."""

    def publishable(self) -> int | None:
        """What brokers are to be told now."""
        if self.done is None or (self.published is not None and self.done <= self.published):
            return None
        return self.done

    def is_forgotten(self, standing: Standing, voice: _Voice, after_silence: bool) -> bool:
        """Whether a broker says less than it was told because its table is an older one."""
        if self.published is None or standing.offset >= self.published:
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
        first: FirstOffsets,
    ) -> dict[MessageQueue, int]:
        """Where the next batch starts in each queue that is ours; a gained one joins when it is `ready`."""
        self.keep(owned)
        starts = {queue: self._go_on(held, known.get(queue)) for queue, held in self._held.items()}
        gained = [queue for queue in owned if queue not in self._held and queue in ready]
        return {**starts, **self._gain(gained, owned, known, first)} if gained else starts

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
        first: FirstOffsets,
    ) -> dict[MessageQueue, int]:
        standings = self._offsets.fetch_standings(self._group, gained)
        committed = {queue: standing.offset for queue, standing in standings.items()}
        stood = {queue: max(committed.get(queue, -1), known.get(queue, -1)) for queue in gained}
        unknown = [queue for queue, offset in stood.items() if offset < 0]
        starts = {**stood, **(first(unknown) if unknown else {})}
        for queue, start in starts.items():
            voice = self._voice_of(standings[queue]) if queue in standings else None
            self._held[queue] = _Held(owned[queue], committed.get(queue), voice=voice, start=start)
        return starts

    # --- publishing --------------------------------------------------------------------------------------------------

    def note_done(self, positions: Positions) -> None:
        """Everything before these positions is finished; those of queues that are not ours are nobody's business."""
        for queue, held in self._held.items():
            if queue in positions:
                held.done = positions[queue]

    def note_resets(self, offsets: Positions) -> None:
        """An administrator told this member where to go."""
        self._resets |= {queue: offset for queue, offset in offsets.items() if queue in self._held}

    def exchange(self, *, at_once: bool = False, deadline: Deadline | None = None) -> None:
        """Ask brokers where the group stands and tell them what is finished, each of them if it is time to."""
        for broker_name, queues in _by_broker(self._held).items():
            pace = self._paces[broker_name]
            if at_once or self._now_s() >= pace.due_s:
                failure = self._try_exchange(queues, pace.is_silent, deadline)
                interval_s = max(self._interval_s, SECONDS_PER_QUEUE * len(queues))
                pace.note(self._now_s(), interval_s, failure)

    def _try_exchange(
        self, queues: Collection[MessageQueue], after_silence: bool, deadline: Deadline | None
    ) -> RocketMQError | None:
        """With one broker, whose failure holds up nothing elsewhere; why it did not work, if it did not."""
        try:
            self._obey(queues, deadline)
            standings = self._offsets.fetch_standings(self._group, queues, deadline)
            for queue in queues:
                self._hear(queue, self._held[queue], standings.get(queue), after_silence)
            self._publish(queues, deadline)
        except RocketMQError as error:
            self.failure_count += 1
            _log.warning("positions were not published and will be later: %s", error)
            return error
        return None

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
        elif stored not in (held.published, held.tried):
            text = "%s: group %s was moved from %s to %d by somebody else; the next batch starts there"
            _log.warning(text, queue, self._group, held.published, stored)
            held.moved_to, held.done = stored, None
        held.published = stored

    def _publish(self, queues: Collection[MessageQueue], deadline: Deadline | None) -> None:
        news = {queue: offset for queue in queues if (offset := self._held[queue].publishable()) is not None}
        self._tell(news, deadline)

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
            self._held[queue].tried = offset
        self._offsets.commit(self._group, offsets, deadline)
        for queue, offset in offsets.items():
            self._held[queue].published = offset
            self._note_progress(queue, offset)


def _by_broker(queues: Iterable[MessageQueue]) -> Mapping[str, list[MessageQueue]]:
    parts: defaultdict[str, list[MessageQueue]] = defaultdict(list)
    for queue in queues:
        parts[queue.broker_name].append(queue)
    return parts
