"""Decide which queues this member holds, take them and give them up.

Every member sorts queues and members in the same way, assigns queues to members by the same strategy, and takes the
queues that are assigned to itself; no process coordinates the members. A *round* of rebalancing does this for each
topic: queues that are now assigned to others are dropped and handed over, and new ones are taken at the group's
position. If the route or the list of members cannot be fetched, the topic's queues stay as they are.

The next round comes after 20 seconds, or after one second if a round could not take or give up every queue. A wake-up
(`wake`) brings it forward, but at least one second lies between two rounds. While no broker reports the members, the
next round comes after one second at first, and then after growing pauses of up to 20 seconds.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from random import Random
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
"""Called with a topic, all its queues, and this member's queues of it, after the member has taken or lost queues."""


class TopicAssignment(NamedTuple):
    """All queues of one topic, and those of them that are assigned to this member."""

    all_queues: Sequence[MessageQueue]
    own_queues: Sequence[MessageQueue]
    members: Sequence[str] = ()
    """The client ids of the members among which the queues were divided; empty if no strategy divided them."""


def assign_topic(topic: str, membership: Membership, strategy: AllocateStrategy | None) -> TopicAssignment | None:
    """Return a topic's queues and which of them are assigned to this member: all if there is no strategy.

    Return None if no server reports the route or the members. Raise what the strategy raises.
    """
    queues = membership.queues(topic)
    if queues is None:
        return None
    if strategy is None:
        return TopicAssignment(queues, queues)
    members = membership.members(topic)
    if members is None:
        return None
    return TopicAssignment(queues, strategy.allocate(membership.client_id, queues, members), members)


class QueueHandover:
    """Takes queues for a member and gives them up, with their positions and locks. Only the timer loop may call it."""

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
        """None unless messages are consumed in order."""
        self._orderly = orderly
        self._clock = clock
        self._unlock_delay_s = unlock_delay_s

    def lock(self, queues: list[MessageQueue]) -> list[MessageQueue]:
        """Lock queues at their brokers and return those whose lock was granted; return all if no locks are needed."""
        if self._locks is None:
            return queues
        try:
            granted = self._locks.take_all(queues)
        except RocketMQError as error:
            _log.warning("could not lock queues, trying again in the next round: %s", error)
            return []
        return [queue for queue in queues if queue in granted]

    def take(self, queue: MessageQueue, unreachable: UnreachableBrokers) -> Assigned | None:
        """Add a queue to the table of held queues, to be read from the group's position on.

        Return the queue's new state. If its broker cannot report where to begin, return None and add nothing.
        """
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
        """Persist a queue's position, release its lock, and remove it from the table of held queues; return True.

        If a listener is still at work on the queue and needs the lock, only persist the position and return False.
        """
        unreachable = unreachable or UnreachableBrokers()
        self._store.persist(assigned.queue, unreachable)
        if self._locks and not self._unlock(assigned, self._locks, unreachable):
            return False
        self._store.progress.forget(assigned.queue)
        self._table.remove(assigned)
        return True

    def _unlock(self, assigned: Assigned, locks: QueueLocks, unreachable: UnreachableBrokers) -> bool:
        """Persist a queue's position and release its lock; return True.

        If the listener is still at work after a short wait, return False, unless the lock was last renewed more than
        `unlock_delay_s` ago.
        """
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
    """Takes and gives up queues until the member holds those that the strategy assigns.

    Only the timer loop may call it.
    """

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
        """None for broadcasting: every member holds all queues."""
        self._table = table
        self._handover = handover
        self._dispatch = dispatch
        """Called with a queue that was taken and a delay, after which pulling begins."""
        self._changed = changed
        """Called with a topic and its assignment when this member has taken or lost queues of the topic."""
        self._wake_later = wake_later
        self._rhythm = rhythm
        self._pauses = Backoff(first_s=rhythm.rebalance_soonest_s, longest_s=rhythm.rebalance_s)
        self._unknown_rounds: Counter[str] = Counter()
        """For each topic, the number of consecutive rounds in which no server reported its route or its members."""

    def run_round(self) -> bool:
        """Rebalance every topic; return False if some queues are still to be taken or given up."""
        topics, unreachable = list(self._membership.subscriptions), UnreachableBrokers()
        settled = [self._settle_topic(topic, unreachable) for topic in topics]
        dropped = {queue.topic for queue in self._table.queues()} - set(topics)
        settled += [self._drop_topic(topic, unreachable) for topic in sorted(dropped)]
        return all(settled)

    def _drop_topic(self, topic: str, unreachable: UnreachableBrokers) -> bool:
        """Give up the queues of a topic that was unsubscribed from; return whether all of them were given up.

        A queue whose listener is still at work is given up in a later round.
        """
        lost = [self._lose(assigned, unreachable) for assigned in self._table.all(topic)]
        if any(lost):
            self._changed(topic, TopicAssignment(self._membership.queues(topic) or (), ()))
        return all(lost)

    def _settle_topic(self, topic: str, unreachable: UnreachableBrokers) -> bool:
        try:
            assignment = assign_topic(topic, self._membership, self._strategy)
        except RocketMQError as error:
            _log.warning("could not rebalance %s, keeping its queues: %s", topic, error)
            return False
        if assignment is None:
            self._retry_unknown(topic)
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

    def _retry_unknown(self, topic: str) -> None:
        """Plan the next round of rebalancing, because no server reports this topic's route or members.

        The first such round comes soon, later ones after growing pauses, as long as the topic stays unknown.
        """
        self._wake_later(self._pauses.delay_s(self._unknown_rounds[topic]))
        self._unknown_rounds[topic] += 1

    def _surplus(self, topic: str, own_queues: Sequence[MessageQueue]) -> list[Assigned]:
        """Return held queues to give up: those assigned to others, dropped ones, and those not pulled for too long.

        The last two kinds are taken again in the same round if they are still assigned to this member.
        """
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
        # Random order, so that one slow broker does not delay the same other queues in every round.
        taken = [self._handover.take(queue, unreachable) for queue in Random().sample(free, len(free))]
        return [assigned for assigned in taken if assigned]


class Rounds:
    """Plans the rounds of rebalancing on the timer loop."""

    def __init__(self, run_round: Callable[[], bool], loop: Loop, clock: Clock, rhythm: Rhythm) -> None:
        self._run_round = run_round
        self._loop = loop
        self._clock = clock
        self._rhythm = rhythm
        self._due: float | None = None
        self._ended = clock.now_s() - rhythm.rebalance_soonest_s

    def wake(self) -> None:
        """Plan a round of rebalancing as early as the shortest pause between rounds allows. Any thread may call it."""
        self.wake_later(0.0)

    def wake_later(self, delay_s: float) -> None:
        """Plan a round of rebalancing after a delay, unless an earlier one is planned. Any thread may call this."""
        self._loop.call_soon(lambda: self._plan(self._clock.now_s() + delay_s))

    def _plan(self, due: float) -> None:
        due = max(due, self._ended + self._rhythm.rebalance_soonest_s)
        if self._due is None or due < self._due:
            self._due = due
            self._loop.call_later(due - self._clock.now_s(), lambda: self._tick(due))

    def _tick(self, due: float) -> None:
        if due != self._due:
            return  # An earlier round was planned later and has replaced this one.
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
