"""Cache the routes of topics, and renew the stale ones.

The table keeps one snapshot per topic. A snapshot is stale when its lifetime is over, or when a broker's error said so
(`expire`); then it is fetched before it is used again. While no name server can be reached the last snapshot stays in
force: brokers serve on without name servers. A failed renewal of one route counts for all topics: for a while no known
route is renewed, so that waiting for unreachable name servers takes a fifth of the time at most. The table is bounded
in topics, and in the objects that all its routes hold together.
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
"""For how many seconds stale snapshots serve when one could not be renewed, ..."""
SILENCE_PER_WAIT = 4.0
"""... for each second that the failed renewal took."""
MOST_TOPICS, MOST_OBJECTS = 20_000, 1_000_000
"""Bounds of the table: routes, and the queues and broker processes that all routes name together."""
_PARTS_OF_TIME = 2
"""A renewal gets this fraction of the caller's time (1/2): the caller needs the rest for its request."""


class FetchRoute(Protocol):
    """A function that fetches a topic's route from the name servers."""

    def __call__(self, topic: str, deadline: Deadline | None, /, *, once: bool) -> Route:
        """Return a topic's route; with `once` every name server gets the request at most once."""


class _CachedRoute(NamedTuple):
    route: Route
    due: float
    """Time at which the route becomes stale, on the table's clock."""


class RouteTable:
    """The routes of all topics in use, for any thread."""

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
        """Number of queues and broker processes of all routes."""
        self._silent_until = float("-inf")

    def __repr__(self) -> str:
        return f"<RouteTable {len(self._entries)} topics, {len(self.known_brokers())} brokers>"

    def route(self, topic: str, deadline: Deadline | None = None, *, once: bool = False) -> Route:
        """Return the route in force, and fetch it if it is stale or unknown; `once` forbids repeated requests."""
        entry = self._entries.get(topic)
        if entry is None:
            return self._fetch_new(topic, deadline, once=once)
        if self._clock() < max(entry.due, self._silent_until):
            return entry.route
        return self._renew(topic, entry.route, deadline)

    def expire(self, topic: str) -> None:
        """Mark the topic's route as stale."""
        with self._lock:
            if entry := self._entries.get(topic):
                self._entries[topic] = entry._replace(due=self._clock())

    def known_brokers(self) -> dict[str, BrokerEndpoints]:
        """Return every broker that the routes in the table name."""
        with self._lock:
            entries = tuple(self._entries.values())
        return {name: places for entry in entries for name, places in entry.route.brokers.items()}

    def _renew(self, topic: str, old: Route, deadline: Deadline | None) -> Route:
        """Return the new route, or the old one when no name server replies to one request."""
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
        """Fetch a route outside the lock and keep it; of two threads that fetch at once, the later one wins."""
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
