"""Describe a member for administrators, with the names and units of the Java consumer.

The command `mqadmin consumerStatus` shows this description.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Mapping
from dataclasses import dataclass

from ..cluster.settings import ClusterSettings
from ..model import MessageQueue
from ..pull.process_queue import MEBIBYTE
from ..wire.bodies import ConsumerRunningInfo, ProcessQueueInfo
from .assignment import Assigned, AssignmentTable
from .clock import Clock
from .membership import Membership
from .statistics import Statistics
from .stores import OffsetStore

__all__ = ["STRATEGY_PROPERTY", "RunningInfo"]

CLIENT_VERSION_NAME = "V4_9_8"
STRATEGY_PROPERTY = "allocateMessageQueueStrategy"
"""The property that names the member's strategy; Java's consumers put all their settings into the properties."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningInfo:
    """Describes one member for administrators; each call describes its present state."""

    cluster: ClusterSettings
    membership: Membership
    table: AssignmentTable
    store: OffsetStore
    statistics: Statistics
    clock: Clock
    consume_type: str
    orderly: bool
    thread_count: int
    started_ms: int
    strategy: str | None
    """The name of the strategy that assigns queues to members; None if every member reads all queues."""

    def describe(self, *, with_stacks: bool = False) -> ConsumerRunningInfo:
        """Return the member's state as the body of a response; `with_stacks` adds the stacks of all threads."""
        wrap = self.cluster.namespace.wrap
        subscriptions = self.membership.subscriptions
        return ConsumerRunningInfo(
            properties=self._properties(),
            subscription_set=tuple(subscriptions.values()),
            mq_table={
                assigned.queue._replace(topic=wrap(assigned.queue.topic)): self._queue_info(assigned)
                for assigned in self.table.all()
            },
            mq_pop_table={},
            status_table={wrap(topic): self.statistics.status(topic) for topic in subscriptions},
            user_consumer_info={},
            jstack=_stacks() if with_stacks else None,
        )

    def offsets(self, topic: str) -> Mapping[MessageQueue, int]:
        """Return the positions that the member has in memory for a topic's queues."""
        known = self.store.progress.snapshot()
        return {queue: offset for queue, offset in known.items() if queue.topic == topic}

    def _properties(self) -> dict[str, str]:
        strategy = {STRATEGY_PROPERTY: self.strategy} if self.strategy else {}
        return {
            **strategy,
            "PROP_NAMESERVER_ADDR": ";".join(map(str, self.cluster.name_servers)),
            "PROP_CONSUME_TYPE": self.consume_type,
            "PROP_CLIENT_VERSION": CLIENT_VERSION_NAME,
            "PROP_CONSUMEORDERLY": str(self.orderly).lower(),
            "PROP_THREADPOOL_CORE_SIZE": str(self.thread_count),
            "PROP_CONSUMER_START_TIMESTAMP": str(self.started_ms),
        }

    def _queue_info(self, assigned: Assigned) -> ProcessQueueInfo:
        queue = assigned.process_queue
        first, taken = queue.first(), queue.taken_offsets or [0]
        smallest = first.offset if first else 0
        return ProcessQueueInfo(
            commit_offset=self.store.progress.get(assigned.queue) or 0,
            cached_msg_min_offset=smallest,
            cached_msg_max_offset=smallest + queue.max_span,
            cached_msg_count=queue.message_count,
            cached_msg_size_in_mib=queue.body_bytes // MEBIBYTE,
            transaction_msg_min_offset=taken[0],
            transaction_msg_max_offset=taken[-1],
            transaction_msg_count=len(queue.taken_offsets),
            locked=queue.locked,
            try_unlock_times=assigned.unlock_attempts,
            last_lock_timestamp=self._wall_ms(queue.last_lock_s),
            droped=queue.dropped,
            last_pull_timestamp=self._wall_ms(queue.last_pull_s),
            last_consume_timestamp=self._wall_ms(queue.last_consume_s),
        )

    def _wall_ms(self, moment_s: float) -> int:
        return self.clock.wall_ms() - int(1000 * (self.clock.now_s() - moment_s))


def _stacks() -> str:
    """Return the names and stacks of all threads as text."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = []
    for ident, frame in sys._current_frames().items():
        parts.append(f"{names.get(ident, ident)}\n{''.join(traceback.format_stack(frame))}")
    return "\n".join(parts)
