"""With `allowedBrokers`, neither driver nor tasks connect to other brokers that name servers name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from broker_stub import StubCluster
from pyspark_rocketmq.cluster.cluster import open_cluster
from pyspark_rocketmq.errors import AddressNotAllowed
from pyspark_rocketmq.model import parse_address
from pyspark_rocketmq.source.partition import read_partition
from pyspark_rocketmq.wire.bodies import SubscriptionGroupConfig
from pyspark_rocketmq.wire.message_id import encode_offset_message_id
from tests.source.driving import GROUP, TOPIC, Run, batch_options_for, options_for, read_batch

KEYS = {"accessKey": "AK", "secretKey": "hush"}


@pytest.fixture
def stub(make_stub: Callable[..., StubCluster]) -> StubCluster:
    """Return a stub with two brokers, each with one queue of three messages."""
    stub = make_stub(2, topics={TOPIC: 1}, acl={"AK": "hush"})
    for broker in ("broker-a", "broker-b"):
        stub.fill(TOPIC, 3, 10, broker=broker)
    return stub


def strangers(stub: StubCluster) -> list[str]:
    """Return the brokers that clients connected to, without broker-a."""
    return sorted({each.broker_name for each in stub.connections()} - {"broker-a"})


def only_first(stub: StubCluster) -> dict[str, str]:
    """Return the options that allow connections to broker-a only."""
    return {**KEYS, "allowedBrokers": f"10.0.0.0/8, {stub.broker_address('broker-a')}"}


def test_a_broker_that_is_not_allowed_gets_no_request_of_the_driver(stub: StubCluster) -> None:
    """If a route names a broker that is not allowed, reads fail with its address, and nothing is sent to it."""
    place = f"address {stub.broker_address('broker-b')}, .*topic {TOPIC}, broker broker-b"
    with pytest.raises(AddressNotAllowed, match=place):
        read_batch(batch_options_for(stub, **only_first(stub)))
    with pytest.raises(AddressNotAllowed, match=place), Run(options_for(stub, **only_first(stub))) as run:
        run.trigger()
    assert strangers(stub) == []


def test_a_broker_that_is_not_allowed_gets_no_request_of_a_task(stub: StubCluster) -> None:
    """If a task is to read from a broker that is not allowed, it fails, and nothing is sent to the broker."""
    options = options_for(stub, **only_first(stub))
    with Run(replace(options, cluster=replace(options.cluster, allowed_brokers="127.0.0.1"))) as run:
        assert run.plan()
        tasks = run.partitions()
    stub.faults.broker_down("broker-b")  # The connection for planning ends.
    stub.faults.broker_up("broker-b")
    assert strangers(stub) == []

    with pytest.raises(AddressNotAllowed, match=f"topic {TOPIC}, broker broker-b, queue 0, offset 0"):
        for task in tasks:
            list(read_partition(task, options))
    assert strangers(stub) == []


def test_brokers_that_are_allowed_are_read(stub: StubCluster) -> None:
    """Brokers in the list are read, by address or by network; name servers need not be listed."""
    both = f"{stub.broker_address('broker-a')},{stub.broker_address('broker-b')}"
    for allowed in (both, "127.0.0.0/8"):
        assert len(read_batch(batch_options_for(stub, **KEYS, allowedBrokers=allowed))) == 6


def test_targets_of_the_address_map_are_allowed(stub: StubCluster) -> None:
    """Addresses that the user gives for brokers need not be listed again."""
    first, second = (stub.broker_address(name) for name in ("broker-a", "broker-b"))
    mapped = f'{{"{first}": "{first}", "{second}": "{second}"}}'
    options = batch_options_for(stub, **KEYS, allowedBrokers="10.0.0.1", brokerAddressMap=mapped)
    assert len(read_batch(options)) == 6


def test_a_message_id_leads_to_no_stranger(stub: StubCluster) -> None:
    """If a message id holds the address of a broker that is not allowed, looking it up fails without a connection."""
    cluster = open_cluster(batch_options_for(stub, **only_first(stub)).cluster)
    message_id = encode_offset_message_id(parse_address(stub.broker_address("broker-b")), 0)
    with pytest.raises(AddressNotAllowed):
        cluster.messages.view(message_id)
    assert strangers(stub) == []


def test_a_replica_that_is_not_allowed_is_not_needed(
    make_stub: Callable[..., StubCluster], caplog: pytest.LogCaptureFixture
) -> None:
    """If a broker suggests a replica that is not allowed, its master is read on, and a warning names the replica."""
    stub = make_stub(1, 1, topics={TOPIC: 1})
    stub.fill(TOPIC, 100, 10)
    master, replica = stub.run(lambda: [str(broker.address) for broker in stub.state.brokers])
    given = {"allowedBrokers": master, "consumerGroup": GROUP, "pullBatchSize": "10"}
    options = batch_options_for(stub, **given)
    options = replace(options, pull=replace(options.pull, depth=1))
    everywhere = open_cluster(replace(options.cluster, allowed_brokers=None))
    everywhere.admin.create_group(SubscriptionGroupConfig(group_name=GROUP, broker_id=1))

    assert len(read_batch(options)) == 100
    [warning] = [text for text in caplog.messages if "reading from the master" in text]
    assert f"address {replica}, topic {TOPIC}, broker broker-a, queue 0" in warning


def test_a_replica_that_is_not_allowed_gets_no_request(make_stub: Callable[..., StubCluster]) -> None:
    """If only a replica could answer, and it is not allowed, a read fails with its address, and nothing is sent."""
    stub = make_stub(1, 1, topics={TOPIC: 1})
    master, replica = stub.run(lambda: [str(broker.address) for broker in stub.state.brokers])
    options = batch_options_for(stub, allowedBrokers=master)
    stub.faults.broker_down("broker-a", 0)
    with pytest.raises(AddressNotAllowed, match=f"address {replica}, .*topic {TOPIC}, broker broker-a"):
        read_batch(options)
    assert stub.connections() == []
