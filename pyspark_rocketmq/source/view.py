"""What do brokers say about offsets, in the words of the room `offsets`?

Bounds are remembered for a moment: an idle query plans about a hundred times a second, and a broker is asked at most
ten times in it. Brokers are asked topic by topic, so the moment is longer where a broker has several.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping

from ..cluster.cluster import Cluster
from ..model import MessageQueue
from ..offsets.loss import Bounds

__all__ = ["SECONDS_PER_REQUEST", "BrokerView"]

SECONDS_PER_REQUEST = 0.1


class BrokerView:
    """Answers the questions of `offsets.resolve`."""

    def __init__(self, cluster: Cluster, group: str | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._cluster = cluster
        self._group = group
        self._clock = clock
        self._known: dict[MessageQueue, Bounds] = {}
        self._due = float("-inf")

    @property
    def last_known(self) -> Mapping[MessageQueue, Bounds]:
        """The bounds that were fetched last."""
        return self._known

    def fetch_bounds(self, queues: Collection[MessageQueue]) -> Mapping[MessageQueue, Bounds]:
        """Smallest and next offset of each queue, as of at most a moment ago."""
        if self._clock() >= self._due or not self._known.keys() >= set(queues):
            asked_at = self._clock()
            found = self._cluster.offsets.fetch_bounds(queues)
            self._known = {queue: Bounds(*bounds) for queue, bounds in found.items()}
            self._due = asked_at + SECONDS_PER_REQUEST * _request_count(queues)
        return {queue: self._known[queue] for queue in queues}

    def fetch_offsets_at(self, times_ms: Mapping[MessageQueue, int]) -> Mapping[MessageQueue, int]:
        """Offset of the first message stored at or after each queue's time; the next offset if there is none."""
        return self._cluster.offsets.fetch_first_since(times_ms)

    def fetch_committed(self, queues: Collection[MessageQueue]) -> Mapping[MessageQueue, int]:
        """The group's position in each queue that has one."""
        return self._cluster.offsets.fetch_committed(self._group, queues) if self._group else {}


def _request_count(queues: Collection[MessageQueue]) -> int:
    """How many requests the bounds of these queues cost the broker that has most of them."""
    topics = {(queue.broker_name, queue.topic) for queue in queues}
    return max(Counter(broker_name for broker_name, _ in topics).values(), default=1)
