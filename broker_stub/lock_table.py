"""Keep the locks of queues that are consumed in order.

A lock gives one queue to one client id of a group, and is a lease: if the client does not renew it for `lease_ms`, any
client of the group can take it. Groups do not affect each other. Locks are lost at a restart. If a client id is
connected twice, both connections are the same owner.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from pyspark_rocketmq.model import MessageQueue

from .clock import Clock

LEASE_MS = 60_000


@dataclass(slots=True)
class _Lock:
    client_id: str
    renewed_ms: float


class LockTable:
    """The queue locks of one broker."""

    def __init__(self, clock: Clock, lease_ms: float = LEASE_MS) -> None:
        self.lease_ms = lease_ms
        self._clock = clock
        self._groups: dict[str, dict[MessageQueue, _Lock]] = defaultdict(dict)

    def lock(self, group: str, queues: Iterable[MessageQueue], client_id: str) -> list[MessageQueue]:
        """Lock for the client those of `queues` that are free, expired or its own already; return these queues."""
        return [queue for queue in queues if self._take(self._groups[group], queue, client_id)]

    def unlock(self, group: str, queues: Iterable[MessageQueue], client_id: str) -> None:
        """Release the client's locks of these queues, expired or not; other clients' locks stay."""
        locks = self._groups[group]
        for queue in queues:
            if queue in locks and locks[queue].client_id == client_id:
                del locks[queue]

    def clear(self) -> None:
        """Release all locks, as a restart does."""
        self._groups.clear()

    def owners(self, group: str) -> dict[MessageQueue, str]:
        """Return the client id that owns each locked queue of a group."""
        return {queue: lock.client_id for queue, lock in self._groups[group].items() if not self._is_expired(lock)}

    def _take(self, locks: dict[MessageQueue, _Lock], queue: MessageQueue, client_id: str) -> bool:
        held_pulls = locks.get(queue)
        if held_pulls and held_pulls.client_id != client_id and not self._is_expired(held_pulls):
            return False
        locks[queue] = _Lock(client_id, self._clock.elapsed_ms())
        return True

    def _is_expired(self, lock: _Lock) -> bool:
        return self._clock.elapsed_ms() - lock.renewed_ms > self.lease_ms
