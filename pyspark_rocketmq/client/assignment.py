"""Which queues are ours now, and what goes with each of them?

An `Assigned` is one queue for as long as we hold it: its process queue, and where its next pull begins. It is never
used again: a queue that was lost and comes back gets a new one, so whoever still works on the old one sees
`process_queue.dropped` and throws its result away.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from ..model import MessageQueue
from ..pull.backoff_budget import BackoffBudget
from ..pull.process_queue import ProcessQueue
from ..wire.bodies import SubscriptionData
from .message import MessageBatch

__all__ = ["Assigned", "AssignmentTable"]


class Assigned:
    """One queue while it is ours."""

    def __init__(self, queue: MessageQueue, next_offset: int, *, orderly: bool, clock: Callable[[], float]) -> None:
        self.queue = queue
        self.process_queue: ProcessQueue[MessageBatch] = ProcessQueue(orderly=orderly, clock=clock)
        self.next_offset = next_offset
        self.started_in_order = False
        """Whether the first pull under the broker's lock asked again where to begin."""
        self.suggested_broker_id = 0
        self.is_paused = False
        """Whether its consumer wants no more for the time being (pull consumers)."""
        self.patience: BackoffBudget | None = None
        """How long its broker has been putting us off."""
        self.unlock_attempts = 0
        self.pull_template: tuple[SubscriptionData, dict[str, str]] | None = None
        """What all pulls of the queue say, and the subscription for which they say it."""

    def is_lost(self) -> bool:
        """Whether the queue was given up: whatever is still done on it is thrown away."""
        return self.process_queue.dropped

    def __repr__(self) -> str:
        return f"<Assigned {self.queue} next {self.next_offset}, {self.process_queue!r}>"


class AssignmentTable:
    """The queues that are ours."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_queue: dict[MessageQueue, Assigned] = {}

    def __len__(self) -> int:
        return len(self._by_queue)

    def __repr__(self) -> str:
        return f"<AssignmentTable {', '.join(map(str, self.queues()))}>"

    def get(self, queue: MessageQueue) -> Assigned | None:
        """A queue of ours."""
        return self._by_queue.get(queue)

    def queues(self, topic: str | None = None) -> list[MessageQueue]:
        """The queues that are ours, of one topic or of all."""
        return [assigned.queue for assigned in self.all(topic)]

    def all(self, topic: str | None = None) -> list[Assigned]:
        """Everything that is ours, of one topic or of all."""
        with self._lock:
            held = list(self._by_queue.values())
        return [assigned for assigned in held if topic is None or assigned.queue.topic == topic]

    def add(self, assigned: Assigned) -> None:
        """Take a queue."""
        with self._lock:
            self._by_queue[assigned.queue] = assigned

    def replace(self, old: Assigned, new: Assigned) -> bool:
        """Take a queue anew in one step; False if it has been given up or taken anew already."""
        with self._lock:
            ours = self._by_queue.get(old.queue) is old
            if ours:
                self._by_queue[old.queue] = new
            return ours

    def remove(self, assigned: Assigned) -> None:
        """Give a queue up, unless it has been taken anew already."""
        with self._lock:
            if self._by_queue.get(assigned.queue) is assigned:
                del self._by_queue[assigned.queue]
