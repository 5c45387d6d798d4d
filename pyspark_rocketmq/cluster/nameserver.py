"""Send requests to the name servers, one after the other until one replies.

Name servers hold the same table but do not talk to each other. A request goes first to the one that replied last, and
to the next one if that one is busy or cannot be reached. A name server that does not know a topic may have started a
moment ago, so a topic is unknown only when all of them reply that they do not know it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ..broker_errors import QueryNotFound, TopicNotExist
from ..errors import UNKNOWN_TOPIC, RocketMQError, TopicNotFound, TopicUnconfirmed, located
from ..net.deadline import Deadline
from ..wire.bodies import ClusterInfo, KVTable, TopicList, TopicRouteData
from ..wire.commands import (
    DeleteKVConfigRequestHeader,
    DeleteTopicFromNamesrvRequestHeader,
    GetAllTopicListRequestHeader,
    GetBrokerClusterInfoRequestHeader,
    GetKVConfigRequestHeader,
    GetKVConfigResponseHeader,
    GetKVListByNamespaceRequestHeader,
    GetRouteInfoRequestHeader,
    GetTopicsByClusterRequestHeader,
    PutKVConfigRequestHeader,
    RequestHeader,
)
from .retrying import Retrying
from .routes import BrokerEndpoints, Route, all_broker_endpoints, make_route
from .servers import Reply, ServerRequest, Servers


class NameServers:
    """The name servers of one cluster."""

    def __init__(self, servers: Servers) -> None:
        settings = servers.settings
        self._servers = servers
        self._addresses = settings.name_servers
        self._retrying = Retrying(settings.retries, settings.pause)
        self._current = 0
        """Index of the name server that replied last."""

    def __repr__(self) -> str:
        return f"<NameServers {'; '.join(map(str, self._addresses))}, now {self._addresses[self._current]}>"

    # --- topics and brokers ------------------------------------------------------------------------------------------

    def fetch_route(self, topic: str, deadline: Deadline | None = None, *, once: bool = False) -> Route:
        """Return the route of a topic; with `once` every name server gets the request at most once."""
        ask = self._ask_around if once else self._ask
        try:
            reply = ask(GetRouteInfoRequestHeader(topic=topic), deadline)
        except UNKNOWN_TOPIC as error:
            sought = self._servers.settings.namespace.wrap(topic)
            if sought != topic:
                error.what += f"; because of the namespace it was sought as {sought}"
            raise
        with located(reply.request.where()):
            return make_route(topic, reply.body(TopicRouteData), self._servers.settings.address_map)

    def fetch_topics(self, deadline: Deadline | None = None) -> tuple[str, ...]:
        """Return all topics that belong to the namespace, under the user's names, and the system topics."""
        return self._topics(self._ask(GetAllTopicListRequestHeader(), deadline))

    def fetch_topics_of_cluster(self, cluster: str, deadline: Deadline | None = None) -> tuple[str, ...]:
        """Return one cluster's topics that belong to the namespace, under the user's names, and its system topics."""
        return self._topics(self._ask(GetTopicsByClusterRequestHeader(cluster=cluster), deadline))

    def fetch_brokers(self, deadline: Deadline | None = None) -> tuple[BrokerEndpoints, ...]:
        """Return the brokers of all clusters that the name servers know, sorted by name."""
        reply = self._ask(GetBrokerClusterInfoRequestHeader(), deadline)
        address_map = self._servers.settings.address_map
        with located(reply.request.where()):
            table = reply.body(ClusterInfo).broker_addr_table
            return all_broker_endpoints((data for _, data in sorted(table.items())), address_map)

    def delete_topic(self, topic: str, deadline: Deadline | None = None) -> None:
        """Delete a topic from every name server."""
        self._ask_each(DeleteTopicFromNamesrvRequestHeader(topic=topic), deadline)

    # --- values ------------------------------------------------------------------------------------------------------

    def fetch_value(self, namespace: str, key: str, deadline: Deadline | None = None) -> str | None:
        """Return the value that name servers store under a key; None if there is none."""
        try:
            reply = self._ask(GetKVConfigRequestHeader(namespace=namespace, key=key), deadline)
        except QueryNotFound:
            return None
        return reply.header(GetKVConfigResponseHeader).value

    def fetch_values(self, namespace: str, deadline: Deadline | None = None) -> dict[str, str]:
        """Return all values that name servers store under one namespace (of keys, not of topics)."""
        try:
            reply = self._ask(GetKVListByNamespaceRequestHeader(namespace=namespace), deadline)
        except QueryNotFound:
            return {}
        return reply.body(KVTable).table

    def put_value(self, namespace: str, key: str, value: str, deadline: Deadline | None = None) -> None:
        """Store a value at every name server."""
        self._ask_each(PutKVConfigRequestHeader(namespace=namespace, key=key, value=value), deadline)

    def delete_value(self, namespace: str, key: str, deadline: Deadline | None = None) -> None:
        """Delete a value from every name server."""
        self._ask_each(DeleteKVConfigRequestHeader(namespace=namespace, key=key), deadline)

    # --- requests ----------------------------------------------------------------------------------------------------

    def _topics(self, reply: Reply) -> tuple[str, ...]:
        namespace = self._servers.settings.namespace
        return tuple(map(namespace.unwrap, filter(namespace.holds, reply.body(TopicList).topic_list)))

    def _ask_each(self, header: RequestHeader, deadline: Deadline | None) -> None:
        """Send a request to every name server, since each keeps its own table."""
        for address in self._addresses:
            ask = partial(self._servers.ask, ServerRequest(address, header), deadline=deadline)
            self._retrying.run(ask, deadline)

    def _ask(self, header: RequestHeader, deadline: Deadline | None) -> Reply:
        """Ask name servers until one replies, in several rounds; but in one round if a topic stays unconfirmed.

        A name server that is gone for good would make each look for a missing topic long, and callers that need the
        topic wait longer than these rounds take.
        """

        def ask() -> Reply | TopicUnconfirmed:
            try:
                return self._ask_around(header, deadline)
            except TopicUnconfirmed as error:
                return error

        reply = self._retrying.run(ask, deadline)
        if isinstance(reply, TopicUnconfirmed):
            raise reply
        return reply

    def _ask_around(self, header: RequestHeader, deadline: Deadline | None) -> Reply:
        """Ask one name server after the other, each once, and return the first reply.

        An error that is not retriable is raised at once; a retriable one only if no name server replies.
        """
        failures: list[RocketMQError] = []
        for number in self._in_turn():
            try:
                reply = self._servers.ask(ServerRequest(self._addresses[number], header), deadline=deadline)
            except RocketMQError as error:
                if not error.retriable:
                    raise
                failures.append(error)
            else:
                self._current = number
                return reply
        raise _combined(failures)

    def _in_turn(self) -> Iterator[int]:
        first, count = self._current, len(self._addresses)
        return ((first + step) % count for step in range(count))


def _combined(failures: list[RocketMQError]) -> RocketMQError:
    """Return one error for the errors of all name servers: `TopicNotFound` only if none of them knows the topic."""
    unknowing = [error for error in failures if isinstance(error, TopicNotExist)]
    others = [error for error in failures if not isinstance(error, TopicNotExist)]
    if unknowing:
        absent = _unconfirmed(unknowing[0], others) if others else _not_found(unknowing[0])
        absent.__cause__ = unknowing[0]
        return absent
    last = failures[-1]
    if len(failures) > 1:
        last.what = f"no name server replied: {_list_failures(failures)}"
    return last


def _not_found(error: RocketMQError) -> TopicNotFound:
    advice = "create the topic, or check its name and nameServer"
    return TopicNotFound("no name server knows the topic", advice=advice, **error.where)


def _unconfirmed(error: RocketMQError, others: list[RocketMQError]) -> TopicUnconfirmed:
    what = f"a name server does not know the topic, and others, which may know it, fail: {_list_failures(others)}"
    advice = "start the others, or leave them out of nameServer; if all know no such topic, create it"
    return TopicUnconfirmed(what, advice=advice, **error.where)


def _list_failures(failures: list[RocketMQError]) -> str:
    return "; ".join(f"{error.where.get('address')}: {error.what}" for error in failures)
