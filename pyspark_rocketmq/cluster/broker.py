"""Send requests to the broker process that serves a topic now, and follow route changes.

A request for a queue goes to the address that the topic's route names for its broker: to the master, or to a replica if
there is no master and any copy can serve the request. When an error says that the route is stale, the next attempt uses
a new one. Requests for many queues leave in one burst per broker.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple, TypeVar, cast

from ..errors import AddressNotAllowed, NoBrokerAvailable, RocketMQError
from ..model import Address, MessageQueue
from ..net.deadline import Deadline, in_turn
from ..wire.bodies import TopicConfig
from ..wire.commands import GetTopicConfigRequestHeader, RequestHeader
from .compaction import CompactedTopics
from .retrying import Retrying
from .route_table import RouteTable
from .routes import MASTER_ID, BrokerEndpoint, Route
from .servers import OK, Reply, ServerRequest, Servers

K = TypeVar("K", bound=Hashable)
Errors = tuple[type[RocketMQError], ...]


class RoutedRequest(NamedTuple):
    """A request about a topic to one of its brokers; the topic's route decides which process of the broker gets it."""

    topic: str
    broker_name: str
    header: RequestHeader
    body: bytes = b""


def to_queue(queue: MessageQueue, header: RequestHeader) -> RoutedRequest:
    """Return a request to the broker that holds a queue."""
    return RoutedRequest(queue.topic, queue.broker_name, header)


class Brokers:
    """All brokers of a cluster; requests find them by the routes of topics.

    A request goes to the master of its broker. If there is no master, the request fails, or with `any_copy` goes to a
    replica.
    """

    def __init__(self, servers: Servers, routes: RouteTable) -> None:
        settings = servers.settings
        self.settings = settings
        self.servers = servers
        self.routes = routes
        self.compacted = CompactedTopics(self._fetch_topic_config)
        self._retrying = Retrying(settings.retries, settings.pause, wait_for_brokers_s=settings.wait_for_brokers_s)

    def __repr__(self) -> str:
        return f"<Brokers by {self.routes!r}>"

    # --- by route ----------------------------------------------------------------------------------------------------

    def ask(self, request: RoutedRequest, *, any_copy: bool = False, deadline: Deadline | None = None) -> Reply:
        """Send a request and return the broker's reply; repeat the request after a retriable error."""
        return self.ask_all({None: request}, any_copy=any_copy, deadline=deadline)[None]

    def ask_all(
        self,
        requests: Mapping[K, RoutedRequest],
        *,
        absent: Errors = (),
        any_copy: bool = False,
        deadline: Deadline | None = None,
    ) -> dict[K, Reply]:
        """Send many requests at once and return their replies; leave out requests that fail with an `absent` error.

        `absent` are error classes. Requests that fail with another retriable error are repeated.
        """
        results: dict[K, Reply | None] = {}

        def attempt() -> None:
            missing = {key: request for key, request in requests.items() if key not in results}
            failures = []
            for key, result in self.try_all(missing, any_copy=any_copy, deadline=deadline).items():
                if isinstance(result, Reply):
                    results[key] = result
                elif isinstance(result, absent):
                    results[key] = None
                else:
                    failures.append(result)
            if failures:
                raise next((error for error in failures if not error.retriable), failures[0])

        self._need_routes({request.topic for request in requests.values()}, deadline)
        self._retrying.run(attempt, deadline)
        return {key: reply for key in requests if (reply := results[key])}

    def try_all(
        self, requests: Mapping[K, RoutedRequest], *, any_copy: bool = False, deadline: Deadline | None = None
    ) -> dict[K, Reply | RocketMQError]:
        """Send many requests once, without repetition; return for each its reply, or its error instead of a reply."""
        routes = {topic: self._try_route(topic, deadline) for topic in {each.topic for each in requests.values()}}
        placed = {key: _place(request, routes[request.topic], any_copy) for key, request in requests.items()}
        sent = {key: each for key, each in placed.items() if isinstance(each, ServerRequest)}
        replies = dict(zip(sent, self.servers.ask_all(tuple(sent.values()), deadline=deadline), strict=True))
        results = {key: replies.get(key) or cast(RocketMQError, placed[key]) for key in requests}
        for key, result in results.items():
            self._learn(requests[key].topic, result)
        return results

    def ask_each(
        self,
        topic: str,
        header: RequestHeader,
        *,
        absent: Errors = (),
        any_copy: bool = False,
        deadline: Deadline | None = None,
    ) -> dict[str, Reply]:
        """Send the same request to every broker that holds queues of a topic; return replies by broker name."""
        requests = {name: RoutedRequest(topic, name, header) for name in self._names(topic, deadline)}
        return self.ask_all(requests, absent=absent, any_copy=any_copy, deadline=deadline)

    def ask_any(
        self, topic: str, header: RequestHeader, body: bytes = b"", *, deadline: Deadline | None = None
    ) -> Reply:
        """Send a request to the brokers of a topic, one at a time, until one replies; return this reply."""
        self._need_routes([topic], deadline)
        return self._retrying.run(lambda: self._ask_around(topic, header, body, deadline), deadline)

    def ask_once(
        self, request: RoutedRequest, *, welcome: Collection[int] = OK, deadline: Deadline | None = None
    ) -> Reply:
        """Send a request to the master once and return its reply; never repeat it, since it may store something."""
        with self._learning(request.topic):
            return self.servers.ask(self.locate(request, deadline=deadline), welcome=welcome, deadline=deadline)

    def tell_once(self, request: RoutedRequest, *, deadline: Deadline | None = None) -> None:
        """Send a master a one-way request; never repeat it."""
        with self._learning(request.topic):
            self.servers.tell(self.locate(request, deadline=deadline), deadline)

    def tell(self, request: RoutedRequest, *, deadline: Deadline | None = None) -> None:
        """Send a master a one-way request; repeat it after a retriable error."""
        self._need_routes([request.topic], deadline)
        self._retrying.run(lambda: self.tell_once(request, deadline=deadline), deadline)

    def locate(
        self, request: RoutedRequest, *, any_copy: bool = False, deadline: Deadline | None = None
    ) -> ServerRequest:
        """Return a request with the address of the master, or with `any_copy` of a replica if there is no master."""
        placed = _place(request, self.routes.route(request.topic, deadline), any_copy)
        if isinstance(placed, RocketMQError):
            raise placed
        return placed

    # --- by address --------------------------------------------------------------------------------------------------

    def ask_at(
        self,
        address: Address,
        header: RequestHeader,
        body: bytes = b"",
        *,
        broker_name: str = "",
        deadline: Deadline | None = None,
    ) -> Reply:
        """Return the reply of the broker process at an address; repeat the request after a retriable error."""
        request = ServerRequest(address, header, body, broker_name)
        return self._retrying.run(lambda: self.servers.ask(request, deadline=deadline), deadline)

    # --- routes ------------------------------------------------------------------------------------------------------

    @contextmanager
    def _learning(self, topic: str) -> Iterator[None]:
        """Expire the topic's route if the `with` block raises an error that says that the route is stale."""
        try:
            yield
        except RocketMQError as error:
            self._learn(topic, error)
            raise

    def _learn(self, topic: str, result: Reply | RocketMQError) -> None:
        if isinstance(result, RocketMQError) and result.refresh_routes:
            self.routes.expire(topic)

    def _fetch_topic_config(self, topic: str, broker_name: str) -> TopicConfig:
        request = RoutedRequest(topic, broker_name, GetTopicConfigRequestHeader(topic=topic))
        return self.ask(request, any_copy=True).body(TopicConfig)

    def _names(self, topic: str, deadline: Deadline | None) -> list[str]:
        names = sorted(self.routes.route(topic, deadline).brokers)
        if not names:
            advice = "start a broker that has the topic"
            raise NoBrokerAvailable("the route names no broker", advice=advice, topic=topic)
        return names

    def _try_route(self, topic: str, deadline: Deadline | None) -> Route | RocketMQError:
        try:
            return self.routes.route(topic, deadline)
        except RocketMQError as error:
            return error

    def _need_routes(self, topics: Iterable[str], deadline: Deadline | None) -> None:
        """Raise if the route of a topic cannot be fetched; do not try again, because `NameServers` has done so."""
        for topic in topics:
            self.routes.route(topic, deadline)

    def _ask_around(self, topic: str, header: RequestHeader, body: bytes, deadline: Deadline | None) -> Reply:
        """Ask the brokers of a topic in turn and return the first reply; they share the time left equally.

        Raise the error of a broker that refuses, without asking another one. If no broker replies, raise the last
        retriable error, or if all brokers are at addresses that are not allowed, the error that says so.
        """
        failures, names = [], self._names(topic, deadline)
        for name, own_deadline in in_turn(deadline, names):
            request = RoutedRequest(topic, name, header, body)
            [result] = self.try_all({name: request}, any_copy=True, deadline=own_deadline).values()
            if isinstance(result, Reply):
                return result
            if not (result.retriable or isinstance(result, AddressNotAllowed)):
                raise result
            failures.append(result)
        raise next((each for each in reversed(failures) if each.retriable), failures[-1])


def _place(request: RoutedRequest, route: Route | RocketMQError, any_copy: bool) -> ServerRequest | RocketMQError:
    """Return the request with the address of the broker process that gets it, or an error if no process can get it."""
    if isinstance(route, RocketMQError):
        return route
    topic, broker_name, header, body = request
    try:
        broker = route.broker(broker_name)
        place = broker.to_read() if any_copy else BrokerEndpoint(MASTER_ID, broker.master())
    except RocketMQError as error:
        return error.locate(topic=topic)
    return ServerRequest(place.address, header, body, broker_name, place.broker_id)
