"""Which route is in force now?

The table keeps one snapshot per topic. A snapshot is fetched again when it has come of age or when somebody was told
that it is wrong (`expire`). While no name server can be reached the last one stays in force: brokers serve on
without name servers. Who fails to renew one topic's route has found out for all topics, so for a while nobody asks
for any that is known: waiting for name servers that are away takes a fifth of the time at most. The table is bounded
in topics and in what all its routes hold together.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

from ..errors import LimitExceeded, RocketMQError
from ..net.deadline import Deadline, share
from .routes import BrokerEndpoints, Route

LEAST_SILENCE_S, LONGEST_SILENCE_S = 1.0, 30.0
"""How long old snapshots serve unasked when one could not be renewed, ..."""
SILENCE_PER_WAIT = 4.0
"""... for each second that finding out took."""
MOST_TOPICS, MOST_OBJECTS = 20_000, 1_000_000
"""How many routes are kept, and how many queues and broker processes these name together."""
_PARTS_OF_TIME = 2
"""One of so many parts of its time a caller gives to renewing what it has: the rest is for using it."""


class FetchRoute(Protocol):
    """Asks the name servers for a topic's route."""

    def __call__(self, topic: str, deadline: Deadline | None, /, *, once: bool) -> Route:
        """With `once` no name server is asked again."""


class _CachedRoute(NamedTuple):
    route: Route
    due: float
    """When to fetch it again, on the table's clock."""


class RouteTable:
    """The routes of all topics in use. For any thread."""

    def __init__(
        self,
        fetch: FetchRoute,
        max_age_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fetch = fetch
        self._max_age_s = max_age_s
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: dict[str, _CachedRoute] = {}
        self._weight = 0
        """The queues and broker processes of all routes."""
        self._silent_until = float("-inf")

    def __repr__(self) -> str:
        return f"<RouteTable {len(self._entries)} topics, {len(self.known_brokers())} brokers>"

    def route(self, topic: str, deadline: Deadline | None = None, *, once: bool = False) -> Route:
        """The route in force, fetched if need be; with `once` without insistence, though there is none yet."""
        entry = self._entries.get(topic)
        if entry is None:
            return self._fetch_new(topic, deadline, once=once)
        if self._clock() < max(entry.due, self._silent_until):
            return entry.route
        return self._renew(topic, entry.route, deadline)

    def expire(self, topic: str) -> None:
        """Have the topic's route fetched before it is used again, unless name servers are away."""
        with self._lock:
            if entry := self._entries.get(topic):
                self._entries[topic] = entry._replace(due=self._clock())

    def known_brokers(self) -> dict[str, BrokerEndpoints]:
        """Every broker that the routes in the table name."""
        with self._lock:
            entries = tuple(self._entries.values())
        return {name: places for entry in entries for name, places in entry.route.brokers.items()}

    def _renew(self, topic: str, old: Route, deadline: Deadline | None) -> Route:
        """The new route; the old one when no name server answers, which is tried once only."""
        asked_at = self._clock()
        try:
            return self._fetch_new(topic, share(deadline, _PARTS_OF_TIME), once=True)
        except RocketMQError as error:
            if not error.retriable:
                self._drop(topic)
                raise
        self._be_silent(self._clock() - asked_at)
        return old

    def _fetch_new(self, topic: str, deadline: Deadline | None, *, once: bool) -> Route:
        """Fetched outside the lock; of two threads that fetch at once, the later one wins."""
        route = self._fetch(topic, deadline, once=once)
        with self._lock:
            self._put(topic, _CachedRoute(route, self._clock() + self._max_age_s))
            self._silent_until = float("-inf")
        return route

    def _be_silent(self, waited_s: float) -> None:
        pause_s = min(LONGEST_SILENCE_S, max(LEAST_SILENCE_S, SILENCE_PER_WAIT * waited_s))
        with self._lock:
            self._silent_until = self._clock() + pause_s

    def _put(self, topic: str, entry: _CachedRoute) -> None:
        old = self._entries.get(topic)
        weight = self._weight + entry.route.weight - (old.route.weight if old else 0)
        count = len(self._entries) + (old is None)
        if weight > MOST_OBJECTS or count > MOST_TOPICS:
            raise LimitExceeded(
                f"the routes of {count} topics name {weight} queues and broker processes, the limits are {MOST_TOPICS} "
                f"and {MOST_OBJECTS}",
                advice="read fewer topics in one query: narrow subscribePattern, or list them with subscribe",
                topic=topic,
            )
        self._weight = weight
        self._entries[topic] = entry

    def _drop(self, topic: str) -> None:
        with self._lock:
            if entry := self._entries.pop(topic, None):
                self._weight -= entry.route.weight
