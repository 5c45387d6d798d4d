"""Plan the batches of a streaming query: decide where the next one ends, and cut it into ranges.

The planner lives in the driver as long as the query, and nothing else there sends requests to brokers. Spark passes the
query's position with every call. The planner remembers only the start that it resolved for a query without checkpoint,
the target of availableNow, and when data was last admitted. Invariants:

- everything before the `start` that Spark passes is finished, and only finished work is acknowledged;
- if there is nothing new, the end of the plan is the given `start` itself;
- the ranges of a batch depend on its start and end alone;
- a loss is reported only by bounds that were fetched after the position was known.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from ..cluster.cluster import Cluster
from ..errors import OptionError
from ..model import MessageQueue, QueueBounds
from ..net.deadline import Deadline
from ..offsets.position import Position, Positions, advance, batch_ranges
from ..options.reader_options import ReaderOptions
from ..planning.admission import Limits, admit, clip_to_target
from ..planning.ranges import plan_tasks
from .announcing import describe_query
from .catalog import QueueCatalog
from .filters import require_filter
from .losses import LossJournal
from .partition import RangePartition
from .reports import PlannerStatus, measure_lag
from .rhythm import NORMAL, PlannerRhythm
from .roles import StartJudge, Starts, open_role
from .view import make_view

__all__ = ["Planner"]

_log = logging.getLogger(__name__)


class _Plan(NamedTuple):
    """The end of the next batch, and the queues that cannot be read to their target because their locks are missing."""

    end: Position
    blocked: list[MessageQueue]


class Planner:
    """Plans the batches of one query."""

    def __init__(self, cluster: Cluster, options: ReaderOptions, rhythm: PlannerRhythm = NORMAL) -> None:
        self._cluster = cluster
        self._options = options
        self._rhythm = rhythm
        self._catalog = QueueCatalog(cluster, options, rhythm)
        self._view = make_view(cluster, options, rhythm)
        self._journal = LossJournal(options.fail_on_data_loss)
        self._judge = StartJudge(options, self._catalog, self._view, self._journal)
        self.role = open_role(cluster, options, self._judge, rhythm)
        """Chooses queues and starts, and commits, as a query alone in its group or as a member of it."""
        self._judged: Position | None = None
        self._rewound: Positions = MappingProxyType({})
        """The ends of queues that end before their offset in `_judged`."""
        self._planned: Position | None = None
        self._target: Positions | None = None
        self._admitted_at = rhythm.clock()
        self._has_begun = False
        self._has_told = False

    def __repr__(self) -> str:
        aim = "" if self._target is None else f" to a target in {len(self._target)} queues"
        return f"<Planner{aim}, losses {dict(self._journal.counts)}, {self.role!r}>"

    # --- offsets -----------------------------------------------------------------------------------------------------

    def freeze_target(self) -> None:
        """Fetch the present end of each queue that the query reads; a run of availableNow stops at these ends."""
        self._target = _ends(self._judge.fetch_routed_bounds(self.role.choose_queues(self._catalog.queues())))

    def latest(self, start: Position | None, *, is_done: bool = True, without_caps: bool = False) -> Position:
        """Return the end of the next batch, or `start` itself if there is nothing new.

        Also acknowledge `start`, unless `is_done` is false: then work before it may be unfinished. With `without_caps`,
        ignore the limits in the options. A run of availableNow ends when `start` is returned. So if nothing else is
        new, but queues that are not read to their targets lack their locks, wait for these; raise `LockRefused` if
        brokers do not grant them in time.
        """
        deadline = None
        while True:
            starts, ready = self._find_starts(start)
            if is_done and start is not None:
                self.acknowledge(start)
            plan = self._admit(start, starts, ready, without_caps)
            self._tell_start(start, starts)
            if plan.end is not start or not plan.blocked:
                self._planned = plan.end
                return plan.end
            deadline = deadline or Deadline.after(self._rhythm.lock_timeout_s)
            self.role.locks.wait(plan.blocked, deadline)

    def _tell_start(self, start: Position | None, starts: Starts) -> None:
        """Log one line when the start of this run is known."""
        if not self._has_told:
            self._has_told = True
            _log.info("%s", describe_query(self._options, start, starts.positions, starts.bounds))
            self._catalog.warn_of_mismatch()

    def _find_starts(self, start: Position | None) -> tuple[Starts, Collection[MessageQueue]]:
        """Return the start of the next batch, compared with brokers' bounds, and the queues that may be read now."""
        held: Positions = start.next if start else {}
        topics = _topics(held)
        queues = self._catalog.queues(topics)
        self._begin(start, queues)
        self.role.claim(queues)
        self.role.claim(held.keys())
        bounds = self._judge.fetch_routed_bounds(self.role.choose_queues(queues), topics)
        ready = self.role.locks.hold(bounds)
        starts = self.role.choose_starts(start, bounds, ready, queues)
        self._judged, self._rewound = start, starts.rewound
        return starts, ready

    def _admit(
        self, start: Position | None, starts: Starts, ready: Collection[MessageQueue], without_caps: bool
    ) -> _Plan:
        """Return the end of the next batch, within limits and the run's target, and the queues that wait for locks."""
        positions, target = starts.positions, self._target
        ends = {queue: end for queue, end in _ends(starts.bounds).items() if queue in ready}
        blocked: list[MessageQueue] = []
        if target is not None:
            blocked = self._find_blocked(target, starts, ready)
            ends = clip_to_target(ends, target)
            before = start.next if start else {}  # Queues that came later wait for the next run.
            positions = {queue: offset for queue, offset in positions.items() if queue in target or queue in before}
        now = self._rhythm.clock()
        admission = admit(positions, ends, self._limits(without_caps), waited_s=now - self._admitted_at)
        if not admission.held_back:
            self._admitted_at = now
        return _Plan(advance(start, positions, admission.ends, self._options.commit.group, starts.opened), blocked)

    def _find_blocked(self, target: Positions, starts: Starts, ready: Collection[MessageQueue]) -> list[MessageQueue]:
        """Return the queues that wait for their locks and that no member of the group has read to `target` yet."""
        waiting = [queue for queue in starts.bounds if queue in target and queue not in ready]
        short = [queue for queue in waiting if starts.positions.get(queue, 0) < target[queue]]
        return self.role.find_queues_behind(target, short, starts.bounds) if short else []

    def _limits(self, without_caps: bool) -> Limits:
        if without_caps:
            return Limits()
        return self._options.limits if self._target is None else self._options.limits.without_floor()

    @property
    def is_settled(self) -> bool:
        """Whether `latest` would return the same as last time: cached bounds are valid, and no queue came or went.

        Always false with locks and for a member of a group, because locks and owned queues change at any time.
        """
        return not (self.role.needs_each_trigger or self._view.is_due or self._catalog.is_old)

    def acknowledge(self, position: Position) -> None:
        """Commit this position, before which everything is finished; if a queue now ends before it, commit the end."""
        self.role.acknowledge(position.next, self._rewound if position == self._judged else {})

    def finish(self, timeout_s: float) -> None:
        """End the query: try for `timeout_s` to commit what is acknowledged; the next run commits what remains."""
        try:
            self.role.close(timeout_s)
        finally:
            _log.info("%s", self.status())

    # --- reports -----------------------------------------------------------------------------------------------------

    def last_known_ends(self) -> Position:
        """Return the ends of the queues as they were fetched last."""
        return Position(_ends(self._view.last_known))

    def status(self) -> PlannerStatus:
        """Return the query's status after its last planning."""
        return PlannerStatus(
            role=self.role.name,
            group=self._options.commit.group,
            failed_commits=self.role.failed_commits,
            is_commit_refused=self.role.is_commit_refused,
            losses={finding.name: count for finding, count in self._journal.counts.items()},
            **measure_lag(self._planned.next if self._planned else {}, _ends(self._view.last_known)),
        )

    # --- ranges ------------------------------------------------------------------------------------------------------

    def partitions(self, start: Position | None, end: Position) -> list[RangePartition]:
        """Return the tasks of the batch between two positions; wait for the locks of its queues."""
        if not self._has_begun:
            self._begin(end, self._catalog.queues(_topics(end.next)))
            before: Positions = start.next if start else {}
            # An earlier run moved these queues back after a loss, and may have ended before it committed that.
            self.role.note_rewound([queue for queue, at in end.begin.items() if at < before.get(queue, 0)])
        ranges = batch_ranges(start, end)
        self.role.locks.require([each.queue for each in ranges])
        settings = self._catalog.plan_settings(list(end.next))
        return [RangePartition(task) for task in plan_tasks(ranges, settings)]

    # --- at the beginning of a run -----------------------------------------------------------------------------------

    def _begin(self, position: Position | None, queues: list[MessageQueue]) -> None:
        """Check that the query may run, and begin its role in its group, in the first call of a run; then do nothing.

        Raise if the checkpoint belongs to another query, if brokers would ignore the filter, or if a `SoloRole` finds
        live members in its group. A `MemberRole` joins its group.
        """
        if self._has_begun:
            return
        if position is not None:
            self._require_own_checkpoint(position)
        require_filter(self._cluster, self._options.pull, queues)
        self.role.begin(position, queues)
        self._has_begun = True

    def _require_own_checkpoint(self, position: Position) -> None:
        """Raise if the checkpoint has another group, or if none of its queues is read now; warn if only some are."""
        group = self._options.commit.group
        if group and position.group not in (None, group):
            advice = f"set consumerGroup to {position.group}, or use a new checkpoint"
            raise OptionError("consumerGroup", group, f"the checkpoint is of group {position.group}", advice=advice)
        dropped = [queue for queue in position.next if not self._catalog.covers(queue)]
        if dropped and len(dropped) == len(position.next):
            topics = ", ".join(sorted(_topics(dropped)))
            what = f"the checkpoint has only queues of {topics}, which the options do not read"
            raise OptionError("checkpointLocation", None, what, advice="use a new checkpoint, or the old topics")
        if dropped:
            _log.warning("%d queues of the checkpoint are not to be read any more: %s ...", len(dropped), dropped[0])


def _ends(bounds: Mapping[MessageQueue, QueueBounds]) -> dict[MessageQueue, int]:
    return {queue: each.max_offset for queue, each in bounds.items()}


def _topics(queues: Iterable[MessageQueue]) -> set[str]:
    return {queue.topic for queue in queues}
