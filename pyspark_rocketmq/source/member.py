"""Choose queues and starts, and commit, for a query that is one member of its group (`groupMembership=shared`).

`membership` knows which queues the query owns now, `group_positions` the group's positions in them. Each time a batch
is planned, both are asked once. Then finished work is committed, after its end was compared with the queues' bounds.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ..cluster.cluster import Cluster
from ..model import MessageQueue, QueueBounds
from ..net.deadline import Deadline
from ..offsets.position import Position, Positions
from ..options.reader_options import ReaderOptions, ShareSettings
from .beginnings import Beginnings, GainedQueues
from .group_positions import GroupPositions
from .membership import QueryMember
from .rhythm import PlannerRhythm
from .roles import StartJudge, Starts, open_locks

__all__ = ["MemberRole"]


class MemberRole:
    """The role of a query that shares its group's queues with other members. Only the planning thread uses it."""

    name = "member"
    needs_each_trigger = True
    is_commit_refused = False

    def __init__(
        self,
        cluster: Cluster,
        options: ReaderOptions,
        settings: ShareSettings,
        judge: StartJudge,
        rhythm: PlannerRhythm,
    ) -> None:
        self._judge = judge
        self.member = QueryMember(options, settings, rhythm)
        group, client_id = options.pull.group, self.member.client_id
        self.positions = GroupPositions(
            self.member.cluster.offsets,
            group,
            min_interval_s=options.commit.min_interval_s,
            rhythm=rhythm,
            note_progress=self.member.note_progress,
            connection_to=self.member.connection_to,
        )
        self._beginnings = Beginnings(cluster, judge.view, options.start.requested, group, client_id)
        self.locks = open_locks(options, rhythm, client_id)
        self._has_joined = self._has_assignment = False

    def __repr__(self) -> str:
        return f"<MemberRole {self.member!r}, {self.positions!r}, {self.locks!r}>"

    @property
    def failed_commits(self) -> int:
        """The number of times that fetching or committing positions failed at a broker; both are repeated."""
        return self.positions.failure_count

    def begin(self, position: Position | None, queues: list[MessageQueue]) -> None:
        """Join the group, unless the query has already joined.

        Without a checkpoint (`position` is None), raise `OptionError` before that if the options name a topic or queue
        that is not among `queues`.
        """
        if position is None:
            self._judge.catalog.require_known(queues)
        self._join()

    def _join(self) -> None:
        if not self._has_joined:
            self._has_joined = True
            self.member.join()

    def claim(self, queues: Collection[MessageQueue]) -> None:
        """Claim nothing: members of a group own different queues."""

    def choose_queues(self, queues: list[MessageQueue]) -> list[MessageQueue]:
        """Return those of `queues` that the query owns now, and fetch the group's positions.

        The first call waits until the queues are assigned to the members.
        """
        self._join()
        if not self._has_assignment:
            self.member.wait()
            self._has_assignment = True
        owned = self.member.owned()
        self.positions.keep(owned)
        self.positions.note_resets(self.member.take_resets())
        self.positions.fetch()
        return [queue for queue in queues if queue in owned]

    def choose_starts(
        self,
        start: Position | None,
        bounds: Mapping[MessageQueue, QueueBounds],
        ready: Collection[MessageQueue],
        queues: Collection[MessageQueue],
    ) -> Starts:
        """Return the starts of the next batch: the end of the last one, but in a gained queue the group's position.

        If somebody else moved the group's position, the batch starts there. `SoloRole.choose_starts` explains the
        parameters.
        """
        self._beginnings.note_joining(start, queues)
        before = start.next if start else {}
        gained = GainedQueues(self._beginnings, bounds, self._judge.fetch_fresh)
        known = self.positions.choose_starts(ready, before, gained)
        opened = {**(start.still_open if start else {}), **gained.opened}
        opened = {queue: offset for queue, offset in opened.items() if known.get(queue) == offset}
        starts = self._judge.judge(known, bounds, opened)
        kept = {queue: before[queue] for queue in starts.bounds if queue in before}
        return starts._replace(positions={**kept, **starts.positions})

    def find_queues_behind(
        self, target: Positions, queues: list[MessageQueue], bounds: Mapping[MessageQueue, QueueBounds]
    ) -> list[MessageQueue]:
        """Return those of `queues` in which the group's position is before `target`: no member has got that far."""
        positions = dict(self._judge.view.fetch_committed(queues))
        if unknown := [queue for queue in queues if queue not in positions]:
            positions |= self._beginnings.resolve(unknown, bounds).positions
        return [queue for queue in queues if positions[queue] < target[queue]]

    def acknowledge(self, finished: Positions, rewound: Positions) -> None:
        """Commit, in the queues that the member owns, `finished`: positions before which everything is finished.

        `rewound` has the ends of queues that now end before their position in `finished`; there the end is committed.
        """
        self.positions.note_done(finished, rewound)
        self.positions.commit()

    def note_rewound(self, queues: Collection[MessageQueue]) -> None:
        """Do nothing about queues that had lost messages in an earlier run.

        They are gained in this run, and a gained queue's positions are compared with its end anyway.
        """

    def close(self, timeout_s: float) -> None:
        """Commit what is finished, trying for at most `timeout_s`; then release locks and leave the group."""
        deadline = Deadline.after(timeout_s)
        self.positions.keep(self.member.owned())
        self.positions.fetch(at_once=True, deadline=deadline)
        self.positions.commit(deadline)
        self.locks.close()  # Before other members rebalance: they ask for locks at intervals.
        self.member.close()
