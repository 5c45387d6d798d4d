"""Keep the table of held queues, and what belongs to each of them.

An `Assigned` is one queue for as long as the member holds it: its process queue, and the offset of its next pull. It is
never used again: a queue that was lost and comes back gets a new one, so threads that still work on the old one see
`process_queue.dropped` and throw their results away.
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
    """One queue while the member holds it."""

    def __init__(self, queue: MessageQueue, next_offset: int, *, orderly: bool, clock: Callable[[], float]) -> None:
        self.queue = queue
        self.process_queue: ProcessQueue[MessageBatch] = ProcessQueue(orderly=orderly, clock=clock)
        self.next_offset = next_offset
        self.started_in_order = False
        """Whether the first pull under the broker's lock has found its offset again."""
        self.suggested_broker_id = 0
        self.is_paused = False
        """Whether the user of a pull consumer has paused the queue."""
        self.backoff: BackoffBudget | None = None
        """The pauses since its broker began to throttle; None while it does not."""
        self.unlock_attempts = 0
        self.pull_template: tuple[SubscriptionData, PullTemplate] | None = None
        """The template of the queue's pulls, and the subscription for which it was written."""

    def is_lost(self) -> bool:
        """Return whether the queue was given up; results of work that still goes on are thrown away."""
        return self.process_queue.dropped

    def __repr__(self) -> str:
        return f"<Assigned {self.queue} next {self.next_offset}, {self.process_queue!r}>"


class AssignmentTable:
    """The queues that a member holds. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_queue: dict[MessageQueue, Assigned] = {}

    def __len__(self) -> int:
        return len(self._by_queue)

    def __repr__(self) -> str:
        return f"<AssignmentTable {', '.join(map(str, self.queues()))}>"

    def get(self, queue: MessageQueue) -> Assigned | None:
        """Return a held queue; None if it is not held."""
        return self._by_queue.get(queue)

    def queues(self, topic: str | None = None) -> list[MessageQueue]:
        """Return the held queues of one topic or of all."""
        return [assigned.queue for assigned in self.all(topic)]

    def all(self, topic: str | None = None) -> list[Assigned]:
        """Return what belongs to the held queues of one topic or of all."""
        with self._lock:
            held = list(self._by_queue.values())
        return [assigned for assigned in held if topic is None or assigned.queue.topic == topic]

    def add(self, assigned: Assigned) -> None:
        """Add a queue."""
        with self._lock:
            self._by_queue[assigned.queue] = assigned

    def replace(self, old: Assigned, new: Assigned) -> bool:
        """Replace a queue in one step; return False if it was given up or replaced before."""
        with self._lock:
            is_held = self._by_queue.get(old.queue) is old
            if is_held:
                self._by_queue[old.queue] = new
            return is_held

    def remove(self, assigned: Assigned) -> None:
        """Remove a queue, unless it was replaced before."""
        with self._lock:
            if self._by_queue.get(assigned.queue) is assigned:
                del self._by_queue[assigned.queue]
