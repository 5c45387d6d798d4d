"""Decide which queues are this member's, take them and give them up.

Every member assigns the same sorted queues to the same sorted members by the same strategy and keeps its own; no
process coordinates them. A round looks at each topic: queues that are assigned to others now are dropped and handed
over, new ones are taken from the group's position on. A member that cannot look (no route, no list of members) changes
nothing.

Rounds come every 20 seconds, one second after a round that left something to do, and on a wake-up (`wake`); never
within a second of the last one. While no broker tells who is in the group, the next round comes after one second as
well, and then after pauses that grow up to the regular one.
"""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from ..allocation.strategy import AllocateStrategy
from ..errors import RocketMQError
from ..model import MessageQueue
from ..net.backoff import Backoff
from .assignment import Assigned, AssignmentTable
from .clock import Clock
from .locks import QueueLocks
from .loop import Loop
from .membership import Membership
from .settings import Rhythm
from .stores import FirstOffsets, OffsetStore, UnreachableBrokers

__all__ = ["QueueHandover", "QueueListener", "Rebalancer", "Rounds", "TopicAssignment", "assign_topic"]

HAND_OVER_WAIT_S = 0.5
_AFTER_REFUSED_LOCK_S = 0.5

_log = logging.getLogger(__name__)

QueueListener = Callable[[str, Collection[MessageQueue], Collection[MessageQueue]], object]
"""Called with a topic, all its queues and this member's queues when the latter have changed."""


class TopicAssignment(NamedTuple):
    """The queues of one topic, and those among them that are assigned to this member."""

    all_queues: Sequence[MessageQueue]
    own_queues: Sequence[MessageQueue]


def assign_topic(topic: str, membership: Membership, strategy: AllocateStrategy | None) -> TopicAssignment | None:
    """Return this member's queues of a topic, all of them without a strategy; None if no server tells.

    Raises what the strategy raises.
    """
    queues = membership.queues(topic)
    if queues is None:
        return None
    if strategy is None:
        return TopicAssignment(queues, queues)
    members = membership.members(topic)
    if members is None:
        return None
    return TopicAssignment(queues, strategy.allocate(membership.client_id, queues, members))


class QueueHandover:
    """Takes queues from other members and gives them up, with their positions and locks. For the timer loop alone."""

    def __init__(
        self,
        *,
        table: AssignmentTable,
        store: OffsetStore,
        first_offsets: FirstOffsets,
        locks: QueueLocks | None,
        orderly: bool,
        clock: Clock,
        unlock_delay_s: float,
    ) -> None:
        self._table = table
        self._store = store
        self._first_offsets = first_offsets
        self._locks = locks
        """Only where order matters."""
        self._orderly = orderly
        self._clock = clock
        self._unlock_delay_s = unlock_delay_s

    def lock(self, queues: list[MessageQueue]) -> list[MessageQueue]:
        """Lock these queues where order matters, and return those that may be taken."""
        if self._locks is None:
            return queues
        try:
            granted = self._locks.take_all(queues)
        except RocketMQError as error:
            _log.warning("could not lock queues, trying again in the next round: %s", error)
            return []
        return [queue for queue in queues if queue in granted]

    def take(self, queue: MessageQueue, unreachable: UnreachableBrokers) -> Assigned | None:
        """Take a queue from the group's position on; None if its broker does not tell the first offset."""
        self._store.progress.forget(queue)
        failing = f"{queue} is not taken in this round"
        start = unreachable.attempt(queue.broker_name, lambda: self._first_offsets.find(queue), failing)
        if start is None:
            return None
        assigned = Assigned(queue, start, orderly=self._orderly, clock=self._clock.now_s)
        assigned.process_queue.locked = True
        self._table.add(assigned)
        return assigned

    def give_up(self, assigned: Assigned, unreachable: UnreachableBrokers | None = None) -> bool:
        """Persist a queue's position and hand it over; return False if its listener is still at work."""
        unreachable = unreachable or UnreachableBrokers()
        self._store.persist(assigned.queue, unreachable)
        if self._locks and not self._unlock(assigned, self._locks, unreachable):
            return False
        self._store.progress.forget(assigned.queue)
        self._table.remove(assigned)
        return True

    def _unlock(self, assigned: Assigned, locks: QueueLocks, unreachable: UnreachableBrokers) -> bool:
        """Unlock once the listener has returned, or when the lock was not renewed for too long."""
        process_queue = assigned.process_queue
        overdue = process_queue.is_lock_expired(self._unlock_delay_s)
        if not (overdue or process_queue.consume_lock.acquire(timeout=HAND_OVER_WAIT_S)):
            assigned.unlock_attempts += 1
            _log.info("%s is still being consumed and is handed over later", assigned.queue)
            return False
        try:
            self._store.persist(assigned.queue, unreachable)
            process_queue.locked = False
            if assigned.queue.broker_name not in unreachable:
                locks.release([assigned.queue])
        finally:
            if not overdue:
                process_queue.consume_lock.release()
        return True


class Rebalancer:
    """Changes the table of held queues until it is what the strategy assigns. For the timer loop alone."""

    def __init__(
        self,
        *,
        membership: Membership,
        strategy: AllocateStrategy | None,
        table: AssignmentTable,
        handover: QueueHandover,
        dispatch: Callable[[Assigned, float], object],
        changed: Callable[[str, TopicAssignment], object],
        wake_later: Callable[[float], object],
        rhythm: Rhythm,
    ) -> None:
        self._membership = membership
        self._strategy = strategy
        """None: every member gets everything."""
        self._table = table
        self._handover = handover
        self._dispatch = dispatch
        """Begins to pull a queue that was taken, after a delay."""
        self._changed = changed
        """Called when this member's queues of a topic have changed."""
        self._wake_later = wake_later
        self._rhythm = rhythm
        self._pauses = Backoff(first_s=rhythm.rebalance_soonest_s, longest_s=rhythm.rebalance_s)
        self._unknown_rounds: Counter[str] = Counter()
        """By topic, the number of consecutive rounds in which no server told of it."""

    def run_round(self) -> bool:
        """Look at every topic, and return whether nothing is left to do."""
        topics, unreachable = list(self._membership.subscriptions), UnreachableBrokers()
        settled = [self._settle_topic(topic, unreachable) for topic in topics]
        for assigned in self._table.all():
            if assigned.queue.topic not in topics:
                settled.append(self._lose(assigned, unreachable))
        return all(settled)

    def _settle_topic(self, topic: str, unreachable: UnreachableBrokers) -> bool:
        try:
            assignment = assign_topic(topic, self._membership, self._strategy)
        except RocketMQError as error:
            _log.warning("could not rebalance %s, keeping its queues: %s", topic, error)
            return False
        if assignment is None:
            self._look_again(topic)
            return True
        del self._unknown_rounds[topic]
        lost = [self._lose(assigned, unreachable) for assigned in self._surplus(topic, assignment.own_queues)]
        gained = self._gain(assignment.own_queues, unreachable)
        if any(lost) or gained:
            self._changed(topic, assignment)
        for assigned in gained:
            self._dispatch(assigned, self._rhythm.dispatch_s)
        held = {assigned.queue for assigned in self._table.all(topic) if not assigned.process_queue.dropped}
        return held == set(assignment.own_queues)

    def _look_again(self, topic: str) -> None:
        """Wake up soon at first, and then less and less often, so that brokers pay little for a long failure."""
        self._wake_later(self._pauses.delay_s(self._unknown_rounds[topic]))
        self._unknown_rounds[topic] += 1

    def _surplus(self, topic: str, own_queues: Sequence[MessageQueue]) -> list[Assigned]:
        """Return held queues that are no longer assigned, and those that nothing pulls, which are taken anew."""
        wanted, idle_s = set(own_queues), self._rhythm.pull_max_idle_s
        return [
            assigned
            for assigned in self._table.all(topic)
            if assigned.queue not in wanted
            or assigned.process_queue.dropped
            or assigned.process_queue.is_pull_expired(idle_s)
        ]

    def _lose(self, assigned: Assigned, unreachable: UnreachableBrokers) -> bool:
        assigned.process_queue.dropped = True
        return self._handover.give_up(assigned, unreachable)

    def _gain(self, own_queues: Sequence[MessageQueue], unreachable: UnreachableBrokers) -> list[Assigned]:
        missing = [queue for queue in own_queues if not self._table.get(queue)]
        free = self._handover.lock(missing)
        if len(free) < len(missing):
            self._wake_later(_AFTER_REFUSED_LOCK_S)
        # In random order: a queue whose broker is slow to answer must not delay the same other queues in each round.
        taken = [self._handover.take(queue, unreachable) for queue in random.sample(free, len(free))]
        return [assigned for assigned in taken if assigned]


class Rounds:
    """The times of rounds: a plan on the timer loop."""

    def __init__(self, run_round: Callable[[], bool], loop: Loop, clock: Clock, rhythm: Rhythm) -> None:
        self._run_round = run_round
        self._loop = loop
        self._clock = clock
        self._rhythm = rhythm
        self._due: float | None = None
        self._ended = clock.now_s() - rhythm.rebalance_soonest_s

    def wake(self) -> None:
        """Plan a round as soon as is allowed. For any thread."""
        self.wake_later(0.0)

    def wake_later(self, delay_s: float) -> None:
        """Plan a round after a delay. For any thread."""
        self._loop.call_soon(lambda: self._plan(self._clock.now_s() + delay_s))

    def _plan(self, due: float) -> None:
        due = max(due, self._ended + self._rhythm.rebalance_soonest_s)
        if self._due is None or due < self._due:
            self._due = due
            self._loop.call_later(due - self._clock.now_s(), lambda: self._tick(due))

    def _tick(self, due: float) -> None:
        if due != self._due:
            return  # An earlier round was planned since and has replaced this one.
        balanced = self._run_guarded()
        self._due, self._ended = None, self._clock.now_s()
        rhythm = self._rhythm
        self._plan(self._ended + (rhythm.rebalance_s if balanced else rhythm.rebalance_soonest_s))

    def _run_guarded(self) -> bool:
        try:
            return self._run_round()
        except Exception:
            _log.exception("a round of rebalancing failed")
            return False
