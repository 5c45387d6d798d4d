"""Cache the routes of topics, and renew the stale ones.

The table keeps one route per topic. A route is stale when its lifetime is over, or when a broker's error said so
(`expire`); then it is fetched again before it is used. While no name server can be reached the last route stays in use,
since brokers work without name servers. A failed renewal of one route counts for all topics: for a while no known route
is renewed, so that waiting for unreachable name servers takes a fifth of the time at most. The table limits the number
of topics, and of the objects that all its routes hold together.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

from ..errors import LimitExceeded, RocketMQError, TopicNotFound
from ..net.deadline import Deadline, share
from .routes import BrokerEndpoints, Route

LEAST_SILENCE_S, LONGEST_SILENCE_S = 1.0, 30.0
"""Limits, in seconds, of the time without renewals after a renewal failed."""
SILENCE_PER_WAIT = 4.0
"""The time without renewals after a failed one, as a multiple of the time that the failed one took."""
MOST_TOPICS, MOST_OBJECTS = 20_000, 1_000_000
"""Limits of the table: number of routes, and of the queues and broker processes in all of them."""
_PARTS_OF_TIME = 2
"""A renewal gets the caller's time divided by this number, so that time for the caller's own request is left."""


class FetchRoute(Protocol):
    """A function that fetches a topic's route from the name servers."""

    def __call__(self, topic: str, deadline: Deadline | None, /, *, once: bool) -> Route:
        """Return a topic's route; with `once` every name server gets the request at most once."""


class _CachedRoute(NamedTuple):
    route: Route
    due: float
    """Time at which the route becomes stale, on the table's clock."""


class RouteTable:
    """The current routes of all topics in use; safe for use by many threads."""

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
        """Number of queues and broker processes that all routes name together."""
        self._silent_until = float("-inf")

    def __repr__(self) -> str:
        return f"<RouteTable {len(self._entries)} topics, {len(self.known_brokers())} brokers>"

    def route(self, topic: str, deadline: Deadline | None = None, *, once: bool = False) -> Route:
        """Return the topic's current route; fetch it first if it is stale or unknown.

        While no name server replies, return the stale route. A stale route is requested from every name server at most
        once; an unknown one repeatedly, unless `once` is true.
        """
        entry = self._entries.get(topic)
        if entry is None:
            return self._fetch_new(topic, deadline, once=once)
        if self._clock() < max(entry.due, self._silent_until):
            return entry.route
        return self._renew(topic, entry.route, deadline)

    def has(self, topic: str) -> bool:
        """Return whether a name server knows the topic."""
        try:
            self.route(topic)
        except TopicNotFound:
            return False
        return True

    def expire(self, topic: str) -> None:
        """Mark the topic's route as stale."""
        with self._lock:
            if entry := self._entries.get(topic):
                self._entries[topic] = entry._replace(due=self._clock())

    def known_brokers(self) -> dict[str, BrokerEndpoints]:
        """Return all brokers that the routes in the table name, by broker name."""
        with self._lock:
            entries = tuple(self._entries.values())
        return {name: places for entry in entries for name, places in entry.route.brokers.items()}

    def _renew(self, topic: str, old: Route, deadline: Deadline | None) -> Route:
        """Ask every name server at most once for a new route; return the `old` one if no name server replies.

        If the request fails with an error that is not retriable, remove the old route from the table and raise it.
        """
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
        """Fetch a route and store it in the table; if two threads do so at once, the later one wins."""
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
