"""A broker that is silent or down takes neither time nor requests from other brokers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from broker_stub import StubCluster
from pyspark_rocketmq.cluster.cluster import open_shared_cluster
from pyspark_rocketmq.cluster.links import SharedLinks
from pyspark_rocketmq.cluster.routes import AddressMap
from pyspark_rocketmq.cluster.settings import ClusterSettings
from pyspark_rocketmq.errors import ConnectError
from pyspark_rocketmq.model import Address, MessageQueue, parse_address
from pyspark_rocketmq.net.deadline import Deadline, share
from pyspark_rocketmq.net.pool import SharedPool
from pyspark_rocketmq.net.settings import NetSettings
from pyspark_rocketmq.net.threaded import ThreadedConnection
from pyspark_rocketmq.wire.header import Command
from tests.cluster.scripted import ScriptedLinks, cluster_of, route_of
from tests.net.fixtures import StartPeer, echo

SETTINGS = NetSettings(connect_timeout_s=30.0, request_timeout_s=30.0)
A, B = MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-b", 0)
TIMEOUT_S = 2.0
"""Deadline of requests: longer than a running server needs, and used up by a silent one."""


@pytest.fixture
def links() -> Iterator[SharedLinks]:
    """Links for many threads."""
    with closing(SharedLinks(SharedPool(SETTINGS))) as links:
        yield links


def ask(links: SharedLinks, *addresses: Address) -> list[type]:
    """Send one request to each address in this order; return the type of each result."""
    calls = [(address, Command(30, fields={}, body=b"x")) for address in addresses]
    return [type(outcome) for outcome in links.call_all(calls, Deadline.after(TIMEOUT_S))]


# --- connecting ------------------------------------------------------------------------------------------------------


def test_a_deaf_server_takes_no_time_from_those_behind_it(
    links: SharedLinks, deaf: Address, start_peer: StartPeer
) -> None:
    """If some servers accept no connection, the others still respond in time: connections are opened in parallel."""
    one, two = start_peer(echo).address, start_peer(echo).address
    assert ask(links, deaf, one, deaf, two) == [ConnectError, Command, ConnectError, Command]


def test_who_is_connected_is_asked_first(start_peer: StartPeer) -> None:
    """If a burst goes to connected and unconnected servers, the connected ones get their requests first."""
    order: list[Address] = []

    class Watched(SharedPool):
        def connection(self, address: Address, deadline: Deadline | None = None) -> ThreadedConnection:
            order.append(address)
            return super().connection(address, deadline)

    nobody, there = Address("127.0.0.1", 1), start_peer(echo).address
    with closing(SharedLinks(Watched(SETTINGS))) as links:
        assert ask(links, there) == [Command]
        assert ask(links, nobody, there) == [ConnectError, Command]
    assert order == [there, there, nobody]


def test_a_deaf_broker_keeps_no_lock_of_others_from_being_renewed(deaf: Address) -> None:
    """If one broker is silent, queues at the other one are locked in time, whichever of them comes first."""
    with StubCluster(2, topics={"T": 1}) as stub:
        for gone, there in ((A, B), (B, A)):
            away = AddressMap(((parse_address(stub.broker_address(gone.broker_name)), deaf),))
            settings = ClusterSettings((parse_address(stub.name_server),), address_map=away)
            with closing(open_shared_cluster(settings)) as cluster:
                locked = cluster.groups.lock("g", "me@1", [A, B], Deadline.after(TIMEOUT_S))
                assert locked.granted == {there} and list(locked.unknown) == [gone.broker_name]


# --- unlocking -------------------------------------------------------------------------------------------------------


class TimedLinks(ScriptedLinks):
    """Scripted links that record how much time each one-way request had."""

    def __init__(self) -> None:
        super().__init__()
        self.given_s: list[float] = []

    def tell(self, address: Address, request: Command, deadline: Deadline | None = None) -> None:
        """Record the time of a one-way request, and pass it on."""
        assert deadline is not None
        self.given_s.append(deadline.seconds)
        super().tell(address, request, deadline)


def test_every_broker_is_told_that_queues_are_free() -> None:
    """If queues are unlocked, each broker gets one request with time of its own; the first error is raised last."""
    links = TimedLinks()
    links.serve("ns:1", GET_ROUTEINFO_BY_TOPIC=route_of(**{"broker-a": {0: "a:1"}, "broker-b": {0: "b:1"}}))
    with pytest.raises(ConnectError, match="broker broker-a"):
        cluster_of(links, retries=3).groups.unlock_oneway("g", "me@1", [A, B], Deadline.after(60.0))
    assert links.addresses("UNLOCK_BATCH_MQ") == ["a:1", "b:1"]
    first, second = links.given_s
    assert first <= 30.0 < second


def test_a_failure_to_unlock_makes_the_route_old() -> None:
    """If an unlock request fails, the route expires."""
    links = ScriptedLinks()
    links.serve("ns:1", GET_ROUTEINFO_BY_TOPIC=route_of(**{"broker-a": {0: "a:1"}}))
    cluster = cluster_of(links)
    for _ in range(2):
        with pytest.raises(ConnectError):
            cluster.groups.unlock_oneway("g", "me@1", [A])
    assert len(links.asked("GET_ROUTEINFO_BY_TOPIC")) == 2


def test_a_share_of_no_deadline_is_none() -> None:
    """A fraction of no deadline is no deadline."""
    assert share(None, 2) is None
