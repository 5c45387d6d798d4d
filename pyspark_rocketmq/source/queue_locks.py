"""Hold the brokers' locks of the queues that a query reads in order.

These are the locks that orderly consumers of RocketMQ take. They keep out other queries that take locks, and orderly
consumers of the group, but not concurrent consumers. The planner asks for the locks of the queues that it may read. A
thread renews them as long as the query lives, also while a batch runs. A lock that could not be renewed counts as live
for a time that ends before the broker's lease does.

A queue without a live lock is not read: a new batch leaves the queue's position as it is. A batch that is already
planned waits for the lock, up to a timeout; so does a run of availableNow that has not read the queue to its target.
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
from .rhythm import PlannerRhythm

__all__ = ["LockKeeper"]

_CLOSING_S = 1.0
_RELEASE_S = 3.0
_SHARE = "end the other query or orderly consumer, take a group of its own, or set lockQueues=false"
_LOOK = "look at the warnings before this: the brokers' masters must be reachable, and allow the group"
_log = logging.getLogger(__name__)


class LockKeeper:
    """The locks of one query. Only the planning thread calls it; a thread of its own renews the locks."""

    def __init__(
        self, cluster: Cluster, group: str, client_id: str, settings: LockSettings, rhythm: PlannerRhythm
    ) -> None:
        self.client_id = client_id
        self._cluster = cluster
        self._group = group
        self._settings = settings
        self._rhythm = rhythm
        self._clock: Clock = SystemClock()
        self._table = AssignmentTable()
        self._locks = QueueLocks(cluster.groups, group, client_id, self._table, self._clock)
        self._retry_due_s = self._warning_due_s = float("-inf")
        self._loop = Loop(f"locks {group}", self._clock)
        self._loop.repeat(settings.interval_s, settings.interval_s, self._locks.renew_all)
        self._loop.start()

    def __repr__(self) -> str:
        return f"<LockKeeper {self.client_id}, {len(self._live())} of {len(self._table)} queues>"

    def hold(self, queues: Collection[MessageQueue]) -> set[MessageQueue]:
        """Ask for the locks of these queues, release all others, and return those of the queues that are locked now."""
        self._release(assigned for assigned in self._table.all() if assigned.queue not in queues)
        self._request(queues)
        held = self._live().intersection(queues)
        self._warn([queue for queue in queues if queue not in held])
        return held

    def require(self, queues: Collection[MessageQueue]) -> None:
        """Wait until the locks of all these queues are live; raise `LockRefused` after `lock_timeout_s`."""
        deadline = Deadline.after(self._rhythm.lock_timeout_s)
        self._request(queues)
        while missing := sort_queues(set(queues) - self._live()):
            self.wait(missing, deadline)
            self._request(queues)

    def wait(self, missing: Collection[MessageQueue], deadline: Deadline) -> None:
        """Sleep until the next request for these missing locks is due; raise `LockRefused` after the deadline."""
        if deadline.expired:
            raise self._refused(sort_queues(missing))
        self._warn(missing)
        time.sleep(min(self._rhythm.lock_retry_s, deadline.remaining()))

    def close(self) -> None:
        """Stop renewing, release all locks and close all connections."""
        self._loop.stop(_CLOSING_S)
        self._locks.close(_RELEASE_S)
        self._cluster.close()

    # --- requests to brokers -----------------------------------------------------------------------------------------

    def _request(self, queues: Collection[MessageQueue]) -> None:
        """Ask brokers for the locks of new queues, and at intervals for locks that are still missing."""
        known, live = set(self._table.queues()), self._live()
        news = [queue for queue in queues if queue not in known]
        for queue in news:
            self._table.add(Assigned(queue, 0, orderly=True, clock=self._clock.now_s))
        if news or (not live.issuperset(queues) and self._clock.now_s() >= self._retry_due_s):
            self._locks.renew_all()
            self._retry_due_s = self._clock.now_s() + self._rhythm.lock_retry_s

    def _release(self, held: Iterable[Assigned]) -> None:
        released = list(held)
        for assigned in released:
            self._table.remove(assigned)
        self._locks.release(assigned.queue for assigned in released if assigned.process_queue.locked)

    def _live(self) -> set[MessageQueue]:
        return {assigned.queue for assigned in self._table.all() if self._is_live(assigned)}

    def _is_live(self, assigned: Assigned) -> bool:
        lock = assigned.process_queue
        return lock.locked and not lock.is_lock_expired(self._settings.max_live_s)

    # --- warnings and errors -----------------------------------------------------------------------------------------

    def _warn(self, missing: Collection[MessageQueue]) -> None:
        if missing and self._clock.now_s() >= self._warning_due_s:
            self._warning_due_s = self._clock.now_s() + self._rhythm.lock_warning_s
            text = "%d queues wait for their locks, %s: %s ..."
            _log.warning(text, len(missing), self._cause(missing), next(iter(missing)))

    def _cause(self, missing: Collection[MessageQueue]) -> str:
        """Return a text that says why locks are missing: others hold them, or brokers did not answer."""
        last = self._locks.last
        refused_count = len(last.refused.intersection(missing))
        codes = ", ".join(sorted({error.code for error in last.unknown.values()}))
        others = f"which others of group {self._group} hold"
        silent = f"which brokers neither gave nor refused ({codes})"
        if refused_count in (0, len(missing)):
            return others if refused_count else silent
        return f"{refused_count} of {others}, the rest of {silent}"

    def _refused(self, missing: list[MessageQueue]) -> LockRefused:
        first, last, waited_s = missing[0], self._locks.last, self._rhythm.lock_timeout_s
        error = LockRefused(
            f"{len(missing)} queues of the batch have waited {waited_s:g} s for their locks, {self._cause(missing)}",
            advice=_SHARE if last.refused.intersection(missing) else _LOOK,
            group=self._group,
            topic=first.topic,
            broker=first.broker_name,
            queue_id=first.queue_id,
        )
        error.__cause__ = last.unknown.get(first.broker_name)
        return error
