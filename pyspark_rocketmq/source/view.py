"""Fetch offsets from brokers, and remember them for a moment.

A query plans about a hundred times a second. While nothing is new, a broker gets at most ten requests a second: one for
each topic, or one for each queue where it refuses statistics of topics. So an answer that cost more requests is
remembered longer.

Soon after news more news may follow. So the price of a request is low right after news and grows to its full height:
where one request is enough, a message waits for the next request no longer than a sixteenth of the time since the last.
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
"""Part of the time since the last news that one request costs, while that is less than its full price."""

_log = logging.getLogger(__name__)


class BrokerView:
    """The last reports of brokers about queues and the group; the `OffsetSource` of a planner."""

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
        """Whether the bounds in memory have expired."""
        return self._clock() >= self._due

    def fetch_bounds(self, queues: Collection[MessageQueue]) -> Mapping[MessageQueue, QueueBounds]:
        """Return minimum and next offset of each queue, as of at most a moment ago."""
        if self.is_due or not self._known.keys() >= set(queues):
            self._renew(queues)
        return {queue: self._known[queue] for queue in queues}

    def forget(self) -> None:
        """Have the next call send requests, for minimum offsets, too: the caller knows more than is remembered."""
        self._due = self._minima_due = float("-inf")

    def fetch_offsets_at(self, times_ms: Mapping[MessageQueue, int]) -> Mapping[MessageQueue, int]:
        """Return the first offset stored at or after each queue's time; the next offset if there is none."""
        return self._cluster.offsets.fetch_first_since(times_ms)

    def fetch_committed(self, queues: Collection[MessageQueue]) -> Mapping[MessageQueue, int]:
        """Return the group's position in each queue that has one."""
        return self._cluster.offsets.fetch_committed(self._group, queues) if self._group else {}

    def fetch_first_readable(self, bounds: Mapping[MessageQueue, QueueBounds]) -> Mapping[MessageQueue, int]:
        """Return the first readable offset of each queue; the minimum where brokers do not answer."""
        places = {queue: (each.min_offset, each.max_offset) for queue, each in bounds.items()}
        try:
            return self._cluster.offsets.fetch_first_readable(self._group or READER_GROUP, places)
        except RocketMQError as error:
            text = "could not find the first readable messages of %d queues, reading from their minimum offsets: %s"
            _log.warning(text, len(places), error)
            return {queue: low for queue, (low, _) in places.items()}

    def _renew(self, queues: Collection[MessageQueue]) -> None:
        """Fetch bounds. A queue that ends before its known minimum was created again, so minima are fetched, too."""
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
        """Return the cache lifetime, in seconds, of an answer that cost `requests`."""
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
    """Return the view of a reader whose group's positions are at the brokers, or in a file."""
    if options.local is None:
        return BrokerView(cluster, options.pull.group, rhythm)
    from .local_positions import LocalPositions, LocalView

    return LocalView(cluster, LocalPositions(options.local, options.client), rhythm)
