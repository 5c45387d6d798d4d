"""Which route is in force now?

The table keeps one snapshot per topic. A snapshot is fetched again when it has come of age or when somebody was told
that it is wrong (`expire`). While no name server can be reached the last one stays in force: brokers serve on
without name servers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from ..errors import RocketMQError
from ..net.deadline import Deadline
from .routes import BrokerPlaces, Route

KEEP_STALE_S = 1.0
"""How long a snapshot that could not be renewed serves until the next attempt."""


class _Entry(NamedTuple):
    route: Route
    due: float
    """When to fetch it again, on the table's clock."""


class RouteTable:
    """The routes of all topics in use. For any thread."""

    def __init__(
        self,
        fetch: Callable[[str, Deadline | None], Route],
        max_age_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fetch = fetch
        self._max_age_s = max_age_s
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: dict[str, _Entry] = {}

    def __repr__(self) -> str:
        return f"<RouteTable {len(self._entries)} topics, {len(self.known_brokers())} brokers>"

    def route(self, topic: str, deadline: Deadline | None = None) -> Route:
        """The route in force, fetched if need be."""
        entry = self._entries.get(topic)
        if entry and self._clock() < entry.due:
            return entry.route
        return self._renew(topic, entry, deadline)

    def expire(self, topic: str) -> None:
        """Have the topic's route fetched before it is used again."""
        with self._lock:
            if entry := self._entries.get(topic):
                self._entries[topic] = entry._replace(due=self._clock())

    def known_brokers(self) -> dict[str, BrokerPlaces]:
        """Every broker that the routes in the table name."""
        with self._lock:
            entries = tuple(self._entries.values())
        return {name: places for entry in entries for name, places in entry.route.brokers.items()}

    def _renew(self, topic: str, old: _Entry | None, deadline: Deadline | None) -> Route:
        """Fetched outside the lock; of two threads that fetch at once, the later one wins."""
        try:
            route, lifetime_s = self._fetch(topic, deadline), self._max_age_s
        except RocketMQError as error:
            if not (old and error.retriable):
                self._drop(topic)
                raise
            route, lifetime_s = old.route, min(KEEP_STALE_S, self._max_age_s)
        with self._lock:
            self._entries[topic] = _Entry(route, self._clock() + lifetime_s)
        return route

    def _drop(self, topic: str) -> None:
        with self._lock:
            self._entries.pop(topic, None)
