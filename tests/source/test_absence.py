"""Check that a query goes on if a broker stops while a cached route still names it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker_stub import StubCluster
from tests.source.driving import TOPIC, fresh_run, options_for


@pytest.mark.parametrize("brokers", [1, 2])
def test_a_query_outlives_a_broker_that_its_route_still_names(brokers: int, caplog: pytest.LogCaptureFixture) -> None:
    """If a broker that the route names stops, the query goes on with one warning; later it reads the broker again."""
    with StubCluster(brokers, topics={TOPIC: 1}) as stub:
        options = options_for(stub)
        options = replace(options, cluster=replace(options.cluster, route_max_age_s=2.0))
        stub.put(TOPIC, b"a", broker="broker-a")
        with fresh_run(options) as run:
            assert len(run.drain()) == 1
            stub.faults.broker_down("broker-a")
            assert run.drain() == []
            stub.faults.broker_up("broker-a")
            stub.put(TOPIC, b"b", broker="broker-a")
            assert [row.body for row in run.read_until(1)] == [b"b"]
    assert caplog.text.count("broker-a/0: the queue is missing from the route") == 1
