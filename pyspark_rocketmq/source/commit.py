"""Commit finished work for a query that is alone in its group.

The checkpoint alone decides where such a query goes on; committed offsets serve lag tools and queries that start with
`startingOffsets=group`. For each queue the *next* offset after finished work is committed. Invariants:

- only what Spark has acknowledged is committed;
- a committed offset never goes back: the broker's own offset is read before the first commit of a queue. The only
  exception is a loss: if a queue ends below its committed offset (topic created again, broker restored), the query
  goes back to the end, and so does the committed offset, with a warning;
- a broker that was killed comes back with offsets that are some seconds old. So each broker is asked for its offsets
  once a minute, and after a failure; where they are too small, they are committed again. An administrator who moves the
  group back is overruled in the same way; only a query that is a member of its group follows the move;
- a failed commit is a warning and is repeated later; it never fails the query and does not delay commits at other
  brokers.

A thread with connections of its own commits, so that planning does not wait. The two threads share an inbox, and the
start of a new query, which is set once: the planner puts positions into the inbox, the committing thread keeps the
newest until they are due.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from ..cluster.cluster import Cluster
from ..errors import GroupInUse, RocketMQError, TopicNotFound
from ..model import MessageQueue
from ..offsets.position import Positions
from .announcing import log_together
from .rhythm import NORMAL, PlannerRhythm

__all__ = ["Committer", "GroupCheck", "OffsetWriter"]

_REWOUND = "is moved back to it, after the loss that was reported"
_log = logging.getLogger(__name__)


class GroupCheck:
    """Checks that a group has no live members before Spark commits for it.

    At their next rebalance, live members would go on at Spark's offsets and skip messages.
    """

    def __init__(self, cluster: Cluster, group: str, rhythm: PlannerRhythm = NORMAL) -> None:
        self._cluster = cluster
        self._group = group
        self._clock = rhythm.clock
        self._interval_s = rhythm.members_check_s
        self._due = float("-inf")

    def require_no_members(self, topics: Iterable[str]) -> None:
        """Raise `GroupInUse` if a broker of these topics knows a live member; ask brokers only if a check is due."""
        if self._clock() < self._due:
            return
        for topic in self._representatives(topics):
            if members := self._cluster.groups.fetch_members(self._group, topic):
                raise GroupInUse(
                    f"the group has {len(members)} live members, which would skip what Spark has read",
                    advice="give Spark a group of its own with consumerGroup, or set commitOffsets=none",
                    group=self._group,
                    topic=topic,
                )
        self._due = self._clock() + self._interval_s

    def _representatives(self, topics: Iterable[str]) -> list[str]:
        """Return one topic for each set of brokers: asking the same brokers about another topic would add nothing."""
        found: dict[frozenset[str], str] = {}
        for topic in topics:
            with suppress(TopicNotFound):  # A topic without brokers has no members.
                found[frozenset(self._cluster.routes.route(topic).brokers)] = topic
        return list(found.values())


Commit = Callable[[Positions, Collection[MessageQueue]], list[RocketMQError]]
"""Stores positions and returns the failures; a stored position goes back only in queues of the second argument."""


class OffsetWriter:
    """Commits positions of a group at the brokers; moves a position back only after a loss.

    Args:
        starts: Returns where a query without checkpoint starts; empty for others. The committing thread calls it.
    """

    def __init__(
        self,
        cluster: Cluster,
        group: str,
        check: GroupCheck,
        rhythm: PlannerRhythm = NORMAL,
        starts: Callable[[], Positions] = dict,
    ) -> None:
        self._cluster = cluster
        self._group = group
        self._check = check
        self._clock = rhythm.clock
        self._interval_s = rhythm.commit_check_s
        self._starts = starts
        self._committed: dict[MessageQueue, int] = {}
        self._prepared: set[str] = set()
        self._shown: set[str] = set()
        """Brokers that were asked for the group's retry topic."""
        self._comparison_due: dict[str, float] = {}
        """The time when each broker's offsets are to be compared with the committed ones."""

    def commit(self, positions: Positions, rewound: Collection[MessageQueue] = ()) -> list[RocketMQError]:
        """Commit positions that are ahead of the brokers' offsets; return the failures, which stop no other commit.

        Positions behind the broker's offset are committed for the queues in `rewound` only: after a loss the query went
        back there. A queue's first position may be equal to it. Raise `GroupInUse` if the group has live members.
        """
        failures = self._compare()
        parts = _by_topic_and_broker(self._news(positions, rewound))
        if parts:
            self._check.require_no_members({topic for topic, _ in parts})
        for (_, broker_name), part in parts.items():
            try:
                self._commit_at(broker_name, part, rewound)
            except RocketMQError as error:
                self._comparison_due[broker_name] = self._clock()
                failures.append(error)
        return failures

    def _compare(self) -> list[RocketMQError]:
        """Compare committed offsets with those that brokers report, where a comparison is due; return the failures."""
        failures = []
        for broker_name, due in self._comparison_due.items():
            if self._clock() >= due:
                try:
                    self._find_forgotten([queue for queue in self._committed if queue.broker_name == broker_name])
                except RocketMQError as error:
                    failures.append(error)
                else:
                    self._comparison_due[broker_name] = self._clock() + self._interval_s
        return failures

    def _find_forgotten(self, queues: Collection[MessageQueue]) -> None:
        """Note queues whose masters report smaller offsets than were committed, or none: they are committed again."""
        reported_positions = self._cluster.offsets.fetch_reported_positions(self._group, queues)
        forgotten = []
        for queue in queues:
            reported, expected = reported_positions.get(queue), self._committed[queue]
            if reported is None:
                del self._committed[queue]
            elif reported.offset < expected and not reported.from_replica:
                self._committed[queue] = reported.offset
            else:
                continue
            forgotten.append((queue, reported and reported.offset, self._group, expected))
        text = "%s: the broker reports offset %s for group %s, expected %d; committing again"
        log_together(_log, logging.WARNING, text, forgotten)

    def _news(self, positions: Positions, rewound: Collection[MessageQueue]) -> dict[MessageQueue, int]:
        committed = {queue: self._committed.get(queue, -1) for queue in positions}
        return {
            queue: offset
            for queue, offset in positions.items()
            if offset > committed[queue] or (queue in rewound and offset < committed[queue])
        }

    def _commit_at(self, broker_name: str, positions: Positions, rewound: Collection[MessageQueue]) -> None:
        self._prepare_group(broker_name)
        unread = [queue for queue in positions if queue not in self._committed]
        held = self._cluster.offsets.fetch_committed(self._group, unread) if unread else {}
        self._warn_of_larger(positions, {**self._committed, **held}, rewound)
        wanted = {queue: at for queue, at in positions.items() if at >= held.get(queue, 0) or queue in rewound}
        self._cluster.offsets.commit(self._group, wanted)
        self._warn_of_passed(held)
        self._committed |= held | wanted
        self._show_group(broker_name, min(wanted, default=None))
        self._comparison_due.setdefault(broker_name, self._clock() + self._interval_s)

    def _prepare_group(self, broker_name: str) -> None:
        """Ask the broker once for the group's settings, which creates the group where brokers may create groups.

        From 5.3 on, brokers store positions of existing groups only.
        """
        if broker_name in self._prepared:
            return
        try:
            self._cluster.admin.fetch_group_config(self._group, broker_name)
        except RocketMQError as error:
            _log.debug("could not create group %s at %s beforehand: %s", self._group, broker_name, error)
        self._prepared.add(broker_name)

    def _show_group(self, broker_name: str, queue: MessageQueue | None) -> None:
        """Have the broker create the group's retry topic, once, without waiting for it.

        RocketMQ's own tools find the brokers of a group by the route of this topic. Without it `mqadmin
        consumerProgress` fails, but the query does not.
        """
        if queue is None or broker_name in self._shown:
            return
        self._shown.add(broker_name)
        try:
            self._cluster.messages.create_retry_topic(self._group, queue)
        except RocketMQError as error:
            _log.debug("could not ask %s for the retry topic of group %s: %s", broker_name, self._group, error)

    def _warn_of_larger(self, positions: Positions, held: Positions, rewound: Collection[MessageQueue]) -> None:
        text = "%s: the broker's position %d of group %s is ahead of this query's %d and %s"
        told: dict[str, list[tuple[Any, ...]]] = {_REWOUND: [], "stays": []}
        for queue, offset in positions.items():
            if held.get(queue, -1) > offset:
                what = _REWOUND if queue in rewound else "stays"
                told[what].append((queue, held[queue], self._group, offset, what))
        for queues in told.values():
            log_together(_log, logging.WARNING, text, queues)

    def _warn_of_passed(self, held: Positions) -> None:
        """Warn of queues in which a new query starts past the group's position `held`, since the commit hides that.

        For a missing position brokers 4.9 report 0, so 0 counts as none.
        """
        starts = self._starts()
        passed = [
            (queue, starts[queue], self._group, at) for queue, at in held.items() if 0 < at < starts.get(queue, 0)
        ]
        text = "%s: this query starts at %d, so group %s, which was at %d, does not get the messages between; "
        log_together(
            _log, logging.WARNING, text + "a new checkpoint with startingOffsets at that position reads them", passed
        )


def _by_topic_and_broker(positions: Positions) -> dict[tuple[str, str], dict[MessageQueue, int]]:
    parts: defaultdict[tuple[str, str], dict[MessageQueue, int]] = defaultdict(dict)
    for queue, offset in positions.items():
        parts[queue.topic, queue.broker_name][queue] = offset
    return parts


class _PendingCommit(NamedTuple):
    """An item of the committing thread's inbox: positions to commit when due, or a request to commit at once."""

    positions: Positions | None = None
    receipt: SimpleQueue[None] | None = None
    """Gets an item after the attempt to commit what is pending, whether it succeeded or failed."""
    rewound: Collection[MessageQueue] = ()
    """Queues in which a loss moved the query back."""
    is_last: bool = False
    """Whether the thread ends as soon as nothing is pending."""


class Committer:
    """Takes positions before which everything is finished, and commits the newest ones in a thread of its own."""

    def __init__(self, commit: Commit, min_interval_s: float = 0.0, rhythm: PlannerRhythm = NORMAL) -> None:
        self._commit = commit
        self._min_interval_s = min_interval_s
        self._rhythm = rhythm
        self._acknowledged: Positions = {}
        self._inbox: SimpleQueue[_PendingCommit | None] = SimpleQueue()
        self._pending: Positions | None = None
        self._committed: Positions | None = None
        self._rewound: set[MessageQueue] = set()
        self._is_finishing = False
        self._due = float("-inf")
        self._failures_in_a_row = 0
        self.failure_count = 0
        """The number of attempts to commit that failed, partly or wholly."""
        self.is_refused = False
        """Whether the group turned out to have live members; then nothing is committed any more."""
        threading.Thread(target=self._serve, name="rocketmq-commit", daemon=True).start()

    def __repr__(self) -> str:
        state = "refused" if self.is_refused else f"{self.failure_count} failures"
        return f"<Committer {len(self._acknowledged)} queues acknowledged, {state}>"

    def acknowledge(self, positions: Positions, rewound: Collection[MessageQueue] = ()) -> None:
        """Give positions to the committing thread and return at once.

        Only in `rewound` queues may committed positions go back.
        """
        if positions != self._acknowledged:
            self._acknowledged = positions
            self._inbox.put(_PendingCommit(positions, rewound=rewound))

    def note_rewound(self, queues: Collection[MessageQueue]) -> None:
        """Let the next commit store smaller offsets for these queues, where an earlier run went back after a loss."""
        self._inbox.put(_PendingCommit(rewound=queues))

    def flush(self, timeout_s: float) -> bool:
        """Make the committing thread try to commit acknowledged positions now.

        Return whether it has tried, with or without success, within `timeout_s`.
        """
        receipt: SimpleQueue[None] = SimpleQueue()
        self._inbox.put(_PendingCommit(receipt=receipt))
        try:
            receipt.get(timeout=timeout_s)
        except Empty:
            return False
        return True

    def finish(self) -> None:
        """Have the committing thread end once everything acknowledged is committed; do not wait for it.

        From then on, nobody overrules an administrator who moves the group back.
        """
        self._inbox.put(_PendingCommit(is_last=True))

    def close(self) -> None:
        """Have the committing thread end after its current work; do not wait for it."""
        self._inbox.put(None)

    # --- in the committing thread ------------------------------------------------------------------------------------

    def _serve(self) -> None:
        while (received := self._receive()) is not None:
            self._pending = received.positions or self._pending
            self._rewound.update(received.rewound)
            if self._pending and (received.receipt or time.monotonic() >= self._due):
                self._attempt(self._pending)
            if received.receipt:
                received.receipt.put(None)
            self._is_finishing = self._is_finishing or received.is_last
            if self._is_finishing and not self._pending:
                return

    def _receive(self) -> _PendingCommit | None:
        """Return the next item of the inbox, or None to end the thread.

        If no item comes, return the pending positions once they are due. Without pending positions, return the last
        committed ones once it is time to compare them with brokers' offsets.
        """
        if not self._pending and (not self._committed or self.is_refused):
            return self._inbox.get()
        due = self._due if self._pending else self._due + self._rhythm.commit_check_s
        try:
            return self._inbox.get(timeout=max(0.0, due - time.monotonic()))
        except Empty:
            return _PendingCommit(self._pending or self._committed)

    def _attempt(self, positions: Positions) -> None:
        """Commit positions; after a failure, keep them pending, to try again after a pause."""
        failures = self._try_to_commit(positions)
        wait_s = self._min_interval_s
        if failures:
            for failure in failures:
                _log.warning("positions were not committed, repeating later: %s", failure)
            wait_s = max(wait_s, self._rhythm.commit_backoff.delay_s(self._failures_in_a_row))
            self._failures_in_a_row += 1
            self.failure_count += 1
        else:
            self._pending, self._committed = None, positions
            self._rewound.clear()
            self._failures_in_a_row = 0
        self._due = time.monotonic() + wait_s

    def _try_to_commit(self, positions: Positions) -> list[Exception]:
        """Commit positions and return the failures, also unexpected exceptions, so that none ends the thread.

        If the group has live members, commit no more and return no failure.
        """
        if self.is_refused:
            return []
        try:
            return [*self._commit(positions, self._rewound)]
        except GroupInUse as error:
            self.is_refused = True
            _log.warning("positions are not committed any more: %s", error)
            return []
        except Exception as error:
            return [error]
