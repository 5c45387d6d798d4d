"""Tests of `broker_stub.fixtures`."""

from __future__ import annotations

from collections.abc import Callable

from broker_stub import StubBroker, StubCluster

from .remoting_client import RemotingClient, pull_of


def test_a_broker_is_there(stub_broker: StubBroker) -> None:
    """The broker of the fixture `stub_broker` stores messages."""
    stub_broker.put("T", b"x")

    with RemotingClient(stub_broker.broker_address()) as client:
        assert client.ask(pull_of("T")).code == 0


def test_clusters_are_made_to_measure(make_stub: Callable[..., StubCluster]) -> None:
    """The fixture `make_stub` can make several clusters in one test, each with its own name server."""
    one, other = make_stub(2, 1, topics={"T": 3}), make_stub(emulate="4.9.7")

    assert (len(one.state.brokers), len(other.state.brokers)) == (4, 1)
    assert one.name_server != other.name_server
