"""Define the settings with which the pull engine reads ranges: subscription, limits, timeouts and retries.

Most names resemble those of the options that set them. The flow limits are those of RocketMQ's own consumers.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ..model import RETRY_PREFIX
from ..net.backoff import Backoff
from .process_queue import FlowLimits

__all__ = ["PullSettings", "Subscription"]


@dataclass(frozen=True, slots=True)
class Subscription:
    """A filter expression, by which a broker selects the messages that it returns."""

    expression: str = "*"
    expression_type: str = "TAG"

    def for_topic(self, topic: str) -> Subscription:
        """Return this subscription for a topic, or one without a filter for a retry topic.

        A filter on a retry topic would drop messages that the group has to process again.
        """
        return Subscription() if topic.startswith(RETRY_PREFIX) else self


@dataclass(frozen=True, slots=True)
class PullSettings:
    """All settings for how ranges are read; which ranges, and from which brokers, is stated elsewhere."""

    group: str = "TOOLS_CONSUMER"
    subscription: Subscription = field(default_factory=Subscription)
    batch_size: int = 32
    depth: int | None = None
    """Pulls in flight, over all queues of a task; None adapts it to the size of responses."""
    limits: FlowLimits = field(default_factory=FlowLimits)
    """The limits beyond which a queue pauses. Bytes are those of message bodies as stored, compressed or not."""
    topic_messages: int | None = None
    """The limit of buffered messages over all queues of a task; if set, it replaces the limit per queue."""
    topic_mib: int | None = None
    """The limit of buffered MiB over all queues of a task; if set, it replaces the limit per queue."""
    orderly: bool = False
    """Whether the rows of a queue stay in order; then the span of buffered offsets is not limited."""
    interval_s: float = 0.0
    """Pause of a queue after a pull that found messages, in seconds; if it is above 0, only one pull is in flight."""
    flow_control_pause_s: float = 0.0
    """Pause of a queue that exceeded a limit, in seconds; at 0 it is pulled as soon as there is room."""
    failure_pause: Backoff = field(default_factory=lambda: Backoff(first_s=1.0, longest_s=30.0))
    pull_timeout_s: float = 10.0
    max_retries: int = 5
    stall_timeout_s: float = 120.0
    """The time without progress after which a task fails, in seconds."""
    follow_suggestions: bool = True
    """Whether to read from a replica when the broker suggests it, or when the master is gone."""

    def for_queues(self, queue_count: int) -> PullSettings:
        """Return the settings for each queue of a task that reads `queue_count` queues.

        The limits per topic are divided by this number.
        """
        return replace(self, limits=self.limits.divided(self.topic_messages, self.topic_mib, max(1, queue_count)))
