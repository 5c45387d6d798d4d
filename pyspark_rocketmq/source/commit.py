"""When is finished work published to the broker, and what is never published?

The checkpoint alone decides where a query goes on; published positions serve lag tools and queries that start
with `startingOffsets=group`. Per queue the *next* offset of finished work is stored. Invariants:

- nothing is published that Spark has not acknowledged;
- a queue's published position never goes back: the broker's own value is read before the first publication;
- a failure is warned about and made good at the next acknowledgement; it never fails the query.

Publishing happens in one background thread, so that planning does not wait for it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

from ..cluster.cluster import Cluster
from ..errors import GroupInUse, RocketMQError
from ..model import MessageQueue
from ..offsets.position import Positions

__all__ = ["Committer", "Publisher", "require_free_group"]

_log = logging.getLogger(__name__)
_ASK_AGAIN_S = 60.0


class Publisher:
    """Stores positions of a group at the brokers, never backwards."""

    def __init__(self, cluster: Cluster, group: str) -> None:
        self._cluster = cluster
        self._group = group
        self._published: dict[MessageQueue, int] = {}
        self._prepared: set[str] = set()

    @property
    def published(self) -> Positions:
        """What the brokers are known to hold."""
        return self._published

    def publish(self, positions: Positions) -> None:
        """Store every position that is ahead of what the broker has; the first time of a queue, equal ones too."""
        self._prepare_group({queue.broker_name for queue in positions})
        first = [queue for queue in positions if queue not in self._published]
        held = self._cluster.offsets.fetch_committed(self._group, first) if first else {}
        self._warn_of_larger(positions, held)
        known = {**self._published, **held}
        ahead = {queue: offset for queue, offset in positions.items() if offset > known.get(queue, -1)}
        if ahead:
            self._cluster.offsets.commit(self._group, ahead)
        self._published = {**known, **ahead}

    def _prepare_group(self, broker_names: set[str]) -> None:
        """Ask each broker once for the group, which makes it where that is allowed; since 5.3 it must be known."""
        for name in sorted(broker_names - self._prepared):
            try:
                self._cluster.admin.fetch_group_config(self._group, name)
            except RocketMQError as error:
                _log.debug("group %s was not made beforehand at %s: %s", self._group, name, error)
        self._prepared |= broker_names

    def _warn_of_larger(self, positions: Positions, held: Positions) -> None:
        for queue, offset in held.items():
            if offset > positions[queue]:
                text = "%s: the broker's position %d of group %s is ahead of this query's %d and stays"
                _log.warning(text, queue, offset, self._group, positions[queue])


def require_free_group(cluster: Cluster, group: str, topic: str) -> None:
    """Refuse a group with live members: at their next rebalance they would take over Spark's positions."""
    members = cluster.groups.fetch_members(group, topic)
    if members:
        raise GroupInUse(
            f"the group has {len(members)} live members, which would skip what Spark has read",
            advice="give Spark a group of its own with consumerGroup, or set commitOffsets=none",
            group=group,
            topic=topic,
        )


class Committer:
    """Takes acknowledged positions and publishes the latest of them in the background."""

    def __init__(
        self,
        publisher: Publisher,
        check_group: Callable[[], None],
        min_interval_s: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._publisher = publisher
        self._check_group = check_group
        self._min_interval_s = min_interval_s
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rocketmq-commit")
        self._under_way: Future[None] | None = None
        self._acknowledged: Mapping[MessageQueue, int] = {}
        self._next_publication = self._next_check = float("-inf")
        self._is_refused = False

    def __repr__(self) -> str:
        state = "refused" if self._is_refused else "publishing" if self._is_busy else "idle"
        return f"<Committer {state}, {len(self._acknowledged)} queues acknowledged>"

    def acknowledge(self, positions: Positions) -> None:
        """Everything before these positions is done."""
        self._acknowledged = positions
        if not (self._is_busy or self._is_refused or self._clock() < self._next_publication) and self._has_news:
            self._next_publication = self._clock() + self._min_interval_s
            self._under_way = self._thread.submit(self._publish, positions)

    def flush(self, timeout_s: float) -> None:
        """Publish what is acknowledged now, as far as that is done in time."""
        if self._under_way:
            self._under_way.exception(timeout_s)
        if not self._is_refused and self._has_news:
            self._thread.submit(self._publish, self._acknowledged).exception(timeout_s)

    @property
    def _is_busy(self) -> bool:
        return self._under_way is not None and not self._under_way.done()

    @property
    def _has_news(self) -> bool:
        published = self._publisher.published
        return any(published.get(queue, -1) < offset for queue, offset in self._acknowledged.items())

    def _publish(self, positions: Positions) -> None:
        try:
            self._check_members()
            self._publisher.publish(positions)
        except GroupInUse as error:
            self._is_refused = True
            _log.warning("positions are not published any more: %s", error)
        except RocketMQError as error:
            _log.warning("positions were not published and will be at the next acknowledgement: %s", error)

    def _check_members(self) -> None:
        """Members may join while the query runs."""
        if self._clock() >= self._next_check:
            self._next_check = self._clock() + _ASK_AGAIN_S
            self._check_group()
