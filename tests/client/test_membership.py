"""Brokers get a member's id and subscriptions by heartbeats."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from pyspark_rocketmq.client.settings import MessageModel
from pyspark_rocketmq.cluster.settings import ClusterSettings
from pyspark_rocketmq.errors import RocketMQError
from pyspark_rocketmq.model import parse_addresses, retry_topic
from pyspark_rocketmq.pull.settings import Subscription
from pyspark_rocketmq.wire.codes import RequestCode
from tests.client.fixtures import GROUP, TOPIC, Group, Log, until


def test_brokers_learn_what_a_member_wants(group: Group) -> None:
    """Brokers list a member's id, message model and filters, and the group's retry topic."""
    consumer = group.concurrent(Log(), tags="red || blue")
    until(lambda: GROUP in group.stub.groups())
    [connection] = group.cluster().groups.fetch_consumer_connections(GROUP, TOPIC).values()

    assert [member.client_id for member in connection.connection_set] == [consumer.client_id]
    assert (connection.consume_type, connection.message_model) == ("CONSUME_PASSIVELY", "CLUSTERING")
    assert connection.subscription_table[TOPIC].tags_set == ("red", "blue")
    assert set(connection.subscription_table) == {TOPIC, retry_topic(GROUP)}


def test_a_member_that_leaves_is_gone_at_once(group: Group) -> None:
    """When a member closes, brokers stop listing it at once."""
    consumer = group.concurrent(Log())
    until(lambda: GROUP in group.stub.groups())
    told = group.stub.faults.delay(0, on=RequestCode.UNREGISTER_CLIENT, times=1)
    consumer.close()

    assert told.fired == 1  # The broker was told, and did not only see the connection end.
    assert group.stub.groups() == {}


def test_clustering_members_have_names_of_their_own(group: Group) -> None:
    """Two consumers of one process have different client ids; a broadcasting member's id is always the same."""
    first, second = (group.concurrent(Log()).client_id for _ in range(2))
    lasting = group.concurrent(Log(), group="all", message_model=MessageModel.BROADCASTING).client_id

    assert first != second
    assert re.fullmatch(r"[\d.]+@\d+#\d+", first)
    assert re.fullmatch(r"[\d.]+@DEFAULT", lasting)
    assert group.concurrent(Log(), instance_name="mine", unit_name="u").client_id.endswith("@mine@u")


def test_an_unreachable_name_server_is_told_at_the_start(group: Group) -> None:
    """If no name server can be reached, starting a consumer raises an error."""
    nowhere = ClusterSettings(parse_addresses("127.0.0.1:1"), retries=0)
    group.cluster_settings = replace(nowhere, net=group.cluster_settings.net)
    with pytest.raises(RocketMQError, match="CONNECT"):
        group.concurrent(Log())


def test_a_filter_that_cannot_be_read_is_told_at_the_start(group: Group) -> None:
    """If a filter is invalid, starting raises the broker's error, and the consumer does not join."""
    with pytest.raises(RocketMQError, match="23"):
        group.concurrent(Log(), subscriptions={TOPIC: Subscription("size >", "SQL92")})
    assert group.stub.groups() == {}
