"""What do brokers say about offsets, in the words of the room `offsets`?

Bounds are remembered for a moment: a query plans about a hundred times a second, and while nothing is new a broker is
asked at most ten times in it. So what counts is how many requests the question costs it: one for each topic, or where
it refuses statistics of topics one for each queue. The more it costs, the longer the answer is remembered.

Where something was new, more may follow soon. So the price is low right after news and grows to its full height: where
one request is enough, a message waits for the next question no longer than a sixteenth of the time since the last one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping

from ..cluster.cluster import Cluster
from ..cluster.names import READER_GROUP
from ..errors import RocketMQError
from ..model import MessageQueue, QueueBounds

__all__ = ["SECONDS_PER_REQUEST", "SMALLEST_LAST_S", "BrokerView"]

SECONDS_PER_REQUEST = 0.1
"""What one request to a broker costs of the time in which nothing more is asked."""

_PART_AFTER_NEWS = 1 / 16
"""What one request costs of the time since the last news, while that is less than its full price."""

SMALLEST_LAST_S = 30.0
"""How long smallest offsets are taken for granted where each costs a request; pulls tell of those that moved on."""


_log = logging.getLogger(__name__)


class BrokerView:
    """Answers the questions of `offsets.resolve`."""

    def __init__(self, cluster: Cluster, group: str | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._cluster = cluster
        self._group = group
        self._clock = clock
        self._known: Mapping[MessageQueue, QueueBounds] = {}
        self._due = float("-inf")
        self._last_news = float("-inf")
        self._smallest_due = float("-inf")

    @property
    def last_known(self) -> Mapping[MessageQueue, QueueBounds]:
        """The bounds that were fetched last."""
        return self._known

    @property
    def is_due(self) -> bool:
        """Whether the moment is over for which bounds are remembered."""
        return self._clock() >= self._due

    def fetch_bounds(self, queues: Collection[MessageQueue]) -> Mapping[MessageQueue, QueueBounds]:
        """Smallest and next offset of each queue, as of at most a moment ago."""
        if self.is_due or not self._known.keys() >= set(queues):
            self._renew(queues)
        return {queue: self._known[queue] for queue in queues}

    def forget(self) -> None:
        """Have the next question go out at once, for smallest offsets, too: somebody knows more than was remembered."""
        self._due = self._smallest_due = float("-inf")

    def fetch_offsets_at(self, times_ms: Mapping[MessageQueue, int]) -> Mapping[MessageQueue, int]:
        """Offset of the first message stored at or after each queue's time; the next offset if there is none."""
        return self._cluster.offsets.fetch_first_since(times_ms)

    def fetch_committed(self, queues: Collection[MessageQueue]) -> Mapping[MessageQueue, int]:
        """The group's position in each queue that has one."""
        return self._cluster.offsets.fetch_committed(self._group, queues) if self._group else {}

    def fetch_first_readable(self, bounds: Mapping[MessageQueue, QueueBounds]) -> Mapping[MessageQueue, int]:
        """The first readable offset of each queue; the smallest one where that cannot be found out."""
        places = {queue: (each.min_offset, each.max_offset) for queue, each in bounds.items()}
        try:
            return self._cluster.offsets.fetch_first_readable(self._group or READER_GROUP, places)
        except RocketMQError as error:
            text = "reading begins at the smallest offsets of %d queues, which may be gone already: %s"
            _log.warning(text, len(places), error)
            return {queue: low for queue, (low, _) in places.items()}

    def _renew(self, queues: Collection[MessageQueue]) -> None:
        """Ask; a queue that ends before its smallest offset was made anew, so smallest offsets are asked for, too."""
        smallest = self._smallest()
        found = self._ask(queues, smallest)
        if any(bounds.max_offset < bounds.min_offset for bounds in found.values()):
            smallest = {}
            found = self._ask(queues, smallest)
        if not smallest:
            self._smallest_due = self._clock() + SMALLEST_LAST_S
        if self._known and found != self._known:
            self._last_news = self._clock()
        requests = self._cluster.offsets.count_requests(queues, smallest)
        self._known, self._due = found, self._clock() + self._price(requests)

    def _price(self, requests: int) -> float:
        """For how many seconds an answer is remembered that cost so many requests."""
        each = min(SECONDS_PER_REQUEST, _PART_AFTER_NEWS * (self._clock() - self._last_news))
        return max(_PART_AFTER_NEWS * SECONDS_PER_REQUEST, requests * each)

    def _ask(
        self, queues: Collection[MessageQueue], smallest: Mapping[MessageQueue, int]
    ) -> dict[MessageQueue, QueueBounds]:
        return self._cluster.offsets.fetch_bounds(queues, smallest=smallest)

    def _smallest(self) -> dict[MessageQueue, int]:
        if self._clock() >= self._smallest_due:
            return {}
        return {queue: bounds.min_offset for queue, bounds in self._known.items()}
