"""Check that reading goes on if a broker process that a route names cannot be reached."""

from __future__ import annotations

import socket
from dataclasses import replace

import pytest

from broker_stub import StubCluster
from pyspark_rocketmq.cluster.cluster import open_cluster
from pyspark_rocketmq.cluster.routes import AddressMap
from pyspark_rocketmq.wire.bodies import SubscriptionGroupConfig
from tests.source.driving import GROUP, TOPIC, batch_options_for, fresh_run, options_for, read_batch


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


def test_a_suggested_replica_that_cannot_be_reached_is_not_needed(caplog: pytest.LogCaptureFixture) -> None:
    """If a broker suggests a replica whose port is closed, the master is read on, even if no failure is allowed."""
    with StubCluster(1, 1, topics={TOPIC: 1}) as stub, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        stub.fill(TOPIC, 100, 10)
        replica = stub.run(lambda: str(stub.state.brokers[1].address))
        detour = f'{{"{replica}": "127.0.0.1:{closed.getsockname()[1]}"}}'
        given = {"consumerGroup": GROUP, "pullBatchSize": "10", "pullMaxRetries": "0", "brokerAddressMap": detour}
        options = batch_options_for(stub, **given)
        options = replace(options, pull=replace(options.pull, depth=1))
        everywhere = open_cluster(replace(options.cluster, address_map=AddressMap()))
        everywhere.admin.create_group(SubscriptionGroupConfig(group_name=GROUP, broker_id=1))

        assert len(read_batch(options)) == 100
    assert caplog.text.count("reading from the master") == 1
