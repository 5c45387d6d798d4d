"""Changes by an administrator are sent to every master; reads merge the replies of all brokers."""

from __future__ import annotations

import pytest

from pyspark_rocketmq.cluster.cluster import Cluster
from pyspark_rocketmq.errors import NoBrokerAvailable
from pyspark_rocketmq.model import MessageQueue
from pyspark_rocketmq.wire.bodies import SubscriptionGroupConfig, TopicConfig
from pyspark_rocketmq.wire.codes import ResponseCode
from tests.cluster.scripted import ScriptedLinks, answer, cluster_of, route_of


def two_brokers() -> tuple[Cluster, ScriptedLinks]:
    """Return a scripted cluster of two masters, one of them with a replica."""
    links = ScriptedLinks()
    places = {"a": {0: "a:1", 1: "a:2"}, "b": {0: "b:1"}}
    table = {name: {"brokerName": name, "cluster": "C", "brokerAddrs": at} for name, at in places.items()}
    links.serve("ns:1", GET_ROUTEINFO_BY_TOPIC=route_of(**places), DELETE_TOPIC_IN_NAMESRV=answer())
    links.serve("ns:1", GET_BROKER_CLUSTER_INFO=answer(body={"brokerAddrTable": table}))
    for address in ("a:1", "b:1"):
        links.serve(
            address,
            UPDATE_AND_CREATE_TOPIC=answer(),
            DELETE_TOPIC_IN_BROKER=answer(),
            UPDATE_AND_CREATE_SUBSCRIPTIONGROUP=answer(),
        )
    return cluster_of(links), links


def test_a_topic_is_made_at_all_masters_or_at_those_named() -> None:
    """A new topic is sent to all masters, or to the named ones, never to replicas; attributes are sent as changes."""
    cluster, links = two_brokers()
    cluster.admin.create_topic(TopicConfig(topic_name="T", attributes={"message.type": "FIFO"}))
    cluster.admin.create_topic(TopicConfig(topic_name="T"), ["b"])
    made = links.asked("UPDATE_AND_CREATE_TOPIC")
    assert links.addresses("UPDATE_AND_CREATE_TOPIC") == ["a:1", "b:1", "b:1"]
    assert [fields["attributes"] for fields in made] == ["+message.type=FIFO"] * 2 + [""]


def test_a_topic_is_removed_everywhere() -> None:
    """A topic is deleted at the masters first and then at name servers, so that no master registers it again."""
    cluster, links = two_brokers()
    cluster.admin.delete_topic("T")
    order = [request.code for _, request in links.calls if (request.fields or {}).get("topic")]
    assert order == [215, 215, 216]


def test_a_group_is_made_at_every_master() -> None:
    """A group is created at every master, with its configuration as the request's body."""
    cluster, links = two_brokers()
    cluster.admin.create_group(SubscriptionGroupConfig(group_name="g"))
    assert links.addresses()[1:] == ["a:1", "b:1"] and b'"groupName":"g"' in bytes(links.calls[1][1].body)


def test_an_unknown_broker_is_named_with_the_known_ones() -> None:
    """If an administrator's request names an unknown broker, the error names it and the known brokers."""
    cluster, _ = two_brokers()
    with pytest.raises(NoBrokerAvailable, match=r"registered: c; known are: a, b"):
        cluster.admin.fetch_runtime_info("c")


def test_an_empty_cluster_takes_no_topics() -> None:
    """Creating a topic in a cluster without brokers raises an error."""
    links = ScriptedLinks()
    links.serve("ns:1", GET_BROKER_CLUSTER_INFO=answer(body={"brokerAddrTable": {}}))
    with pytest.raises(NoBrokerAvailable, match="known are: none"):
        cluster_of(links).admin.create_topic(TopicConfig(topic_name="T"))


def test_statistics_of_all_brokers_are_one_table() -> None:
    """Statistics of a topic are merged from all brokers; a broker without the topic is left out."""
    cluster, links = two_brokers()
    table = {MessageQueue("T", "a", 0): {"brokerOffset": 9, "consumerOffset": 4, "lastTimestamp": 0}}
    stats = {MessageQueue("T", "a", 0): {"minOffset": 0, "maxOffset": 9, "lastUpdateTimestamp": 0}}
    links.serve("a:1", GET_CONSUME_STATS=answer(body={"offsetTable": table}))
    links.serve("b:1", GET_CONSUME_STATS=answer(body={"offsetTable": {}}))
    links.serve("a:1", GET_TOPIC_STATS_INFO=answer(body={"offsetTable": stats}))
    links.serve("b:1", GET_TOPIC_STATS_INFO=answer(ResponseCode.TOPIC_NOT_EXIST))
    assert cluster.admin.fetch_consume_stats("g", "T")[MessageQueue("T", "a", 0)].consumer_offset == 4
    assert cluster.admin.fetch_topic_stats("T")[MessageQueue("T", "a", 0)].max_offset == 9


def test_one_queue_is_reset_at_its_broker_alone() -> None:
    """A position is reset by one request to the queue's broker, which returns the group's new position."""
    cluster, links = two_brokers()
    queue = MessageQueue("T", "b", 2)
    links.serve("b:1", INVOKE_BROKER_TO_RESET_OFFSET=answer(body={"offsetTable": {queue: 5}}))
    assert cluster.admin.reset_offset("g", queue, 5) == {queue: 5}
    [fields] = links.asked("INVOKE_BROKER_TO_RESET_OFFSET")
    assert (fields["queueId"], fields["offset"], fields["isForce"]) == ("2", "5", "true")


def test_a_brokers_settings_are_read_line_by_line() -> None:
    """A broker's settings are read from lines `name=value`; comments and empty lines are skipped."""
    cluster, links = two_brokers()
    links.serve("a:1", GET_BROKER_CONFIG=answer(body=b"#comment=1\nbrokerName=a\n\nurl=x=y\nempty="))
    assert cluster.admin.fetch_broker_config("a") == {"brokerName": "a", "url": "x=y", "empty": ""}
