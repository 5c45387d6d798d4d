"""What do brokers say about offsets, in the words of the room `offsets`?

Bounds are remembered for a moment: an idle query plans about a hundred times a second, and brokers are asked at most
ten times in it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping

from ..cluster.cluster import Cluster
from ..model import MessageQueue
from ..offsets.loss import Bounds

__all__ = ["BOUNDS_LIFETIME_S", "BrokerView"]

BOUNDS_LIFETIME_S = 0.1


class BrokerView:
    """Answers the questions of `offsets.resolve`."""

    def __init__(self, cluster: Cluster, group: str | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._cluster = cluster
        self._group = group
        self._clock = clock
        self._known: dict[MessageQueue, Bounds] = {}
        self._fetched_at = float("-inf")

    @property
    def last_known(self) -> Mapping[MessageQueue, Bounds]:
        """The bounds that were fetched last."""
        return self._known

    def fetch_bounds(self, queues: Collection[MessageQueue]) -> Mapping[MessageQueue, Bounds]:
        """Smallest and next offset of each queue, as of at most a moment ago."""
        fresh = self._clock() - self._fetched_at < BOUNDS_LIFETIME_S
        if not (fresh and self._known.keys() >= set(queues)):
            found = self._cluster.offsets.fetch_bounds(queues)
            self._known = {queue: Bounds(*bounds) for queue, bounds in found.items()}
            self._fetched_at = self._clock()
        return {queue: self._known[queue] for queue in queues}

    def fetch_offsets_at(self, times_ms: Mapping[MessageQueue, int]) -> Mapping[MessageQueue, int]:
        """Offset of the first message stored at or after each queue's time; the next offset if there is none."""
        return self._cluster.offsets.fetch_first_since(times_ms)

    def fetch_committed(self, queues: Collection[MessageQueue]) -> Mapping[MessageQueue, int]:
        """The group's position in each queue that has one."""
        return self._cluster.offsets.fetch_committed(self._group, queues) if self._group else {}
