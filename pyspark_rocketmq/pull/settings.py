"""How eagerly, and how patiently, is a range read?

Names follow the options of the same purpose; the limits are RocketMQ's.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ..model import RETRY_PREFIX
from ..net.backoff import Backoff
from .process_queue import FlowLimits

__all__ = ["PullSettings", "Subscription"]


@dataclass(frozen=True, slots=True)
class Subscription:
    """Which messages of a topic the broker shall send."""

    expression: str = "*"
    expression_type: str = "TAG"

    def for_topic(self, topic: str) -> Subscription:
        """What holds for one topic: retries are never filtered, or they would be lost to their group."""
        return Subscription() if topic.startswith(RETRY_PREFIX) else self


@dataclass(frozen=True, slots=True)
class PullSettings:
    """Everything about reading but whom to ask."""

    group: str = "TOOLS_CONSUMER"
    subscription: Subscription = field(default_factory=Subscription)
    batch_size: int = 32
    depth: int | None = None
    """Pulls in flight, over all queues of a task; None leaves it to the window."""
    limits: FlowLimits = field(default_factory=FlowLimits)
    """When a queue's pulls pause. Sizes are those of stored records, a little more than their bodies."""
    topic_messages: int | None = None
    """Replaces the limit of messages per queue: so many are shared by all queues of a task."""
    topic_mib: int | None = None
    """Replaces the limit of MiB per queue in the same way."""
    orderly: bool = False
    """Whether rows of a queue stay in order; then the span is not limited."""
    interval_s: float = 0.0
    """Pause of a queue after a pull that found messages; above 0 the queue has one pull in flight."""
    flow_control_pause_s: float = 0.0
    """After how long a queue that hit a limit is tested again; 0 as soon as there is room."""
    failure_pause: Backoff = field(default_factory=lambda: Backoff(first_s=1.0, longest_s=30.0))
    pull_timeout_s: float = 10.0
    max_retries: int = 5
    stall_timeout_s: float = 120.0
    """A task that gets nowhere for so long fails."""
    follow_suggestions: bool = True
    """Whether to read from a replica when the broker suggests it, or when the master is gone."""

    def for_queues(self, queue_count: int) -> PullSettings:
        """What holds for each queue of a task that reads so many."""
        return replace(self, limits=self.limits.divided(self.topic_messages, self.topic_mib, max(1, queue_count)))
