"""Decide where a member begins in queues in which neither its group nor its checkpoint has a position.

`startingOffsetsDefault` decides about messages that were stored before the query joined its group. So with `latest`:

- a query without checkpoint joins with its first planning, and notes the end of every queue at that moment, also of
  queues that other members own. A queue that it gains later without a position begins at that end;
- a queue that did not exist at that moment, or that a checkpoint lacks, is new: it begins at its first message;
- a queue that exists when a query joins is still new if another member of the group was started before the queue's
  first message was stored. Members report their start time, brokers the store time; if their clocks differ, so does the
  result of this comparison.

With `earliest` every queue begins at its first message anyway, as queues of the retry topic always do.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from ..cluster.cluster import Cluster
from ..errors import RocketMQError, shown
from ..model import MessageQueue, QueueBounds
from ..net.deadline import Deadline
from ..offsets.position import Position, Positions
from ..offsets.requested import Keyword, RequestedOffsets
from ..offsets.resolve import Resolved, opened_if_late, resolve_offsets
from .view import BrokerView

__all__ = ["Beginnings", "GainedQueues"]

FetchBounds = Callable[[Collection[MessageQueue]], Mapping[MessageQueue, QueueBounds]]
"""Fetches bounds of queues from brokers, without using cached ones."""

_STARTED = "PROP_CONSUMER_START_TIMESTAMP"
_MOST_DIGITS = 19
_TIMEOUT_S = 5.0
_log = logging.getLogger(__name__)


class Beginnings:
    """Finds where a member begins to read in queues in which neither its group nor its checkpoint has a position."""

    def __init__(
        self, cluster: Cluster, view: BrokerView, requested: RequestedOffsets, group: str, client_id: str
    ) -> None:
        self._cluster = cluster
        self._view = view
        self._requested = requested
        self._group = group
        self._client_id = client_id
        self._ends_at_joining: Positions | None = None

    def __repr__(self) -> str:
        return f"<Beginnings of {self._group}, {len(self._ends_at_joining or ())} queues at joining>"

    def note_joining(self, start: Position | None, queues: Collection[MessageQueue]) -> None:
        """Note, in the first call only, the ends that these queues have when the query joins its group.

        Note no ends if there is a checkpoint (`start` is not None): then the query joined in an earlier run.
        """
        if self._ends_at_joining is None:
            bounds = self._view.fetch_bounds(queues) if start is None else {}
            self._ends_at_joining = {queue: each.max_offset for queue, each in bounds.items()}

    def resolve(self, queues: Collection[MessageQueue], bounds: Mapping[MessageQueue, QueueBounds]) -> Resolved:
        """Return the first offset to read in each of these queues, in which the group has no position."""
        ends = self._ends_at_joining or {}
        old = {queue for queue in queues if queue in ends or queue.topic == self._requested.retry_topic}
        old -= set(self._appeared_in_a_living_group(old & ends.keys()))
        seen = {queue: bounds[queue]._replace(max_offset=ends.get(queue, bounds[queue].max_offset)) for queue in old}
        resolved = resolve_offsets(self._requested, seen, seen, self._view)
        new = {queue: bounds[queue] for queue in queues if queue not in old}
        return Resolved(
            {**resolved.positions, **{queue: each.min_offset for queue, each in new.items()}},
            resolved.outranked,
            {**resolved.opened, **opened_if_late(new)},
        )

    def _appeared_in_a_living_group(self, queues: Collection[MessageQueue]) -> list[MessageQueue]:
        """Return the queues whose first message was stored after another member of the group was started.

        Return none unless `startingOffsetsDefault` is `latest`. If brokers cannot tell, log a warning and return none.
        """
        if not queues or self._requested.fallback is not Keyword.LATEST:
            return []
        deadline = Deadline.after(_TIMEOUT_S)
        try:
            started_ms = self._oldest_start_ms(next(iter(queues)).topic, deadline)
            if started_ms is None:
                return []
            times = self._cluster.offsets.fetch_earliest_times(queues, deadline)
        except RocketMQError as error:
            text = "cannot find out whether %d queues are newer than group %s, using startingOffsetsDefault: %s"
            _log.warning(text, len(queues), self._group, error)
            return []
        return [queue for queue, time_ms in times.items() if time_ms > started_ms]

    def _oldest_start_ms(self, topic: str, deadline: Deadline) -> int | None:
        """Return the earliest time at which another member of the group was started; None if no member reports one."""
        members = self._cluster.groups.fetch_members(self._group, topic, deadline)
        starts = [self._start_ms(client_id, deadline) for client_id in members if client_id != self._client_id]
        return min((each for each in starts if each is not None), default=None)

    def _start_ms(self, client_id: str, deadline: Deadline) -> int | None:
        try:
            info = self._cluster.admin.fetch_running_info(self._group, client_id, deadline=deadline)
        except RocketMQError as error:
            text = "member %s of group %s does not report its start time: %s"
            _log.info(text, shown(client_id), self._group, error)
            return None
        started = info.properties.get(_STARTED, "")
        return int(started) if started.isascii() and started.isdigit() and len(started) <= _MOST_DIGITS else None


@dataclass(slots=True)
class GainedQueues:
    """Finds first offsets for gained queues without a position, and gained queues that end before their position.

    A gained queue is one that the member has newly got; its position is the group's or the checkpoint's. One object is
    made for each batch that is planned. Implements `QueueFacts` of `group_positions`.
    """

    beginnings: Beginnings
    bounds: Mapping[MessageQueue, QueueBounds]
    fetch_fresh: FetchBounds
    opened: Positions = field(default_factory=dict)
    """The starts of queues that begin at their first readable message; empty before `first_offsets` is called."""

    def first_offsets(self, queues: Collection[MessageQueue]) -> Positions:
        """Return the first offset to read in each of these queues, in which neither group nor query has a position."""
        resolved = self.beginnings.resolve(queues, self.bounds)
        self.opened = resolved.opened
        return resolved.positions

    def ends_before(self, positions: Positions) -> Positions:
        """Return the end of each queue that ends before its offset in `positions`; ignore ends that replicas report."""
        if all(offset <= self.bounds[queue].max_offset for queue, offset in positions.items()):
            return {}
        fresh = self.fetch_fresh(self.bounds)
        known = {queue: fresh[queue] for queue in positions if queue in fresh and not fresh[queue].from_replica}
        return {queue: each.max_offset for queue, each in known.items() if each.max_offset < positions[queue]}
