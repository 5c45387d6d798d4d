"""Which queues may be read in order, because their broker lends them to nobody else?

The broker's lock of a queue is what orderly consumers of RocketMQ take: it keeps out other queries that lock, and
orderly consumers of the group, but no concurrent ones. The planner asks for the locks of the queues it may read and
renews them in a thread of its own as long as the query lives, so also while a batch runs. A lock that could not be
renewed is trusted for a while that ends before the broker's own lease does.

A queue without a live lock is not read on: in a new batch it keeps its place, and a batch that was planned waits for
it, but not for ever. So does a run that reads to a target, before it would end short of it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable

from ..client.assignment import Assigned, AssignmentTable
from ..client.clock import Clock, SystemClock
from ..client.locks import QueueLocks
from ..client.loop import Loop
from ..cluster.cluster import Cluster
from ..errors import LockRefused
from ..model import MessageQueue, sort_queues
from ..net.deadline import Deadline
from ..options.reader_options import LockSettings

__all__ = ["LockKeeper"]

ASK_AGAIN_S = 1.0
"""From one attempt to get locks that others hold to the next."""
PATIENCE_S = 60.0
"""How long a planned batch or a target waits for locks: as long as a lock outlives whoever held it."""
TELL_AGAIN_S = 30.0
_CLOSING_S = 1.0
_RELEASE_S = 3.0
_SHARE = "end the other query or orderly consumer, take a group of its own, or set lockQueues=false"
_LOOK = "look at the warnings before this: the brokers' masters must be reachable, and allow the group"
_log = logging.getLogger(__name__)


class LockKeeper:
    """Holds the locks of one query. For the planning thread; renewal has a thread of its own."""

    def __init__(
        self, cluster: Cluster, group: str, client_id: str, settings: LockSettings, clock: Clock | None = None
    ) -> None:
        self.client_id = client_id
        self._cluster = cluster
        self._group = group
        self._settings = settings
        self._clock = clock or SystemClock()
        self._table = AssignmentTable()
        self._locks = QueueLocks(cluster.groups, group, client_id, self._table, self._clock)
        self._ask_again_s = self._tell_again_s = float("-inf")
        self._loop = Loop(f"locks {group}", self._clock)
        self._loop.repeat(settings.interval_s, settings.interval_s, self._locks.renew_all)
        self._loop.start()

    def __repr__(self) -> str:
        return f"<LockKeeper {self.client_id}, {len(self._live())} of {len(self._table)} queues>"

    def hold(self, queues: Collection[MessageQueue]) -> set[MessageQueue]:
        """The queues among these whose locks are alive; those of all others are given back."""
        self._give_back(assigned for assigned in self._table.all() if assigned.queue not in queues)
        self._ask(queues)
        held = self._live().intersection(queues)
        self._tell([queue for queue in queues if queue not in held])
        return held

    def require(self, queues: Collection[MessageQueue]) -> None:
        """Wait until all these locks are alive; raises `LockRefused` when that takes too long."""
        deadline = self.patience()
        self._ask(queues)
        while missing := sort_queues(set(queues) - self._live()):
            self.wait(missing, deadline)
            self._ask(queues)

    def patience(self) -> Deadline:
        """How long to wait from now on for locks that must be had."""
        return Deadline.after(PATIENCE_S)

    def wait(self, missing: Collection[MessageQueue], deadline: Deadline) -> None:
        """Give these locks a moment before they are asked for again; raises `LockRefused` when there is none left."""
        if deadline.expired:
            raise self._refused(sort_queues(missing))
        self._tell(missing)
        time.sleep(min(ASK_AGAIN_S, deadline.remaining()))

    def close(self) -> None:
        """Let others have the queues."""
        self._loop.stop(_CLOSING_S)
        self._locks.close(_RELEASE_S)
        self._cluster.close()

    # --- asking brokers ----------------------------------------------------------------------------------------------

    def _ask(self, queues: Collection[MessageQueue]) -> None:
        """For locks that were never asked for, and again after a while for those that somebody else has."""
        known, live = set(self._table.queues()), self._live()
        news = [queue for queue in queues if queue not in known]
        for queue in news:
            self._table.add(Assigned(queue, 0, orderly=True, clock=self._clock.now_s))
        if news or (not live.issuperset(queues) and self._clock.now_s() >= self._ask_again_s):
            self._locks.renew_all()
            self._ask_again_s = self._clock.now_s() + ASK_AGAIN_S

    def _give_back(self, held: Iterable[Assigned]) -> None:
        given_up = list(held)
        for assigned in given_up:
            self._table.remove(assigned)
        self._locks.give_back(assigned.queue for assigned in given_up if assigned.process_queue.locked)

    def _live(self) -> set[MessageQueue]:
        return {assigned.queue for assigned in self._table.all() if self._is_live(assigned)}

    def _is_live(self, assigned: Assigned) -> bool:
        lock = assigned.process_queue
        return lock.locked and not lock.is_lock_expired(self._settings.max_live_s)

    # --- telling users -----------------------------------------------------------------------------------------------

    def _tell(self, missing: Collection[MessageQueue]) -> None:
        if missing and self._clock.now_s() >= self._tell_again_s:
            self._tell_again_s = self._clock.now_s() + TELL_AGAIN_S
            text = "%d queues wait for their locks, %s: %s ..."
            _log.warning(text, len(missing), self._cause(missing), next(iter(missing)))

    def _cause(self, missing: Collection[MessageQueue]) -> str:
        """Why these locks are missing, as far as brokers say."""
        last = self._locks.last
        refused_count = len(last.refused.intersection(missing))
        codes = ", ".join(sorted({error.code for error in last.unknown.values()}))
        others = f"which others of group {self._group} hold"
        unheard = f"which brokers neither gave nor refused ({codes})"
        if refused_count in (0, len(missing)):
            return others if refused_count else unheard
        return f"{refused_count} of {others}, the rest of {unheard}"

    def _refused(self, missing: list[MessageQueue]) -> LockRefused:
        first, last = missing[0], self._locks.last
        error = LockRefused(
            f"{len(missing)} queues of the batch have waited {PATIENCE_S:g} s for their locks, {self._cause(missing)}",
            advice=_SHARE if last.refused.intersection(missing) else _LOOK,
            group=self._group,
            topic=first.topic,
            broker=first.broker_name,
            queue_id=first.queue_id,
        )
        error.__cause__ = last.unknown.get(first.broker_name)
        return error
