"""Decide where batches start, and commit finished work, according to the query's role in its group.

A query is alone in its group (`SoloRole`), or one of its members (`member.MemberRole`). Both classes have the same
methods. Modules that only few queries need are imported on demand, because Spark waits for the process of each query.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from ..cluster.cluster import Cluster, open_cluster
from ..errors import UNKNOWN_TOPIC, QueueMoved
from ..model import Finding, MessageQueue, QueueBounds, sort_queues
from ..net.deadline import Deadline
from ..offsets.loss import LOSS_RULES, LossWarning, Settled, settle_starts
from ..offsets.position import Position, Positions
from ..offsets.resolve import opened_if_late, resolve_offsets
from ..options.reader_options import ReaderOptions
from .announcing import log_together
from .catalog import QueueCatalog
from .commit import Committer, GroupCheck, OffsetWriter
from .losses import LossJournal
from .rhythm import PlannerRhythm
from .view import BrokerView

if TYPE_CHECKING:
    from .group_claims import GroupClaims
    from .member import MemberRole
    from .queue_locks import LockKeeper

__all__ = ["NoLocks", "SoloRole", "StartJudge", "Starts", "open_locks", "open_role"]

_log = logging.getLogger(__name__)


class Starts(NamedTuple):
    """The start of a batch in each queue, and the bounds with which the starts were compared."""

    positions: Positions
    bounds: Mapping[MessageQueue, QueueBounds]
    rewound: Positions = MappingProxyType({})
    """The starts of queues that end before their known position; each start is the queue's end."""
    opened: Positions = MappingProxyType({})
    """The starts of queues of which nothing was read yet and that start at their first readable message."""


class StartJudge:
    """Compares known positions with the bounds of queues, to find losses.

    Bounds that are older than a position prove no loss: they are fetched again before a loss is reported.
    """

    def __init__(self, options: ReaderOptions, catalog: QueueCatalog, view: BrokerView, journal: LossJournal) -> None:
        self.catalog = catalog
        self.view = view
        self._journal = journal
        self._fails_on_loss = options.fail_on_data_loss
        self._missing: set[MessageQueue] = set()

    def fetch_routed_bounds(
        self, queues: Collection[MessageQueue], held_topics: Collection[str] = ()
    ) -> Mapping[MessageQueue, QueueBounds]:
        """Return the bounds of these queues; if a broker or topic has gone, only of those that are still in the routes.

        `held_topics` are the topics in which the query has positions; these may lack a route without an error.
        """
        try:
            return self.view.fetch_bounds(queues)
        except (QueueMoved, *UNKNOWN_TOPIC):
            left = set(self.catalog.queues(held_topics))
            return self.view.fetch_bounds([queue for queue in queues if queue in left])

    def fetch_fresh(self, queues: Collection[MessageQueue]) -> Mapping[MessageQueue, QueueBounds]:
        """Fetch and return the bounds of these queues, without using cached ones."""
        self.view.forget()
        return self.fetch_routed_bounds(list(queues), {queue.topic for queue in queues})

    def judge(self, known: Positions, bounds: Mapping[MessageQueue, QueueBounds], opened: Positions) -> Starts:
        """Return the starts of a batch: `known` positions, moved into bounds; raise for a loss if it fails the query.

        If a position lies outside the bounds, fetch these again first: cached bounds may be older than the position,
        for example if an administrator has just moved the group to the queue's newest end. Nothing has been read yet of
        the queues in `opened`, so messages deleted at their front are no loss.
        """
        settled = settle_starts(known, bounds, fail_on_data_loss=False, opened=opened)
        if any(LOSS_RULES[warning.finding].error for warning in settled.warnings):
            bounds = self.fetch_fresh(bounds)
            settled = settle_starts(known, bounds, fail_on_data_loss=self._fails_on_loss, opened=opened)
        if warnings := self._drop_repeats(settled.warnings):
            self._journal.note(warnings)
        first = {queue: settled.positions[queue] for queue in opened if queue in settled.positions}
        moved = [(queue, offset, opened[queue]) for queue, offset in first.items() if offset > opened[queue]]
        text = "%s: reading begins at %d instead of %d, which is gone (retention)"
        if moved:
            log_together(_log, logging.INFO, text, moved)
        return Starts(settled.positions, bounds, _rewound(settled), first)

    def _drop_repeats(self, warnings: list[LossWarning]) -> list[LossWarning]:
        """Return the warnings, except those about queues missing from the route both now and in the last call."""
        missing = {warning.queue for warning in warnings if warning.finding is Finding.NOT_IN_ROUTE}
        known, self._missing = self._missing, missing
        return [warning for warning in warnings if warning.queue not in missing & known]


def _rewound(settled: Settled) -> Positions:
    beyond = [warning.queue for warning in settled.warnings if warning.finding is Finding.ABOVE_MAX]
    return {queue: settled.positions[queue] for queue in beyond}


class NoLocks:
    """Stands in for `LockKeeper` in a query that needs no locks: every queue may be read."""

    def hold(self, queues: Collection[MessageQueue]) -> Collection[MessageQueue]:
        """Return all `queues`: without locks every one may be read."""
        return queues

    def require(self, queues: Collection[MessageQueue]) -> None:
        """Return at once: no lock is needed."""

    def wait(self, missing: Collection[MessageQueue], deadline: Deadline) -> None:
        """Return at once: no lock is ever missing."""

    def close(self) -> None:
        """Do nothing: no lock is held."""


class SoloRole:
    """A query that is alone in its group, if it has one, and reads every queue that its options cover."""

    name = "solo"

    def __init__(self, cluster: Cluster, options: ReaderOptions, judge: StartJudge, rhythm: PlannerRhythm) -> None:
        self._options = options
        self._judge = judge
        group = options.commit.group
        self._check = GroupCheck(cluster, group, rhythm) if group else None
        self._pinned: Starts | None = None
        self.committer = _open_committer(options, rhythm, self._pinned_positions)
        """Commits finished work; None if the options ask for no commits."""
        self.locks = open_locks(options, rhythm)
        self._claims = _open_claims(options, rhythm)
        self.needs_each_trigger = options.locks is not None
        """Whether the next plan may differ although brokers report the same offsets, because locks may have changed."""
        self._without_front: set[MessageQueue] = set()
        """New queues whose first offset no master has reported yet."""

    def __repr__(self) -> str:
        return f"<SoloRole {self.committer!r}, {self.locks!r}>"

    @property
    def failed_commits(self) -> int:
        """The number of commits that failed and are repeated."""
        return self.committer.failure_count if self.committer else 0

    @property
    def is_commit_refused(self) -> bool:
        """Whether nothing is committed any more, because the group turned out to have live members."""
        return self.committer is not None and self.committer.is_refused

    def _pinned_positions(self) -> Positions:
        """Return where a query without checkpoint starts; empty for others. The committing thread may call it."""
        return self._pinned.positions if self._pinned else {}

    def begin(self, position: Position | None, queues: list[MessageQueue]) -> None:
        """Raise `GroupInUse` if the group for which the query commits has live members."""
        if self._check:
            self._check.require_no_members({queue.topic for queue in queues})

    def claim(self, queues: Collection[MessageQueue]) -> None:
        """Claim queues on this host, if the role has claims; raise `GroupReadTwice` if another query holds one."""
        if self._claims and not self._claims.held.issuperset(queues):
            self._claims.take(queues)

    def choose_queues(self, queues: list[MessageQueue]) -> list[MessageQueue]:
        """Return all queues: a query that is alone in its group reads every one."""
        return queues

    def choose_starts(
        self,
        start: Position | None,
        bounds: Mapping[MessageQueue, QueueBounds],
        ready: Collection[MessageQueue],
        queues: Collection[MessageQueue],
    ) -> Starts:
        """Return the starts of the next batch: the end of the last one, or what the options request.

        Args:
            start: The end of the last batch; None for a query without checkpoint.
            bounds: The bounds of the queues that this query reads.
            ready: The queues in `bounds` that may be read now, because no lock is missing.
            queues: All queues that the options cover.
        """
        return self._resolve(bounds) if start is None else self._go_on(start, bounds)

    def _resolve(self, bounds: Mapping[MessageQueue, QueueBounds]) -> Starts:
        """Return the starts that the options request; they are resolved once and then remembered."""
        if self._pinned is None:
            queues = list(bounds)
            self._judge.catalog.require_known(queues)
            resolved = resolve_offsets(self._options.start.requested, queues, bounds, self._judge.view)
            self._pinned = self._judge.judge(resolved.positions, bounds, resolved.opened)
            bounds = self._pinned.bounds
            for option in resolved.outranked if queues else ():
                _log.warning("%s has no effect: other options choose the start of every queue", option)
        return self._with_new(self._pinned._replace(bounds=bounds), self._pinned.positions)

    def _go_on(self, start: Position, bounds: Mapping[MessageQueue, QueueBounds]) -> Starts:
        """Return the end of the last batch as starts, moved into the bounds where messages were lost."""
        known = {queue: at for queue, at in start.next.items() if queue in bounds or self._judge.catalog.covers(queue)}
        return self._with_new(self._judge.judge(known, bounds, start.still_open), known)

    def _with_new(self, starts: Starts, known: Positions) -> Starts:
        """Return the starts with those of new queues added, each at the queue's first message.

        A queue that is not in `known` is new. It is left out while a replica reports its bounds, because the replica
        may lack earlier messages.
        """
        new = {queue: each for queue, each in starts.bounds.items() if queue not in known}
        if not new:
            self._without_front = set()
            return starts
        without_front = {queue for queue, each in new.items() if each.has_unknown_front}
        text = "%s is new and waits for its master: a replica begins at %d and may lack earlier messages"
        waiting = sort_queues(without_front - self._without_front)
        log_together(_log, logging.WARNING, text, [(queue, new[queue].min_offset) for queue in waiting])
        self._without_front = without_front
        new = {queue: each for queue, each in new.items() if queue not in without_front}
        positions = {queue: each.min_offset for queue, each in new.items()}
        return starts._replace(
            positions={**positions, **starts.positions}, opened={**opened_if_late(new), **starts.opened}
        )

    def find_queues_behind(
        self, target: Positions, queues: list[MessageQueue], bounds: Mapping[MessageQueue, QueueBounds]
    ) -> list[MessageQueue]:
        """Return all `queues`: there are no other members that could have read them to the target."""
        return queues

    def acknowledge(self, finished: Positions, rewound: Positions) -> None:
        """Have the committing thread commit `finished`: positions before which everything is finished.

        `rewound` has the ends of queues that now end before their position in `finished`; there the end is committed.
        """
        if self.committer:
            self.committer.acknowledge({**finished, **rewound}, rewound.keys())

    def note_rewound(self, queues: Collection[MessageQueue]) -> None:
        """Let the next commit store smaller offsets for these queues, where an earlier run went back after a loss."""
        if self.committer and queues:
            self.committer.note_rewound(queues)

    def close(self, timeout_s: float) -> None:
        """Commit what is acknowledged, waiting for at most `timeout_s`; then release locks and claims."""
        if self.committer:
            if not self.committer.flush(timeout_s):
                _log.warning("positions were not committed within %g s; the query's next start commits them", timeout_s)
            self.committer.close()
        self.locks.close()
        if self._claims:
            self._claims.close()


def open_role(
    cluster: Cluster, options: ReaderOptions, judge: StartJudge, rhythm: PlannerRhythm
) -> SoloRole | MemberRole:
    """Return a `MemberRole` for `groupMembership=shared`, else a `SoloRole`."""
    if options.share is None:
        return SoloRole(cluster, options, judge, rhythm)
    from .member import MemberRole

    return MemberRole(cluster, options, options.share, judge, rhythm)


def open_locks(options: ReaderOptions, rhythm: PlannerRhythm, client_id: str | None = None) -> LockKeeper | NoLocks:
    """Return a `LockKeeper` with connections of its own if the options ask for locks, else `NoLocks`.

    Locks are taken under `client_id`; None stands for the client id that the options give.
    """
    if options.locks is None:
        return NoLocks()
    from ..client.membership import make_client_id
    from ..cluster.cluster import open_shared_cluster
    from .queue_locks import LockKeeper

    client_id = client_id or make_client_id(options.client.instance_name, options.client.unit_name)
    return LockKeeper(open_shared_cluster(options.cluster), options.pull.group, client_id, options.locks, rhythm)


def _open_committer(options: ReaderOptions, rhythm: PlannerRhythm, starts: Callable[[], Positions]) -> Committer | None:
    """Return a committer to brokers, or to a local file; None if the options ask for no commits."""
    commit, local = options.commit, options.local
    if commit.group:
        cluster = open_cluster(options.cluster)  # The committing thread has connections of its own.
        writer = OffsetWriter(cluster, commit.group, GroupCheck(cluster, commit.group, rhythm), rhythm, starts)
        return Committer(writer.commit, commit.min_interval_s, rhythm)
    if local is None or not local.publishes:
        return None
    from .local_positions import LocalPositions

    positions = LocalPositions(local, options.client)
    positions.require_writable()
    return Committer(positions.commit, commit.min_interval_s, rhythm)


def _open_claims(options: ReaderOptions, rhythm: PlannerRhythm) -> GroupClaims | None:
    """Return the query's group claims if it commits without brokers' locks, which would keep other queries out.

    Return None for other queries, and on Windows, which lacks the file locks that claims need.
    """
    group = options.commit.group
    if group is None or options.locks or sys.platform == "win32":
        return None
    from .group_claims import GroupClaims

    return GroupClaims(options.cluster, group, rhythm)
