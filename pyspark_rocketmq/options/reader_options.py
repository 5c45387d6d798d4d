"""Hold all settings of a reader, or of a helper function.

Each settings object is frozen and can be pickled, and consists of the settings of the rooms below. A reader's settings
are sent from the driver to the executors.
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
from ..planning.listed_queues import ListedQueues
from ..planning.ranges import PlanSettings
from ..pull.settings import PullSettings, Subscription

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
    """The topics or queues to read: topics by name or pattern, or listed queues; perhaps also the retry topic."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assignment: ListedQueues | None = None
    retry_topic: str | None = None

    def takes_topic(self, topic: str) -> bool:
        """Return whether a topic, or some queue of it, may be read."""
        if topic == self.retry_topic:
            return True
        if self.assignment:
            return topic in self.assignment.topics
        return topic in self.topics if self.pattern is None else re.fullmatch(self.pattern, topic) is not None

    def takes(self, queue: MessageQueue) -> bool:
        """Return whether a queue is read."""
        if self.assignment and queue.topic != self.retry_topic:
            return bool(self.assignment.select([queue]))
        return self.takes_topic(queue.topic)


@dataclass(frozen=True, slots=True)
class ClientName:
    """The parts of a client id that distinguish this reader from others on the same host."""

    instance_name: str | None = None
    unit_name: str = ""


@dataclass(frozen=True, slots=True)
class CommitSettings:
    """The group whose positions are committed at brokers, if any, and how often."""

    group: str | None = None
    min_interval_s: float = 0.0


@dataclass(frozen=True, slots=True)
class LocalSettings:
    """Settings of the local files that hold the positions of a group with `messageModel=BROADCASTING`."""

    directory: Path
    group: str
    publishes: bool = True
    """Whether positions of finished batches are written; if not, stored positions are only read."""


@dataclass(frozen=True, slots=True)
class LockSettings:
    """Settings of the locks that brokers grant for queues."""

    interval_s: float = 20.0
    max_live_s: float = 30.0
    """Age in seconds at which a lock that was not renewed counts as lost."""


@dataclass(frozen=True, slots=True)
class ShareSettings:
    """Settings of a query that is a member of its group."""

    allocation: AllocationSettings = field(default_factory=AllocationSettings)
    """The strategy by which queues are assigned to members."""
    own_list: ListedQueues | None = None
    """For the strategy CONFIG: the queues of this member, as the user listed them."""
    rooms: Mapping[str, str] = field(default_factory=dict)
    """For MACHINE_ROOM_NEARBY: the room of members by pattern of client ids; the first matching pattern decides."""
    heartbeat_s: float = 30.0
    rebalance_s: float = 20.0


@dataclass(frozen=True, slots=True)
class ReaderOptions:
    """All settings of one reader."""

    cluster: ClusterSettings
    selection: Selection
    start: StartSettings
    end: EndSettings = field(default_factory=EndSettings)
    fail_on_data_loss: bool = True
    limits: Limits = field(default_factory=Limits)
    plan: PlanSettings = field(default_factory=PlanSettings)
    queue_lists: tuple[ListedQueues, ...] = ()
    """For the strategy CONFIG: the queues of each slot, as the user listed them."""
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
    """Seconds for which planning repeats requests to silent brokers; None: `cluster.retries` limits them."""
    condition: str = ""
    """The condition of `read_where`, by which a batch read is narrowed; empty: none."""

    @property
    def planning_cluster(self) -> ClusterSettings:
        """Settings with which planning calls brokers: those of `cluster`, with the reader's `wait_for_brokers_s`."""
        return replace(self.cluster, wait_for_brokers_s=self.wait_for_brokers_s)

    def with_tags(self, tags: frozenset[str]) -> ReaderOptions:
        """Return these settings with a filter by tags instead of their own; these settings if there are no tags."""
        if not tags:
            return self
        pull = replace(self.pull, subscription=Subscription("||".join(sorted(tags))))
        return replace(self, pull=pull, content=replace(self.content, tags=tags))

    @property
    def allocation(self) -> AllocationSettings:
        """Settings of the strategy by which queues are assigned to slots (groups of queues, later cut into tasks)."""
        return self.plan.allocation


@dataclass(frozen=True, slots=True)
class HelperOptions:
    """All settings of a helper function."""

    cluster: ClusterSettings
    group: str | None = None
    """The group for which the helper acts, if the options name one."""
    max_reconsume_times: int | None = None
    """Number of redeliveries before a row becomes a dead letter; None: the options do not say."""
    delay_level: int = 0
    """Delay level for rows that are sent back and name no level of their own."""
    dead_letter_topic: str | None = None
    """The topic that `retry.dead_letter` writes to, if the options name one."""

    def require_group(self) -> str:
        """Return the group for which the helper acts; raise `OptionError` if the options name none."""
        if self.group is None:
            advice = "name the reader's group"
            raise OptionError("consumerGroup", None, "not given", advice=advice, code="OPTION_MISSING")
        return self.group

    def require_dead_letter_topic(self) -> str:
        """Return the topic of dead letters; raise `OptionError` if the options name none."""
        if self.dead_letter_topic is None:
            advice = "name the topic that the rows go to"
            raise OptionError("deadLetterTopic", None, "not given", advice=advice, code="OPTION_MISSING")
        return self.dead_letter_topic
