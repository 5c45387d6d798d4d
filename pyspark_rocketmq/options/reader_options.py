"""What does a reader, or a helper function, need to know once all options are understood?

One frozen, picklable value each, made of the settings of the rooms below. A reader's crosses from the driver to the
executors.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ..allocation import AllocationSettings
from ..cluster.settings import ClusterSettings
from ..decode.layout import Layout, default_columns
from ..decode.rows import Content
from ..errors import OptionError
from ..model import MessageQueue
from ..offsets.wish import EndSettings, StartSettings
from ..planning.admission import Limits
from ..planning.assignment import Assignment
from ..planning.ranges import PlanSettings
from ..pull.settings import PullSettings

__all__ = ["CommitSettings", "HelperOptions", "ReaderOptions", "Selection"]


@dataclass(frozen=True, slots=True)
class Selection:
    """What to read: topics by name, topics by pattern, or listed queues; to read, one of the three has to be given."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assignment: Assignment | None = None

    def require_some(self) -> None:
        """Refuse to read nothing in particular."""
        if not self.topics and self.pattern is None and self.assignment is None:
            advice = "give exactly one of subscribe, subscribePattern and assign"
            raise OptionError("subscribe", None, "not given", advice=advice, code="OPTION_MISSING")

    def takes_topic(self, topic: str) -> bool:
        """Whether some queues of a topic may be read."""
        if self.assignment:
            return topic in self.assignment.topics
        return topic in self.topics if self.pattern is None else re.fullmatch(self.pattern, topic) is not None

    def takes(self, queue: MessageQueue) -> bool:
        """Whether a queue is to be read."""
        return bool(self.assignment.select([queue])) if self.assignment else self.takes_topic(queue.topic)


@dataclass(frozen=True, slots=True)
class CommitSettings:
    """Whether and how often positions are published; without a group they are not."""

    group: str | None = None
    min_interval_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ReaderOptions:
    """Everything about one reader."""

    cluster: ClusterSettings
    selection: Selection
    start: StartSettings
    end: EndSettings = field(default_factory=EndSettings)
    fail_on_data_loss: bool = True
    limits: Limits = field(default_factory=Limits)
    plan: PlanSettings = field(default_factory=PlanSettings)
    queue_lists: tuple[Assignment, ...] = ()
    """The slots of CONFIG as the user wrote them."""
    pull: PullSettings = field(default_factory=PullSettings)
    rows_per_batch: int = 10_000
    columns: tuple[str, ...] = default_columns(Layout.ROCKETMQ)
    content: Content = field(default_factory=Content)
    commit: CommitSettings = field(default_factory=CommitSettings)

    @property
    def allocation(self) -> AllocationSettings:
        """How queues are dealt to slots."""
        return self.plan.allocation


@dataclass(frozen=True, slots=True)
class HelperOptions:
    """Everything about a helper function."""

    cluster: ClusterSettings
    group: str | None = None
    """As whom it acts, if the options say so."""
