"""Where does the query stand, how far may the next batch go, and which ranges is it made of?

Lives in the driver as long as the query and is the only one there who asks brokers. Spark tells it with every call
where the query stands, so all it remembers are conveniences: the start it resolved for a query without checkpoint,
the target of availableNow, and when data was last let through.

Invariants: what is below a given `start` is finished (it is acknowledged to the committer once it is judged by what
brokers hold; nothing else ever is);
an answer without news is the given start itself; ranges depend on the two offsets alone; messages are said to be gone
only by bounds that were asked for after the position was known.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from ..cluster.cluster import Cluster, open_cluster
from ..errors import OptionError, QueueMoved, TopicNotFound
from ..model import Finding, MessageQueue, QueueBounds, sort_queues
from ..offsets.loss import RULES, LossWarning, Settled, settle_starts
from ..offsets.position import Position, Positions, advance, batch_ranges
from ..offsets.resolve import opened_if_late, resolve_offsets
from ..options.reader_options import ReaderOptions
from ..planning.admission import Limits, admit, clip_to_target
from ..planning.ranges import plan_tasks
from .catalog import QueueCatalog
from .commit import Committer, GroupGuard, Publisher
from .filters import require_filter
from .losses import LossJournal
from .partition import RangePartition
from .parts import make_view, open_beginnings, open_claims, open_local_positions, open_locks, open_share

if TYPE_CHECKING:
    from .beginnings import Beginnings
    from .share import Share

__all__ = ["Planner"]

_log = logging.getLogger(__name__)


class _Starts(NamedTuple):
    """Where a batch starts in each queue, and the bounds by which that was judged."""

    positions: Positions
    bounds: Mapping[MessageQueue, QueueBounds]
    fallen: Positions = MappingProxyType({})
    """Those of the positions that are smaller than before, since their queues end there."""
    opened: Positions = MappingProxyType({})
    """Those of the positions that are the first readable messages of queues of which nothing was read yet."""


class _Plan(NamedTuple):
    """The end of the next batch, and the queues that cannot get to their target for want of a lock."""

    end: Position
    locked_out: list[MessageQueue]


class Planner:
    """Plans the batches of one query."""

    def __init__(self, cluster: Cluster, options: ReaderOptions, clock: Callable[[], float] = time.monotonic) -> None:
        self._cluster = cluster
        self._options = options
        self._clock = clock
        self._catalog = QueueCatalog(cluster, options, clock)
        self._view = make_view(cluster, options, clock)
        self._journal = LossJournal(options.fail_on_data_loss)
        self._guard: GroupGuard | None = None
        self.committer: Committer | None = None
        """Publishes what is finished, if that is wanted."""
        self.share = open_share(options)
        if self.share is None:
            self._open_publishing()
        self._beginnings = open_beginnings(cluster, self._view, options, self.share)
        self.locks = open_locks(options, self.share)
        self._claims = open_claims(options)
        self._pinned: _Starts | None = None
        self._judged: Position | None = None
        self._fallen: Positions = MappingProxyType({})
        """Where queues end that were found to end before the judged position."""
        self._target: Positions | None = None
        self._admitted_at = clock()
        self._missing: set[MessageQueue] = set()
        self._unknown: set[MessageQueue] = set()
        """New queues that wait for a master to tell where they begin."""
        self._has_begun = False

    def __repr__(self) -> str:
        aim = "" if self._target is None else f" to a target in {len(self._target)} queues"
        return f"<Planner{aim}, losses {dict(self._journal.counts)}, {self.share or self.committer!r}, {self.locks!r}>"

    # --- offsets -----------------------------------------------------------------------------------------------------

    def freeze_target(self) -> None:
        """AvailableNow reads to the ends of now and stops."""
        queues = self._catalog.queues()
        if self.share:
            self.share.join()
        self._target = _ends(self._fetch_bounds(self._ours(queues)))

    def latest(self, start: Position | None, *, is_done: bool = True, without_caps: bool = False) -> Position:
        """The end of the next batch; the given start, before which everything `is_done`, if there is nothing new.

        A run to a target does not end because locks are missing: it waits for them, and fails if they do not come.
        """
        plan, deadline = self._plan(start, is_done, without_caps), None
        while self.locks and plan.end is start and plan.locked_out:
            deadline = deadline or self.locks.patience()
            self.locks.wait(plan.locked_out, deadline)
            plan = self._plan(start, is_done, without_caps)
        return plan.end

    def _plan(self, start: Position | None, is_done: bool, without_caps: bool) -> _Plan:
        held = _topics(start.next if start else {})
        queues = self._catalog.queues(held)
        self._begin(start, queues)
        if self._claims:
            self._claims.take(queues)
            self._claims.take(start.next if start else ())
        bounds = self._fetch_bounds(self._ours(queues), held)
        ready = self._readable(bounds)
        starts, bounds, self._fallen, opened = self._starts(start, bounds, ready, queues)
        self._judged = start
        if is_done and start is not None:
            self.acknowledge(start)
        ends = {queue: end for queue, end in _ends(bounds).items() if queue in ready}
        locked_out: list[MessageQueue] = []
        if self._target is not None:
            locked_out = self._locked_out(self._target, starts, bounds, ready)
            ends = clip_to_target(ends, self._target)
            starts = {queue: offset for queue, offset in starts.items() if self._may_start(queue, start)}
        admission = admit(starts, ends, self._limits(without_caps), waited_s=self._clock() - self._admitted_at)
        if not admission.held_back:
            self._admitted_at = self._clock()
        return _Plan(advance(start, starts, admission.ends, self._options.commit.group, opened), locked_out)

    @property
    def is_settled(self) -> bool:
        """Whether `latest` would answer now as it did last: bounds are not due, and the queues are the same."""
        return not (self.share or self.locks or self._view.is_due or self._catalog.is_old)

    def last_known_ends(self) -> Position:
        """How far the queues went when they were asked last."""
        return Position(_ends(self._view.last_known))

    def acknowledge(self, position: Position) -> None:
        """Everything before this position is done; where it was found to lie beyond a queue's end, that end counts."""
        fallen = self._fallen if position == self._judged else {}
        if self.committer:
            self.committer.acknowledge({**position.next, **fallen}, fallen.keys())
        if self.share:
            self.share.acknowledge(position.next, fallen)

    def finish(self, timeout_s: float) -> None:
        """The query ends: publish what is acknowledged, as far as that is done in time, and let others go on there."""
        if self.committer:
            if not self.committer.flush(timeout_s):
                _log.warning("positions were not published within %g s; the query's next start does it", timeout_s)
            self.committer.close()
        if self.share:
            self.share.flush(timeout_s)
        if self.locks:  # Before the others are told that we leave: they look for locks only now and then.
            self.locks.close()
        if self.share:
            self.share.close()
        if self._claims:
            self._claims.close()

    # --- ranges ------------------------------------------------------------------------------------------------------

    def partitions(self, start: Position | None, end: Position) -> list[RangePartition]:
        """The tasks of the batch between two offsets."""
        if not self._has_begun:
            self._begin(end, self._catalog.queues(_topics(end.next)))
            self._note_losses_between(start, end)
        ranges = batch_ranges(start, end)
        if self.locks:
            self.locks.require([each.queue for each in ranges])
        settings = self._catalog.plan_settings(list(end.next))
        return [RangePartition(task) for task in plan_tasks(ranges, settings)]

    def _note_losses_between(self, start: Position | None, end: Position) -> None:
        """Tell the committer of losses that an earlier run judged, and perhaps did not live to publish."""
        before = start.next if start else {}
        fallen = [queue for queue, offset in end.begin.items() if offset < before.get(queue, 0)]
        if self.committer and fallen:
            self.committer.note_fallen(fallen)

    # --- where queues stand ------------------------------------------------------------------------------------------

    def _fetch_bounds(
        self, queues: Collection[MessageQueue], held_topics: Collection[str] = ()
    ) -> Mapping[MessageQueue, QueueBounds]:
        """Of these queues; when a broker turns out to be gone, of those that the routes name without it."""
        try:
            return self._view.fetch_bounds(queues)
        except (QueueMoved, TopicNotFound):
            left = set(self._catalog.queues(held_topics))
            return self._view.fetch_bounds([queue for queue in queues if queue in left])

    # --- where a batch starts ----------------------------------------------------------------------------------------

    def _starts(
        self,
        start: Position | None,
        bounds: Mapping[MessageQueue, QueueBounds],
        ready: Collection[MessageQueue],
        queues: Collection[MessageQueue],
    ) -> _Starts:
        if self.share and self._beginnings:
            self._beginnings.note_joining(start, queues)
            return self._go_on_as_member(self.share, self._beginnings, start, bounds, ready)
        return self._resolve(bounds) if start is None else self._go_on(start, bounds)

    def _resolve(self, bounds: Mapping[MessageQueue, QueueBounds]) -> _Starts:
        """The start of a query without checkpoint; the same every time it is asked for."""
        if self._pinned is None:
            queues = list(bounds)
            self._catalog.require_known(queues)
            wished = resolve_offsets(self._options.start.requested, queues, bounds, self._view)
            self._pinned = self._judge(wished.positions, bounds, wished.opened)
            bounds = self._pinned.bounds
            for option in wished.outranked:
                _log.warning("%s has no effect: for every queue another option says where to start", option)
        return self._with_new(self._pinned._replace(bounds=bounds), self._pinned.positions)

    def _go_on(self, start: Position, bounds: Mapping[MessageQueue, QueueBounds]) -> _Starts:
        """After the last batch, moved where brokers lost messages; new queues begin at their beginning."""
        known = {queue: at for queue, at in start.next.items() if queue in bounds or self._catalog.covers(queue)}
        return self._with_new(self._judge(known, bounds, start.still_open), known)

    def _with_new(self, starts: _Starts, known: Positions) -> _Starts:
        """With the queues that were found since, which begin at their beginning, as soon as a master tells that."""
        new = {queue: each for queue, each in starts.bounds.items() if queue not in known}
        unknown = {queue for queue, each in new.items() if each.has_unknown_front}
        for queue in sort_queues(unknown - self._unknown):
            text = "%s is new and waits for its master: a replica begins at %d and may lack earlier messages"
            _log.warning(text, queue, new[queue].min_offset)
        self._unknown = unknown
        new = {queue: each for queue, each in new.items() if queue not in unknown}
        positions = {queue: each.min_offset for queue, each in new.items()}
        return starts._replace(
            positions={**positions, **starts.positions}, opened={**opened_if_late(new), **starts.opened}
        )

    def _go_on_as_member(
        self,
        share: Share,
        beginnings: Beginnings,
        start: Position | None,
        bounds: Mapping[MessageQueue, QueueBounds],
        ready: Collection[MessageQueue],
    ) -> _Starts:
        """In the queues that are ours: after the last batch, or where the group stands. What is not ready waits."""
        before = start.next if start else {}
        gained = beginnings.gained(bounds, self._fresh_bounds)
        known = share.starts(ready, before, gained)
        opened = {**(start.still_open if start else {}), **gained.opened}
        starts = self._judge(known, bounds, {queue: at for queue, at in opened.items() if known.get(queue) == at})
        kept = {queue: before[queue] for queue in starts.bounds if queue in before}
        return starts._replace(positions={**kept, **starts.positions})

    def _judge(self, known: Positions, bounds: Mapping[MessageQueue, QueueBounds], opened: Positions) -> _Starts:
        """Move positions into what brokers hold. Bounds may be older than a position; those that find a loss are not.

        Others move a group while it is read, and an administrator who skips to the end knows of messages that came
        after brokers were asked. So whatever seems to be lost is looked at again by what brokers say now.
        """
        settled = settle_starts(known, bounds, fail_on_data_loss=False, opened=opened)
        if any(RULES[warning.finding].error for warning in settled.warnings):
            bounds = self._fresh_bounds(bounds)
            fatal = self._options.fail_on_data_loss
            settled = settle_starts(known, bounds, fail_on_data_loss=fatal, opened=opened)
        self._journal.note(self._without_repeats(settled.warnings))
        first = {queue: settled.positions[queue] for queue in opened if queue in settled.positions}
        for queue in (queue for queue, offset in first.items() if offset > opened[queue]):
            text = "%s: reading has not begun yet, and begins at %d instead of %d, which is gone (retention)"
            _log.info(text, queue, first[queue], opened[queue])
        return _Starts(settled.positions, bounds, _fallen(settled), first)

    def _fresh_bounds(self, queues: Collection[MessageQueue]) -> Mapping[MessageQueue, QueueBounds]:
        """What brokers say now of these queues, whatever they said a moment ago."""
        self._view.forget()
        return self._fetch_bounds(list(queues), _topics(queues))

    def _without_repeats(self, warnings: list[LossWarning]) -> list[LossWarning]:
        """A queue that is missing from the route is told of once, until it is back."""
        missing = {warning.queue for warning in warnings if warning.finding is Finding.NOT_IN_ROUTE}
        told, self._missing = self._missing, missing
        return [warning for warning in warnings if warning.queue not in missing & told]

    def _may_start(self, queue: MessageQueue, start: Position | None) -> bool:
        """Under availableNow queues that came later wait for the next run."""
        return (self._target is not None and queue in self._target) or (start is not None and queue in start.next)

    # --- at the beginning of a run -----------------------------------------------------------------------------------

    def _open_publishing(self) -> None:
        """At brokers, in a file, or nowhere."""
        if group := self._options.commit.group:
            self._open_committer(group)
        elif local := open_local_positions(self._options):
            self.committer = Committer(local.publish, self._options.commit.min_interval_s)

    def _open_committer(self, group: str) -> None:
        """With a cluster of its own, which its thread asks."""
        cluster = open_cluster(self._options.cluster)
        guard = GroupGuard(cluster, group)
        self._guard = GroupGuard(self._cluster, group, self._clock)
        self.committer = Committer(Publisher(cluster, group, guard).publish, self._options.commit.min_interval_s)

    def _begin(self, position: Position | None, queues: list[MessageQueue]) -> None:
        """Refuse, once, a checkpoint that is another query's, a filter that does not work, a group that has members."""
        if self._has_begun:
            return
        if position is not None:
            self._recognise(position)
        require_filter(self._cluster, self._options, queues)
        if self._guard:
            self._guard.check(_topics(queues))
        if self.share:
            if position is None:
                self._catalog.require_known(queues)
            self.share.join()
        self._has_begun = True

    def _recognise(self, position: Position) -> None:
        """Refuse the checkpoint of another query; tell which of its queues are read no more."""
        group = self._options.commit.group
        if group and position.group not in (None, group):
            advice = f"set consumerGroup to {position.group}, or use a new checkpoint"
            raise OptionError("consumerGroup", group, f"the checkpoint is of group {position.group}", advice=advice)
        dropped = [queue for queue in position.next if not self._catalog.covers(queue)]
        if dropped and len(dropped) == len(position.next):
            what = f"the checkpoint is of {', '.join(sorted(_topics(dropped)))}, of which nothing is to be read now"
            raise OptionError("checkpointLocation", None, what, advice="use a new checkpoint, or the old topics")
        if dropped:
            _log.warning("%d queues of the checkpoint are not to be read any more: %s ...", len(dropped), dropped[0])

    # --- which queues it reads ---------------------------------------------------------------------------------------

    def _ours(self, queues: list[MessageQueue]) -> list[MessageQueue]:
        """Those that are ours to read."""
        if self.share is None:
            return queues
        self.share.look()
        return self.share.select(queues)

    # --- how far it goes ---------------------------------------------------------------------------------------------

    def _readable(self, queues: Collection[MessageQueue]) -> Collection[MessageQueue]:
        """Those of the queues that may be read now."""
        return queues if self.locks is None else self.locks.hold(queues)

    def _locked_out(
        self,
        target: Positions,
        known: Positions,
        bounds: Mapping[MessageQueue, QueueBounds],
        ready: Collection[MessageQueue],
    ) -> list[MessageQueue]:
        """The queues that have not come to the target and may not be read now."""
        waiting = [queue for queue in bounds if queue in target and queue not in ready]
        short = [queue for queue in waiting if known.get(queue, 0) < target[queue]]
        if self.share is None or not short:
            return short
        stood = dict(self._view.fetch_committed(short))
        unknown = [queue for queue in short if queue not in stood]
        if self._beginnings and unknown:
            stood |= self._beginnings.resolve(unknown, bounds).positions
        return [queue for queue in short if stood[queue] < target[queue]]

    def _limits(self, without_caps: bool) -> Limits:
        if without_caps:
            return Limits()
        return self._options.limits if self._target is None else self._options.limits.without_floor()


def _fallen(settled: Settled) -> Positions:
    beyond = [warning.queue for warning in settled.warnings if warning.finding is Finding.ABOVE_MAX]
    return {queue: settled.positions[queue] for queue in beyond}


def _ends(bounds: Mapping[MessageQueue, QueueBounds]) -> dict[MessageQueue, int]:
    return {queue: each.max_offset for queue, each in bounds.items()}


def _topics(queues: Iterable[MessageQueue]) -> set[str]:
    return {queue.topic for queue in queues}
