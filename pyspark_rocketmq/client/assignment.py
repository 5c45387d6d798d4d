"""Keep the table of held queues, with the state of each.

An `Assigned` is one queue for as long as the member holds it: its process queue, and the offset of its next pull. If a
queue is lost and comes back, it gets a new `Assigned`. So threads that still work on the old one see that its
`process_queue.dropped` is true, and discard their results.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from ..model import MessageQueue
from ..pull.backoff_budget import BackoffBudget
from ..pull.process_queue import ProcessQueue
from ..pull.remoting import PullTemplate
from ..wire.bodies import SubscriptionData
from .message import MessageBatch

__all__ = ["Assigned", "AssignmentTable"]


class Assigned:
    """The state of one queue while the member holds it."""

    def __init__(self, queue: MessageQueue, next_offset: int, *, orderly: bool, clock: Callable[[], float]) -> None:
        self.queue = queue
        self.process_queue: ProcessQueue[MessageBatch] = ProcessQueue(orderly=orderly, clock=clock)
        self.next_offset = next_offset
        self.started_in_order = False
        """Whether the position was read again after the broker granted the lock; for consumption in order only."""
        self.suggested_broker_id = 0
        self.is_paused = False
        """Whether the user of a pull consumer has paused this queue."""
        self.backoff: BackoffBudget | None = None
        """Gives growing pauses between pulls while the queue's broker throttles; None while it does not."""
        self.unlock_attempts = 0
        self.pull_template: tuple[SubscriptionData, PullTemplate] | None = None
        """The template for header fields of pulls, and the subscription that it was made for."""

    def is_lost(self) -> bool:
        """Return whether the queue was given up, so that results of work still running must be discarded."""
        return self.process_queue.dropped

    def __repr__(self) -> str:
        return f"<Assigned {self.queue} next {self.next_offset}, {self.process_queue!r}>"


class AssignmentTable:
    """The queues that a member holds. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_queue: dict[MessageQueue, Assigned] = {}

    def __len__(self) -> int:
        return len(self._by_queue)

    def __repr__(self) -> str:
        return f"<AssignmentTable {', '.join(map(str, self.queues()))}>"

    def get(self, queue: MessageQueue) -> Assigned | None:
        """Return the state of a queue; None if the queue is not held."""
        return self._by_queue.get(queue)

    def queues(self, topic: str | None = None) -> list[MessageQueue]:
        """Return the held queues of one topic, or of all topics."""
        return [assigned.queue for assigned in self.all(topic)]

    def all(self, topic: str | None = None) -> list[Assigned]:
        """Return the states of the held queues of one topic, or of all topics."""
        with self._lock:
            held = list(self._by_queue.values())
        return [assigned for assigned in held if topic is None or assigned.queue.topic == topic]

    def add(self, assigned: Assigned) -> None:
        """Add a queue that is held now."""
        with self._lock:
            self._by_queue[assigned.queue] = assigned

    def replace(self, old: Assigned, new: Assigned) -> bool:
        """Replace the state of a queue; return False, and change nothing, if `old` is no longer in the table."""
        with self._lock:
            is_held = self._by_queue.get(old.queue) is old
            if is_held:
                self._by_queue[old.queue] = new
            return is_held

    def remove(self, assigned: Assigned) -> None:
        """Remove the queue of this state from the table, unless the table has a newer state of the queue."""
        with self._lock:
            if self._by_queue.get(assigned.queue) is assigned:
                del self._by_queue[assigned.queue]
