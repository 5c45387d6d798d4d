"""What does a reader, or a helper function, need to know once all options are understood?

One frozen, picklable value each, made of the settings of the rooms below. A reader's crosses from the driver to the
executors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..allocation import AllocationSettings
from ..cluster.settings import ClusterSettings
from ..decode.columns import Content, Layout, default_columns
from ..errors import OptionError
from ..model import MessageQueue
from ..offsets.requested import EndSettings, StartSettings
from ..planning.admission import Limits
from ..planning.assignment import Assignment
from ..planning.ranges import PlanSettings
from ..pull.settings import PullSettings

__all__ = [
    "ClientName",
    "CommitSettings",
    "HelperOptions",
    "LocalSettings",
    "LockSettings",
    "ReaderOptions",
    "Selection",
    "ShareSettings",
]


@dataclass(frozen=True, slots=True)
class Selection:
    """What to read: topics by name, topics by pattern, or listed queues; to read, one of the three has to be given.

    The topic of what the group sent back comes along if that is wanted.
    """

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assignment: Assignment | None = None
    retry_topic: str | None = None

    def takes_topic(self, topic: str) -> bool:
        """Whether some queues of a topic may be read."""
        if topic == self.retry_topic:
            return True
        if self.assignment:
            return topic in self.assignment.topics
        return topic in self.topics if self.pattern is None else re.fullmatch(self.pattern, topic) is not None

    def takes(self, queue: MessageQueue) -> bool:
        """Whether a queue is to be read."""
        if self.assignment and queue.topic != self.retry_topic:
            return bool(self.assignment.select([queue]))
        return self.takes_topic(queue.topic)


@dataclass(frozen=True, slots=True)
class ClientName:
    """What tells this reader's client id from others of its host."""

    instance_name: str | None = None
    unit_name: str = ""


@dataclass(frozen=True, slots=True)
class CommitSettings:
    """Whether and how often positions are published; without a group they are not published at brokers."""

    group: str | None = None
    min_interval_s: float = 0.0


@dataclass(frozen=True, slots=True)
class LocalSettings:
    """Where the positions of a group are kept whose members read everything each."""

    directory: Path
    group: str
    publishes: bool = True
    """Whether what is finished is written down, or positions are only read."""


@dataclass(frozen=True, slots=True)
class LockSettings:
    """How the brokers' locks of the queues that are read are kept."""

    interval_s: float = 20.0
    max_live_s: float = 30.0
    """A lock that was not renewed for so long is not trusted."""


@dataclass(frozen=True, slots=True)
class ShareSettings:
    """How the query is one member of its group."""

    allocation: AllocationSettings = field(default_factory=AllocationSettings)
    """How members divide queues."""
    own_list: Assignment | None = None
    """What CONFIG gives this member."""
    rooms: Mapping[str, str] = field(default_factory=dict)
    """MACHINE_ROOM_NEARBY: room by pattern of client ids; the first that fits counts."""
    heartbeat_s: float = 30.0
    rebalance_s: float = 20.0


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
    local: LocalSettings | None = None
    locks: LockSettings | None = None
    share: ShareSettings | None = None
    client: ClientName = field(default_factory=ClientName)
    wait_for_brokers_s: float | None = 120.0
    """For how long planning asks brokers that do not answer; None: as often as the user said."""

    @property
    def planning_cluster(self) -> ClusterSettings:
        """The cluster for planning, which waits for brokers as long as tasks do."""
        return replace(self.cluster, wait_for_brokers_s=self.wait_for_brokers_s)

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
    max_reconsume_times: int | None = None
    """How often a row is delivered again before it becomes a dead letter, if the options say so."""
    delay_level: int = 0
    """Of rows sent back that have none of their own."""

    def require_group(self) -> str:
        """As whom it acts; refused if the options do not say so."""
        if self.group is None:
            advice = "name the reader's group"
            raise OptionError("consumerGroup", None, "not given", advice=advice, code="OPTION_MISSING")
        return self.group
