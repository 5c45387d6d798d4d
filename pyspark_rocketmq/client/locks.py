"""Which queues may we consume in order?

A broker lends each queue to one client of a group for 60 seconds. We renew every 20 seconds and stop trusting a lock
that was not renewed for 30; so we stop before the broker lends it to somebody else.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable

from ..cluster.groups import Groups, Locked
from ..errors import RocketMQError
from ..model import MessageQueue
from ..net.deadline import Deadline
from .assignment import Assigned, AssignmentTable
from .clock import Clock

__all__ = ["QueueLocks"]

LOCK_TIMEOUT_S = 1.0
_log = logging.getLogger(__name__)


class QueueLocks:
    """The broker's locks of one member's queues."""

    def __init__(self, groups: Groups, group: str, client_id: str, table: AssignmentTable, clock: Clock) -> None:
        self._groups = groups
        self._group = group
        self._client_id = client_id
        self._table = table
        self._clock = clock
        self.last = Locked(frozenset(), frozenset(), {})
        """What brokers said when they were asked last."""

    def take(self, queue: MessageQueue) -> bool:
        """Take or renew one queue's lock; whether we hold it now."""
        return self._renew([queue], self._table.get(queue)) == {queue}

    def take_all(self, queues: Collection[MessageQueue]) -> frozenset[MessageQueue]:
        """Take the locks of queues that are not ours yet, each broker's at once; those that we hold now."""
        return self._renew(list(queues)) if queues else frozenset()

    def renew_all(self) -> None:
        """Renew the locks of all queues that are not given up."""
        held = [assigned.queue for assigned in self._table.all() if not assigned.process_queue.dropped]
        if held:
            self._renew(held, *map(self._table.get, held))

    def give_back(self, queues: Iterable[MessageQueue]) -> None:
        """Tell brokers that others may have these queues."""
        wanted = list(queues)
        try:
            if wanted:
                self._groups.unlock_oneway(self._group, self._client_id, wanted, Deadline.after(LOCK_TIMEOUT_S))
        except RocketMQError as error:
            _log.warning("queues were not unlocked, others get them when the locks expire: %s", error)

    def _renew(self, queues: list[MessageQueue], *held: Assigned | None) -> frozenset[MessageQueue]:
        """A broker that does not answer changes nothing: what it lent expires by itself."""
        locked = self.last = self._groups.lock(self._group, self._client_id, queues, Deadline.after(LOCK_TIMEOUT_S))
        for broker_name, error in locked.unknown.items():
            _log.warning("no lock from %s: %s", broker_name, error)
        for assigned in filter(None, held):
            self._note(assigned, locked.granted, locked.refused)
        return locked.granted

    def _note(self, assigned: Assigned, granted: frozenset[MessageQueue], refused: frozenset[MessageQueue]) -> None:
        process_queue = assigned.process_queue
        if assigned.queue in granted:
            process_queue.locked = True
            process_queue.last_lock_s = self._clock.now_s()
        elif assigned.queue in refused:
            if process_queue.locked:
                _log.warning("the lock of %s is somebody else's now", assigned.queue)
            process_queue.locked = False
