"""Commit finished work for a query that is alone in its group.

The checkpoint alone decides where a query goes on; committed offsets serve lag tools and queries that start with
`startingOffsets=group`. For each queue the *next* offset of finished work is committed. Invariants:

- nothing is committed that Spark has not acknowledged;
- a committed offset never goes back: the broker's own offset is read before the first commit of a queue. The only
  exception is a judged loss: where a queue ends below its committed offset (topic created again, broker restored), the
  offset follows the query down, with a warning;
- a broker that was killed comes back with offsets some seconds old. So each broker is asked once a minute, and after a
  failure, for its offsets, and gets a commit again where they are too small. An administrator who moves the group back
  is overruled in the same way; only members of a group obey;
- a failed commit is a warning and is repeated later; it never fails the query and delays no other broker's commits.

Commits run in a thread of their own with a cluster of its own, so that planning does not wait for them. The two threads
share a queue alone: the planner puts positions into it, the committing thread keeps the newest until they are due.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import NamedTuple

from ..cluster.cluster import Cluster
from ..errors import GroupInUse, RocketMQError, TopicNotFound
from ..model import MessageQueue
from ..offsets.position import Positions
from .rhythm import NORMAL, PlannerRhythm

__all__ = ["Committer", "GroupCheck", "OffsetWriter"]

_log = logging.getLogger(__name__)


class GroupCheck:
    """Keeps Spark from committing for a group with live members.

    At their next rebalance they would take over Spark's offsets and skip messages.
    """

    def __init__(self, cluster: Cluster, group: str, rhythm: PlannerRhythm = NORMAL) -> None:
        self._cluster = cluster
        self._group = group
        self._clock = rhythm.clock
        self._interval_s = rhythm.members_check_s
        self._due = float("-inf")

    def require_no_members(self, topics: Iterable[str]) -> None:
        """Ask the brokers of these topics if that is due; raise `GroupInUse` if one of them knows a live member."""
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
        """Return one topic for each set of brokers: a member sends heartbeats to all brokers of its topics."""
        found: dict[frozenset[str], str] = {}
        for topic in topics:
            with suppress(TopicNotFound):  # A topic without brokers has no members.
                found[frozenset(self._cluster.routes.route(topic).brokers)] = topic
        return list(found.values())


Commit = Callable[[Positions, Collection[MessageQueue]], list[RocketMQError]]
"""Stores positions, those of the given queues also backwards, and returns what failed."""


class OffsetWriter:
    """Commits positions of a group at the brokers, backwards only after a loss."""

    def __init__(self, cluster: Cluster, group: str, check: GroupCheck, rhythm: PlannerRhythm = NORMAL) -> None:
        self._cluster = cluster
        self._group = group
        self._check = check
        self._clock = rhythm.clock
        self._interval_s = rhythm.commit_check_s
        self._committed: dict[MessageQueue, int] = {}
        self._prepared: set[str] = set()
        self._comparison_due: dict[str, float] = {}
        """When each broker's offsets are compared with the committed ones."""

    def commit(self, positions: Positions, rewound: Collection[MessageQueue] = ()) -> list[RocketMQError]:
        """Commit what is ahead of the brokers' offsets, for the first time of a queue also what is equal.

        A judged loss moved the query back in the `rewound` queues, where smaller offsets are committed as well.
        Return the failures, one topic at one broker at a time; raise `GroupInUse` if the group has live members.
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
        """Find what brokers have forgotten, so that it is committed again; return the failures."""
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
        """Take back what brokers have forgotten. Replicas always lag, so what they report is ignored."""
        reported_positions = self._cluster.offsets.fetch_reported_positions(self._group, queues)
        for queue in queues:
            reported, expected = reported_positions.get(queue), self._committed[queue]
            if reported is None:
                del self._committed[queue]
            elif reported.offset < expected and not reported.from_replica:
                self._committed[queue] = reported.offset
            else:
                continue
            text = "%s: the broker reports offset %s for group %s, expected %d; committing again"
            _log.warning(text, queue, reported and reported.offset, self._group, expected)

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
        self._committed |= held | wanted
        self._comparison_due.setdefault(broker_name, self._clock() + self._interval_s)

    def _prepare_group(self, broker_name: str) -> None:
        """Ask the broker once for the group, which creates it where that is allowed; since 5.3 it must exist."""
        if broker_name in self._prepared:
            return
        try:
            self._cluster.admin.fetch_group_config(self._group, broker_name)
        except RocketMQError as error:
            _log.debug("could not create group %s at %s beforehand: %s", self._group, broker_name, error)
        self._prepared.add(broker_name)

    def _warn_of_larger(self, positions: Positions, held: Positions, rewound: Collection[MessageQueue]) -> None:
        for queue, offset in positions.items():
            if held.get(queue, -1) > offset:
                what = "is moved back to it, after the loss that was reported" if queue in rewound else "stays"
                text = "%s: the broker's position %d of group %s is ahead of this query's %d and %s"
                _log.warning(text, queue, held[queue], self._group, offset, what)


def _by_topic_and_broker(positions: Positions) -> dict[tuple[str, str], dict[MessageQueue, int]]:
    parts: defaultdict[tuple[str, str], dict[MessageQueue, int]] = defaultdict(dict)
    for queue, offset in positions.items():
        parts[queue.topic, queue.broker_name][queue] = offset
    return parts


class _PendingCommit(NamedTuple):
    """Positions to be committed when that is due, or a request to commit now what is pending."""

    positions: Positions | None = None
    receipt: SimpleQueue[None] | None = None
    """Gets an item once what is pending was committed, or could not be."""
    rewound: Collection[MessageQueue] = ()
    """Queues in which a judged loss moved the query back."""


class Committer:
    """Takes acknowledged positions and commits the newest of them in a thread of its own."""

    def __init__(self, commit: Commit, min_interval_s: float = 0.0, rhythm: PlannerRhythm = NORMAL) -> None:
        self._commit = commit
        self._min_interval_s = min_interval_s
        self._rhythm = rhythm
        self._acknowledged: Positions = {}
        self._inbox: SimpleQueue[_PendingCommit | None] = SimpleQueue()
        self._pending: Positions | None = None
        self._committed: Positions | None = None
        self._rewound: set[MessageQueue] = set()
        self._due = float("-inf")
        self._failures_in_a_row = 0
        self.failure_count = 0
        """How many attempts failed, in part or in whole."""
        self.is_refused = False
        """Whether the group turned out to have live members; then nothing is committed any more."""
        threading.Thread(target=self._serve, name="rocketmq-commit", daemon=True).start()

    def __repr__(self) -> str:
        state = "refused" if self.is_refused else f"{self.failure_count} failures"
        return f"<Committer {len(self._acknowledged)} queues acknowledged, {state}>"

    def acknowledge(self, positions: Positions, rewound: Collection[MessageQueue] = ()) -> None:
        """Have these positions committed; in `rewound` queues they are smaller after a loss. Never waits."""
        if positions != self._acknowledged:
            self._acknowledged = positions
            self._inbox.put(_PendingCommit(positions, rewound=rewound))

    def note_rewound(self, queues: Collection[MessageQueue]) -> None:
        """Allow that the next positions of these queues are smaller, after a loss that an earlier run judged."""
        self._inbox.put(_PendingCommit(rewound=queues))

    def flush(self, timeout_s: float) -> bool:
        """Commit what is acknowledged now, and return whether the attempt ended in time."""
        receipt: SimpleQueue[None] = SimpleQueue()
        self._inbox.put(_PendingCommit(receipt=receipt))
        try:
            receipt.get(timeout=timeout_s)
        except Empty:
            return False
        return True

    def close(self) -> None:
        """Have the thread end after its current work."""
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

    def _receive(self) -> _PendingCommit | None:
        """Return the next item; what is pending once it is due; what was committed once brokers are to be compared."""
        if not self._pending and (not self._committed or self.is_refused):
            return self._inbox.get()
        due = self._due if self._pending else self._due + self._rhythm.commit_check_s
        try:
            return self._inbox.get(timeout=max(0.0, due - time.monotonic()))
        except Empty:
            return _PendingCommit(self._pending or self._committed)

    def _attempt(self, positions: Positions) -> None:
        """Commit; keep what failed, and repeat it after a pause."""
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
        """Return what failed and is to be repeated. No error may end the thread."""
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
