"""Count what brokers hold of the demo's topics, also while some of them are away."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...errors import RocketMQError
from ...model import MessageQueue

if TYPE_CHECKING:
    from ...cluster.cluster import Cluster

__all__ = ["Depths"]


class Depths:
    """The number of messages in each queue, as its broker has told last."""

    def __init__(self, cluster: Cluster, queues: Iterable[MessageQueue]) -> None:
        self._cluster = cluster
        self._ends = dict.fromkeys(queues, 0)
        self.away: tuple[str, ...] = ()
        """The brokers that did not answer at the last count; their queues may hold more."""

    def __repr__(self) -> str:
        return f"<Depths {self._ends}>"

    def count(self) -> None:
        """Ask all brokers for the ends of their queues."""
        away = []
        for name in dict.fromkeys(queue.broker_name for queue in self._ends):
            queues = [queue for queue in self._ends if queue.broker_name == name]
            try:
                bounds = self._cluster.offsets.fetch_bounds(queues)
            except RocketMQError:
                away.append(name)
            else:
                self._ends.update((queue, bounds[queue].max_offset) for queue in queues)
        self.away = tuple(away)

    def total(self, topic: str) -> int:
        """Return the number of messages that a topic has got, as far as brokers have told."""
        return sum(end for queue, end in self._ends.items() if queue.topic == topic)
