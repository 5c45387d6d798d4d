"""Where does the query stand, how far may the next batch go, and which ranges is it made of?

Lives in the driver as long as the query and is the only one there who asks brokers. Spark tells it with every call
where the query stands, so all it remembers are conveniences: the start it resolved for a query without checkpoint,
the target of availableNow, and when data was last let through.

Invariants: what is below a given `start` is finished (it is acknowledged to the committer, nothing else ever is);
an answer without news is the given start itself; ranges depend on the two offsets alone.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from ..cluster.cluster import Cluster
from ..model import MessageQueue
from ..offsets.loss import Finding, LossWarning, settle_starts
from ..offsets.position import Position, Positions, advance, batch_ranges
from ..offsets.resolve import resolve_start
from ..options.reader_options import ReaderOptions
from ..planning.admission import Limits, admit, clip_to_target
from ..planning.ranges import plan_tasks
from .catalog import QueueCatalog
from .commit import Committer, Publisher, require_free_group
from .losses import LossJournal
from .partition import RangePartition
from .view import BrokerView

__all__ = ["Planner"]

_log = logging.getLogger(__name__)


class Planner:
    """Plans the batches of one query."""

    def __init__(self, cluster: Cluster, options: ReaderOptions, clock: Callable[[], float] = time.monotonic) -> None:
        self._options = options
        self._clock = clock
        self._catalog = QueueCatalog(cluster, options)
        self._view = BrokerView(cluster, options.pull.group, clock)
        self._journal = LossJournal(options.fail_on_data_loss)
        self._committer = self._make_committer(cluster)
        self._pinned: dict[MessageQueue, int] | None = None
        self._target: dict[MessageQueue, int] | None = None
        self._admitted_at = clock()
        self._missing: set[MessageQueue] = set()

    # --- offsets -----------------------------------------------------------------------------------------------------

    def freeze_target(self) -> None:
        """AvailableNow reads to the ends of now and stops."""
        self._target = self._fetch_ends(self._catalog.queues())

    def latest(self, start: Position | None, *, without_caps: bool = False) -> Position:
        """The end of the next batch; the given start if there is nothing new."""
        if start is not None:
            self.acknowledge(start)
        queues = self._catalog.queues()
        starts = self._resolve(queues) if start is None else self._go_on(start, queues)
        ends = self._fetch_ends(queues)
        if self._target is not None:
            ends = clip_to_target(ends, self._target)
            starts = {queue: offset for queue, offset in starts.items() if self._may_start(queue, start)}
        limits = self._limits(without_caps)
        admission = admit(starts, ends, limits, waited_s=self._clock() - self._admitted_at)
        if not admission.held_back:
            self._admitted_at = self._clock()
        return advance(start, starts, admission.ends, self._options.commit.group)

    def last_known_ends(self) -> Position:
        """How far the queues went when they were asked last."""
        return Position({queue: bounds.max_offset for queue, bounds in self._view.last_known.items()})

    def acknowledge(self, position: Position) -> None:
        """Everything before this position is done."""
        if self._committer:
            self._committer.acknowledge(position.next)

    def flush(self, timeout_s: float) -> None:
        """Publish what is acknowledged, as far as that is done in time."""
        if self._committer:
            self._committer.flush(timeout_s)

    # --- ranges ------------------------------------------------------------------------------------------------------

    def partitions(self, start: Position | None, end: Position) -> list[RangePartition]:
        """The tasks of the batch between two offsets."""
        ranges = batch_ranges(start, end)
        settings = self._catalog.plan_settings(list(end.next))
        return [RangePartition(task) for task in plan_tasks(ranges, settings)]

    # --- where a batch starts ----------------------------------------------------------------------------------------

    def _resolve(self, queues: list[MessageQueue]) -> Positions:
        """The start of a query without checkpoint; the same every time it is asked for."""
        if self._pinned is None:
            self._catalog.require_listed(queues)
            settled, outranked = resolve_start(
                self._options.start.wish, queues, self._view, fail_on_data_loss=self._options.fail_on_data_loss
            )
            self._journal.note(settled.warnings)
            for option in outranked:
                _log.warning("%s has no effect: for every queue another option says where to start", option)
            self._pinned = settled.positions
        return {**self._starts_of_new(queues, self._pinned), **self._pinned}

    def _go_on(self, start: Position, queues: list[MessageQueue]) -> Positions:
        """After the last batch, moved where brokers lost messages; new queues begin at their beginning."""
        present = set(queues)
        known = {queue: at for queue, at in start.next.items() if queue in present or self._catalog.covers(queue)}
        bounds = self._view.fetch_bounds(queues)
        settled = settle_starts(known, bounds, fail_on_data_loss=self._options.fail_on_data_loss)
        self._journal.note(self._without_repeats(settled.warnings))
        return {**settled.positions, **self._starts_of_new(queues, known)}

    def _starts_of_new(self, queues: list[MessageQueue], known: Positions) -> dict[MessageQueue, int]:
        new = [queue for queue in queues if queue not in known]
        return {queue: bounds.min_offset for queue, bounds in self._view.fetch_bounds(new).items()} if new else {}

    def _without_repeats(self, warnings: list[LossWarning]) -> list[LossWarning]:
        """A queue that is missing from the route is told of once, until it is back."""
        missing = {warning.queue for warning in warnings if warning.finding is Finding.NOT_IN_ROUTE}
        told, self._missing = self._missing, missing
        return [warning for warning in warnings if warning.queue not in missing & told]

    def _may_start(self, queue: MessageQueue, start: Position | None) -> bool:
        """Under availableNow queues that came later wait for the next run."""
        return (self._target is not None and queue in self._target) or (start is not None and queue in start.next)

    # --- how far it goes ---------------------------------------------------------------------------------------------

    def _fetch_ends(self, queues: list[MessageQueue]) -> dict[MessageQueue, int]:
        return {queue: bounds.max_offset for queue, bounds in self._view.fetch_bounds(queues).items()}

    def _limits(self, without_caps: bool) -> Limits:
        if without_caps:
            return Limits()
        return self._options.limits if self._target is None else self._options.limits.without_floor()

    def _make_committer(self, cluster: Cluster) -> Committer | None:
        commit = self._options.commit
        if commit.group is None:
            return None
        group = commit.group

        def check_group() -> None:
            for topic in sorted({queue.topic for queue in self._catalog.queues()})[:1]:
                require_free_group(cluster, group, topic)

        check_group()
        return Committer(Publisher(cluster, group), check_group, commit.min_interval_s, self._clock)
