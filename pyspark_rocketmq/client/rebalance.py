"""Which queues shall be ours, and how do they come and go?

Every member divides the same sorted queues among the same sorted members by the same strategy and keeps its share;
nobody coordinates. A round looks at each topic: what left our share is dropped and handed over, what is new is taken
from the group's position on. A member that cannot look (no route, no list of members) changes nothing.

Rounds come every 20 seconds, a second after one that left something to do, and when somebody says so (`wake`); never
within a second of the last one. After one in which nobody told us of a topic the next comes after a second, too, and
if that goes on, after pauses that grow until they are those of any round.
"""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
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
from .reach import Reach
from .settings import Rhythm
from .starting import Starting
from .stores import OffsetStore

__all__ = ["Division", "QueueListener", "RebalanceParts", "Rebalancer", "Rounds", "divide"]

HAND_OVER_WAIT_S = 0.5
_AFTER_REFUSED_LOCK_S = 0.5

_log = logging.getLogger(__name__)

QueueListener = Callable[[str, Collection[MessageQueue], Collection[MessageQueue]], object]
"""Told of a topic, all its queues and ours when ours have changed."""


class Division(NamedTuple):
    """How one topic is shared out."""

    all_queues: Sequence[MessageQueue]
    share: Sequence[MessageQueue]
    """Those that shall be ours."""


def divide(topic: str, membership: Membership, strategy: AllocateStrategy | None) -> Division | None:
    """Our share of a topic, all of it without a strategy; none if nobody tells us. Raises what the strategy raises."""
    queues = membership.queues(topic)
    if queues is None:
        return None
    if strategy is None:
        return Division(queues, queues)
    members = membership.members(topic)
    if members is None:
        return None
    return Division(queues, strategy.allocate(membership.client_id, queues, members))


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceParts:
    """What a rebalancer works on."""

    membership: Membership
    strategy: AllocateStrategy | None
    """None: every member gets everything."""
    table: AssignmentTable
    store: OffsetStore
    starting: Starting
    locks: QueueLocks | None
    """Only where order matters."""
    orderly: bool
    clock: Clock
    rhythm: Rhythm
    dispatch: Callable[[Assigned], object]
    """Begins to pull a queue that was taken."""
    changed: Callable[[str, Division], object]
    """Told when our share of a topic has changed."""


class Rebalancer:
    """Changes the table of queues until it is our share. For the timer loop alone."""

    def __init__(self, parts: RebalanceParts, wake_later: Callable[[float], object]) -> None:
        self._parts = parts
        self._wake_later = wake_later
        self._patience = Backoff(first_s=parts.rhythm.rebalance_soonest_s, longest_s=parts.rhythm.rebalance_s)
        self._untold: Counter[str] = Counter()
        """In how many rounds nobody has told us of a topic by now."""

    def run_round(self) -> bool:
        """Look at every topic; whether all that we know of is as it should be."""
        topics, reach = list(self._parts.membership.subscriptions), Reach()
        outcomes = [self._settle_topic(topic, reach) for topic in topics]
        for assigned in self._parts.table.all():
            if assigned.queue.topic not in topics:
                assigned.process_queue.dropped = True
                self._parts.table.remove(assigned)
        return all(outcomes)

    def give_up(self, assigned: Assigned, reach: Reach | None = None) -> bool:
        """Write down where we stand in a queue and hand it over; False if its listener is still at work."""
        parts, reach = self._parts, reach or Reach()
        parts.store.persist(assigned.queue, reach)
        if parts.locks and not self._free_in_order(assigned, parts.locks, reach):
            return False
        parts.store.progress.forget(assigned.queue)
        parts.table.remove(assigned)
        return True

    # --- one topic ---------------------------------------------------------------------------------------------------

    def _settle_topic(self, topic: str, reach: Reach) -> bool:
        parts = self._parts
        try:
            division = divide(topic, parts.membership, parts.strategy)
        except RocketMQError as error:
            _log.warning("%s is not divided in this round: %s", topic, error)
            return False
        if division is None:
            self._look_again(topic)
            return True
        del self._untold[topic]
        lost = [self._lose(assigned, reach) for assigned in self._surplus(topic, division.share)]
        gained = self._gain(division.share, reach)
        if any(lost) or gained:
            parts.changed(topic, division)
        for assigned in gained:
            parts.dispatch(assigned)
        held = {assigned.queue for assigned in parts.table.all(topic) if not assigned.process_queue.dropped}
        return held == set(division.share)

    def _look_again(self, topic: str) -> None:
        """Soon at first, but not at brokers' cost for as long as this may last."""
        self._wake_later(self._patience.delay_s(self._untold[topic]))
        self._untold[topic] += 1

    def _surplus(self, topic: str, share: Sequence[MessageQueue]) -> list[Assigned]:
        """What is ours no more, and what nobody pulls any more: that is taken anew."""
        wanted, idle_s = set(share), self._parts.rhythm.pull_max_idle_s
        return [
            assigned
            for assigned in self._parts.table.all(topic)
            if assigned.queue not in wanted
            or assigned.process_queue.dropped
            or assigned.process_queue.is_pull_expired(idle_s)
        ]

    def _lose(self, assigned: Assigned, reach: Reach) -> bool:
        assigned.process_queue.dropped = True
        return self.give_up(assigned, reach)

    def _gain(self, share: Sequence[MessageQueue], reach: Reach) -> list[Assigned]:
        missing = [queue for queue in share if not self._parts.table.get(queue)]
        free = self._lock(missing)
        if len(free) < len(missing):
            self._wake_later(_AFTER_REFUSED_LOCK_S)
        # In any order: a queue that its broker is long in telling of must not keep the same others waiting each round.
        taken = [self._take(queue, reach) for queue in random.sample(free, len(free))]
        return [assigned for assigned in taken if assigned]

    def _lock(self, queues: list[MessageQueue]) -> list[MessageQueue]:
        """Those that may be taken."""
        if self._parts.locks is None:
            return queues
        try:
            ours = self._parts.locks.take_all(queues)
        except RocketMQError as error:
            _log.warning("no locks in this round: %s", error)
            return []
        return [queue for queue in queues if queue in ours]

    def _take(self, queue: MessageQueue, reach: Reach) -> Assigned | None:
        """A queue whose beginning nobody tells is left for the next round."""
        parts = self._parts
        parts.store.progress.forget(queue)
        failing = f"{queue} is not taken in this round"
        start = reach.attempt(queue.broker_name, lambda: parts.starting.find(queue), failing)
        if start is None:
            return None
        assigned = Assigned(queue, start, orderly=parts.orderly, clock=parts.clock.now_s)
        assigned.process_queue.locked = True
        parts.table.add(assigned)
        return assigned

    def _free_in_order(self, assigned: Assigned, locks: QueueLocks, reach: Reach) -> bool:
        """Unlock once the listener has returned, or when the lock was not renewed for too long."""
        process_queue = assigned.process_queue
        overdue = process_queue.is_lock_expired(self._parts.rhythm.unlock_delay_s)
        if not (overdue or process_queue.consume_lock.acquire(timeout=HAND_OVER_WAIT_S)):
            assigned.unlock_attempts += 1
            _log.info("%s is still being consumed, handed over later", assigned.queue)
            return False
        try:
            self._parts.store.persist(assigned.queue, reach)
            process_queue.locked = False
            if reach.covers(assigned.queue.broker_name):
                locks.give_back([assigned.queue])
        finally:
            if not overdue:
                process_queue.consume_lock.release()
        return True


class Rounds:
    """When the rounds take place: a plan on the timer loop."""

    def __init__(self, run_round: Callable[[], bool], loop: Loop, clock: Clock, rhythm: Rhythm) -> None:
        self._run_round = run_round
        self._loop = loop
        self._clock = clock
        self._rhythm = rhythm
        self._due: float | None = None
        self._ended = clock.now_s() - rhythm.rebalance_soonest_s

    def wake(self) -> None:
        """Have a round as soon as may be; for any thread."""
        self.wake_later(0.0)

    def wake_later(self, delay_s: float) -> None:
        """Have a round after a while; for any thread."""
        self._loop.call_soon(lambda: self._plan(self._clock.now_s() + delay_s))

    def _plan(self, due: float) -> None:
        due = max(due, self._ended + self._rhythm.rebalance_soonest_s)
        if self._due is None or due < self._due:
            self._due = due
            self._loop.call_later(due - self._clock.now_s(), lambda: self._tick(due))

    def _tick(self, due: float) -> None:
        if due != self._due:
            return  # An earlier round was planned since, and has taken this one's place.
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
