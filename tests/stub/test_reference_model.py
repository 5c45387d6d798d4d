"""Compare the responses of the stub, the model and a real broker to random sequences of operations."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker_stub import StubBroker

from .reference_model import QUEUES, Operation, Server, compare, operations
from .remoting_client import RemotingClient

sequences = st.lists(operations, min_size=1, max_size=30)
NUMBERS = count()


@pytest.fixture(scope="module", params=["5.3.3", "4.9.7"])
def stub(request: pytest.FixtureRequest) -> Iterator[StubBroker]:
    """Yield a stub that emulates the release of the parameter."""
    with StubBroker(emulate=request.param) as stub:
        yield stub


@settings(max_examples=60, deadline=None)
@given(sequence=sequences)
def test_the_stub_answers_as_the_model_does(stub: StubBroker, sequence: list[Operation]) -> None:
    """For a random sequence of operations the stub's responses equal the model's."""
    topic = f"M{next(NUMBERS)}"
    stub.run(lambda: stub.state.brokers[0].topics.find_or_create(topic, QUEUES))

    with RemotingClient(stub.broker_address()) as client:
        compare(Server(client, "broker-a", topic, is_5x=stub.state.release.is_5x), sequence)


@pytest.mark.real
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sequence=sequences)
def test_a_real_broker_answers_as_the_model_does(real_cluster: Any, sequence: list[Operation]) -> None:
    """For the same kind of sequences a real broker's responses equal the model's."""
    topic = f"M{next(NUMBERS)}"
    real_cluster.create_topic(topic, queues=QUEUES)
    broker = real_cluster.brokers[0]

    with RemotingClient(str(broker.address)) as client:
        compare(Server(client, broker.broker_name, topic, is_5x=not real_cluster.version.startswith("4.")), sequence)
