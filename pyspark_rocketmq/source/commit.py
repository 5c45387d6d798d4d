"""When is finished work published to the broker, and what is never published?

The checkpoint alone decides where a query goes on; published positions serve lag tools and queries that start
with `startingOffsets=group`. Per queue the *next* offset of finished work is stored. Invariants:

- nothing is published that Spark has not acknowledged;
- a queue's published position never goes back: the broker's own value is read before the first publication. The only
  exception is a judged loss: where a queue ends below what is published (topic made anew, broker restored), the
  position follows the query down, with a warning;
- a broker that was killed comes back with positions that are some seconds old. So each broker is asked once a minute,
  and after a failure, where the group stands, and is told again where that is less than it was told. An administrator
  who moves the group back is outranked in the same way; only members of a group obey;
- a failure is warned about and made good later; it never fails the query, and none holds up what is elsewhere.

Publishing happens in a thread of its own with a cluster of its own, so that planning does not wait for it. The two
threads share nothing but mail: the planner sends positions, the publishing thread keeps the newest until its time.
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
from ..net.backoff import Backoff
from ..offsets.position import Positions

__all__ = ["ASK_AGAIN_S", "LOOK_AGAIN_S", "Committer", "GroupGuard", "Publisher"]

ASK_AGAIN_S = 60.0
"""How long a group without members is taken for free."""

LOOK_AGAIN_S = 60.0
"""How often a broker is asked whether it still knows what it was told."""

_log = logging.getLogger(__name__)
_PAUSE = Backoff(first_s=1.0, longest_s=30.0)


class GroupGuard:
    """Keeps Spark from publishing for a group with live members.

    At their next rebalance they would take over Spark's positions and skip messages.
    """

    def __init__(self, cluster: Cluster, group: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._cluster = cluster
        self._group = group
        self._clock = clock
        self._due = float("-inf")

    def check(self, topics: Iterable[str]) -> None:
        """Ask the brokers of these topics, a minute after the last time; refuse if one of them knows a member."""
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
        self._due = self._clock() + ASK_AGAIN_S

    def _representatives(self, topics: Iterable[str]) -> list[str]:
        """One topic for each set of brokers: a member tells all brokers of its topics that it lives."""
        found: dict[frozenset[str], str] = {}
        for topic in topics:
            with suppress(TopicNotFound):  # Nobody can be its member now.
                found[frozenset(self._cluster.routes.route(topic).brokers)] = topic
        return list(found.values())


Publish = Callable[[Positions, Collection[MessageQueue]], list[RocketMQError]]
"""Stores positions, those of the given queues also backwards, and returns what failed."""


class Publisher:
    """Stores positions of a group at the brokers, backwards only after a loss."""

    def __init__(
        self, cluster: Cluster, group: str, guard: GroupGuard, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._cluster = cluster
        self._group = group
        self._guard = guard
        self._clock = clock
        self._published: dict[MessageQueue, int] = {}
        self._prepared: set[str] = set()
        self._look_again_at: dict[str, float] = {}
        """When each broker is asked whether it still knows what it was told."""

    def publish(self, positions: Positions, fallen: Collection[MessageQueue] = ()) -> list[RocketMQError]:
        """Store what is ahead of the brokers' positions, for the first time of a queue also what is equal.

        A judged loss moved the query back in the `fallen` queues, where smaller positions are stored as well.
        Returns what failed, one topic at one broker at a time; raises if the group must not be published for.
        """
        failures = self._look_again()
        parts = _by_place(self._news(positions, fallen))
        if parts:
            self._guard.check({topic for topic, _ in parts})
        for (_, broker_name), part in parts.items():
            try:
                self._publish_at(broker_name, part, fallen)
            except RocketMQError as error:
                self._look_again_at[broker_name] = self._clock()
                failures.append(error)
        return failures

    def _look_again(self) -> list[RocketMQError]:
        """Find what brokers have forgotten, so that it is news; returns what failed."""
        failures = []
        for broker_name, due in self._look_again_at.items():
            if self._clock() >= due:
                try:
                    self._find_forgotten([queue for queue in self._published if queue.broker_name == broker_name])
                except RocketMQError as error:
                    failures.append(error)
                else:
                    self._look_again_at[broker_name] = self._clock() + LOOK_AGAIN_S
        return failures

    def _find_forgotten(self, queues: Collection[MessageQueue]) -> None:
        """Take back what brokers do not know any more; replicas always lie behind, so their word counts for nothing."""
        standings = self._cluster.offsets.fetch_standings(self._group, queues)
        for queue in queues:
            standing, told = standings.get(queue), self._published[queue]
            if standing is None:
                del self._published[queue]
            elif standing.offset < told and not standing.from_replica:
                self._published[queue] = standing.offset
            else:
                continue
            text = "%s: the broker reports offset %s for group %s, expected %d; committing again"
            _log.warning(text, queue, standing and standing.offset, self._group, told)

    def _news(self, positions: Positions, fallen: Collection[MessageQueue]) -> dict[MessageQueue, int]:
        published = {queue: self._published.get(queue, -1) for queue in positions}
        return {
            queue: offset
            for queue, offset in positions.items()
            if offset > published[queue] or (queue in fallen and offset < published[queue])
        }

    def _publish_at(self, broker_name: str, positions: Positions, fallen: Collection[MessageQueue]) -> None:
        self._prepare_group(broker_name)
        unread = [queue for queue in positions if queue not in self._published]
        held = self._cluster.offsets.fetch_committed(self._group, unread) if unread else {}
        self._warn_of_larger(positions, {**self._published, **held}, fallen)
        wanted = {queue: at for queue, at in positions.items() if at >= held.get(queue, 0) or queue in fallen}
        self._cluster.offsets.commit(self._group, wanted)
        self._published |= held | wanted
        self._look_again_at.setdefault(broker_name, self._clock() + LOOK_AGAIN_S)

    def _prepare_group(self, broker_name: str) -> None:
        """Ask the broker once for the group, which makes it where that is allowed; since 5.3 it must be known."""
        if broker_name in self._prepared:
            return
        try:
            self._cluster.admin.fetch_group_config(self._group, broker_name)
        except RocketMQError as error:
            _log.debug("group %s was not made beforehand at %s: %s", self._group, broker_name, error)
        self._prepared.add(broker_name)

    def _warn_of_larger(self, positions: Positions, held: Positions, fallen: Collection[MessageQueue]) -> None:
        for queue, offset in positions.items():
            if held.get(queue, -1) > offset:
                what = "is moved back to it, after the loss that was reported" if queue in fallen else "stays"
                text = "%s: the broker's position %d of group %s is ahead of this query's %d and %s"
                _log.warning(text, queue, held[queue], self._group, offset, what)


def _by_place(positions: Positions) -> dict[tuple[str, str], dict[MessageQueue, int]]:
    parts: defaultdict[tuple[str, str], dict[MessageQueue, int]] = defaultdict(dict)
    for queue, offset in positions.items():
        parts[queue.topic, queue.broker_name][queue] = offset
    return parts


class _Letter(NamedTuple):
    """Positions to keep for publication, or a wish that what is kept be published now; neither says that time is up."""

    positions: Positions | None = None
    receipt: SimpleQueue[None] | None = None
    fallen: Collection[MessageQueue] = ()
    """Queues in which a judged loss moved the query back."""


class Committer:
    """Takes acknowledged positions and publishes the newest of them from a thread of its own."""

    def __init__(
        self,
        publish: Publish,
        min_interval_s: float = 0.0,
        pause: Backoff = _PAUSE,
    ) -> None:
        self._publish = publish
        self._min_interval_s = min_interval_s
        self._pause = pause
        self._acknowledged: Positions = {}
        self._mail: SimpleQueue[_Letter | None] = SimpleQueue()
        self._pending: Positions | None = None
        self._published: Positions | None = None
        self._fallen: set[MessageQueue] = set()
        self._due = float("-inf")
        self._failures_in_a_row = 0
        self.failure_count = 0
        """How many publications failed, in part or in whole."""
        self.is_refused = False
        """Whether the group turned out to have members; then nothing is published any more."""
        threading.Thread(target=self._serve, name="rocketmq-commit", daemon=True).start()

    def __repr__(self) -> str:
        state = "refused" if self.is_refused else f"{self.failure_count} failures"
        return f"<Committer {len(self._acknowledged)} queues acknowledged, {state}>"

    def acknowledge(self, positions: Positions, fallen: Collection[MessageQueue] = ()) -> None:
        """Everything before these positions is done; in `fallen` queues they are smaller after a loss. Never waits."""
        if positions != self._acknowledged:
            self._acknowledged = positions
            self._mail.put(_Letter(positions, fallen=fallen))

    def note_fallen(self, queues: Collection[MessageQueue]) -> None:
        """In these queues the next positions are smaller after a loss of an earlier run."""
        self._mail.put(_Letter(fallen=queues))

    def flush(self, timeout_s: float) -> bool:
        """Publish what is acknowledged now; whether that was over in time."""
        receipt: SimpleQueue[None] = SimpleQueue()
        self._mail.put(_Letter(receipt=receipt))
        try:
            receipt.get(timeout=timeout_s)
        except Empty:
            return False
        return True

    def close(self) -> None:
        """End the thread once it has done what it is at."""
        self._mail.put(None)

    # --- in the publishing thread ------------------------------------------------------------------------------------

    def _serve(self) -> None:
        while (letter := self._next_letter()) is not None:
            self._pending = letter.positions or self._pending
            self._fallen.update(letter.fallen)
            if self._pending and (letter.receipt or time.monotonic() >= self._due):
                self._attempt(self._pending)
            if letter.receipt:
                letter.receipt.put(None)

    def _next_letter(self) -> _Letter | None:
        """The next one; what is kept when it is time to publish it, or what was published when it is time to look."""
        if not self._pending and (not self._published or self.is_refused):
            return self._mail.get()
        due = self._due if self._pending else self._due + LOOK_AGAIN_S
        try:
            return self._mail.get(timeout=max(0.0, due - time.monotonic()))
        except Empty:
            return _Letter(self._pending or self._published)

    def _attempt(self, positions: Positions) -> None:
        """Publish; what failed is kept and tried again after a pause."""
        wait_s = self._min_interval_s
        if self._succeeds(positions):
            self._pending, self._published = None, positions
            self._fallen.clear()
            self._failures_in_a_row = 0
        else:
            wait_s = max(wait_s, self._pause.delay_s(self._failures_in_a_row))
            self._failures_in_a_row += 1
            self.failure_count += 1
        self._due = time.monotonic() + wait_s

    def _succeeds(self, positions: Positions) -> bool:
        """Whether there is nothing to try again. Whatever goes wrong here must not end the thread."""
        if self.is_refused:
            return True
        try:
            failures: list[Exception] = [*self._publish(positions, self._fallen)]
        except GroupInUse as error:
            self.is_refused = True
            _log.warning("positions are not published any more: %s", error)
            return True
        except Exception as error:
            failures = [error]
        for failure in failures:
            _log.warning("positions were not published and will be later: %s", failure)
        return not failures
