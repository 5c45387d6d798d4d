"""Fetch offsets from brokers, and cache them for a short time.

A query plans about a hundred times a second. While nothing is new, a broker gets at most ten requests a second. Bounds
cost a request for each topic, or one for each queue if the broker refuses statistics of topics. So bounds that cost
more requests are cached longer.

Soon after a new message more may follow. So bounds are cached for a shorter time right after new messages: if bounds
cost one request, a message waits for the next request for at most a sixteenth of the time since the last new message.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from ..cluster.cluster import Cluster
from ..cluster.names import READER_GROUP
from ..errors import RocketMQError
from ..model import MessageQueue, QueueBounds
from ..options.reader_options import ReaderOptions
from .rhythm import NORMAL, PlannerRhythm

__all__ = ["BrokerView", "make_view"]

_PART_AFTER_NEWS = 1 / 16
"""The cache lifetime for each request, as a part of the time since bounds last changed; `bounds_s` is its maximum."""

_log = logging.getLogger(__name__)


class BrokerView:
    """Fetches and caches bounds of queues, and fetches positions of the group; the `OffsetSource` of a planner."""

    def __init__(self, cluster: Cluster, group: str | None, rhythm: PlannerRhythm = NORMAL) -> None:
        self._cluster = cluster
        self._group = group
        self._clock = rhythm.clock
        self._rhythm = rhythm
        self._known: Mapping[MessageQueue, QueueBounds] = {}
        self._due = float("-inf")
        self._last_news = float("-inf")
        self._minima_due = float("-inf")

    @property
    def last_known(self) -> Mapping[MessageQueue, QueueBounds]:
        """The bounds that were fetched last."""
        return self._known

    @property
    def is_due(self) -> bool:
        """Whether the cached bounds have expired."""
        return self._clock() >= self._due

    def fetch_bounds(self, queues: Collection[MessageQueue]) -> Mapping[MessageQueue, QueueBounds]:
        """Return the bounds of each queue, from the cache until it expires."""
        if self.is_due or not self._known.keys() >= set(queues):
            self._renew(queues)
        return {queue: self._known[queue] for queue in queues}

    def forget(self) -> None:
        """Drop cached bounds, so that the next call fetches minimum and maximum offsets from brokers."""
        self._due = self._minima_due = float("-inf")

    def fetch_offsets_at(self, times_ms: Mapping[MessageQueue, int]) -> Mapping[MessageQueue, int]:
        """Return, for each queue, the offset of the first message stored at or after its time; without one, the end."""
        return self._cluster.offsets.fetch_first_since(times_ms)

    def fetch_committed(self, queues: Collection[MessageQueue]) -> Mapping[MessageQueue, int]:
        """Return the group's committed position in each queue that has one."""
        return self._cluster.offsets.fetch_committed(self._group, queues) if self._group else {}

    def fetch_first_readable(self, bounds: Mapping[MessageQueue, QueueBounds]) -> Mapping[MessageQueue, int]:
        """Return the offset of each queue's first readable message; after any error, every queue's minimum offset."""
        places = {queue: (each.min_offset, each.max_offset) for queue, each in bounds.items()}
        try:
            return self._cluster.offsets.fetch_first_readable(self._group or READER_GROUP, places)
        except RocketMQError as error:
            text = "could not find the first readable messages of %d queues, reading from their minimum offsets: %s"
            _log.warning(text, len(places), error)
            return {queue: low for queue, (low, _) in places.items()}

    def _renew(self, queues: Collection[MessageQueue]) -> None:
        """Fetch the bounds of queues into the cache; minimum offsets only if the cached ones have expired.

        If a queue's maximum offset is below its cached minimum, the queue was deleted and created again. In that case
        the minimum offsets of all these queues are fetched, too.
        """
        minima = self._known_minima()
        found = self._request(queues, minima)
        if any(bounds.max_offset < bounds.min_offset for bounds in found.values()):
            minima = {}
            found = self._request(queues, minima)
        if not minima:
            self._minima_due = self._clock() + self._rhythm.minimum_offsets_s
        if self._known and found != self._known:
            self._last_news = self._clock()
        requests = self._cluster.offsets.count_requests(queues, minima)
        self._known, self._due = found, self._clock() + self._cache_lifetime(requests)

    def _cache_lifetime(self, requests: int) -> float:
        """Return the cache lifetime, in seconds, of bounds that cost this number of requests."""
        full = self._rhythm.bounds_s
        each = min(full, _PART_AFTER_NEWS * (self._clock() - self._last_news))
        return max(_PART_AFTER_NEWS * full, requests * each)

    def _request(
        self, queues: Collection[MessageQueue], minima: Mapping[MessageQueue, int]
    ) -> dict[MessageQueue, QueueBounds]:
        return self._cluster.offsets.fetch_bounds(queues, smallest=minima)

    def _known_minima(self) -> dict[MessageQueue, int]:
        if self._clock() >= self._minima_due:
            return {}
        return {queue: bounds.min_offset for queue, bounds in self._known.items()}


def make_view(cluster: Cluster, options: ReaderOptions, rhythm: PlannerRhythm = NORMAL) -> BrokerView:
    """Return the planner's source of offsets: `LocalView` if positions are kept in a local file, else `BrokerView`."""
    if options.local is None:
        return BrokerView(cluster, options.pull.group, rhythm)
    from .local_positions import LocalPositions, LocalView

    return LocalView(cluster, LocalPositions(options.local, options.client), rhythm)
