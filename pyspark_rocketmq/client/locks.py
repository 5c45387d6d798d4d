"""Hold the brokers' locks of queues that are consumed in order.

A broker's lock of a queue expires after 60 seconds unless its client renews it. Clients renew every 20 seconds, and do
not trust a lock whose last renewal was more than 30 seconds ago. So a client stops consuming before the broker can give
the lock to another client.
"""

from __future__ import annotations

import logging
import threading
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
    """Takes, renews and releases the brokers' locks of the queues that one member holds. Any thread may use it."""

    def __init__(self, groups: Groups, group: str, client_id: str, table: AssignmentTable, clock: Clock) -> None:
        self._groups = groups
        self._group = group
        self._client_id = client_id
        self._table = table
        self._clock = clock
        self._asking = threading.Lock()
        """Held during renewals and releases, so that no renewal locks a queue again that was just released."""
        self.last = Locked(frozenset(), frozenset(), {})
        """The result of the last lock request: granted queues, refused queues, and errors by broker."""

    def take(self, queue: MessageQueue) -> bool:
        """Lock a queue or renew its lock; return whether the broker granted it, or False if the queue was given up."""
        with self._asking:
            assigned = self._table.get(queue)
            return assigned is not None and not assigned.is_lost() and self._renew([queue], assigned) == {queue}

    def take_all(self, queues: Collection[MessageQueue]) -> frozenset[MessageQueue]:
        """Lock queues that are not held yet, with one request to each broker; return those whose lock was granted."""
        return self._renew(list(queues)) if queues else frozenset()

    def renew_all(self) -> None:
        """Renew the locks of all held queues that were not dropped."""
        with self._asking:
            held = [assigned for assigned in self._table.all() if not assigned.is_lost()]
            if held:
                self._renew([assigned.queue for assigned in held], *held)

    def release(self, queues: Iterable[MessageQueue]) -> None:
        """Release the locks of these queues, without waiting for responses."""
        wanted = list(queues)
        try:
            if wanted:
                with self._asking:
                    self._groups.unlock_oneway(self._group, self._client_id, wanted, Deadline.after(LOCK_TIMEOUT_S))
        except RocketMQError as error:
            self._warn_locked(error)

    def close(self, timeout_s: float) -> None:
        """Drop all held queues, release their locks, and wait for the responses at most `timeout_s`."""
        with self._asking:
            given_up = self._table.all()
            for assigned in given_up:
                assigned.process_queue.dropped = True
            queues = [assigned.queue for assigned in given_up]
            try:
                self._groups.unlock(self._group, self._client_id, queues, Deadline.after(timeout_s))
            except RocketMQError as error:
                self._warn_locked(error)

    def _renew(self, queues: list[MessageQueue], *held: Assigned | None) -> frozenset[MessageQueue]:
        """Ask brokers to lock queues or renew their locks, and return the queues whose lock was granted.

        `held` are the states of queues that the member holds already; the broker's answer is stored in each. If a
        broker does not respond, queues that were locked there still count as locked, until their locks expire.
        """
        locked = self.last = self._groups.lock(self._group, self._client_id, queues, Deadline.after(LOCK_TIMEOUT_S))
        for broker_name, error in locked.unknown.items():
            _log.warning("could not renew locks at %s: %s", broker_name, error)
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
                _log.warning("another client holds the lock of %s now", assigned.queue)
            process_queue.locked = False

    def _warn_locked(self, error: RocketMQError) -> None:
        _log.warning("queues were not unlocked; other members get them when the locks expire: %s", error)
