"""Members and locks of a group are kept by each broker on its own."""

from __future__ import annotations

import pytest

from pyspark_rocketmq.cluster.cluster import Cluster
from pyspark_rocketmq.cluster.groups import HeartbeatReply
from pyspark_rocketmq.cluster.names import Namespace
from pyspark_rocketmq.errors import ConnectError, LimitExceeded
from pyspark_rocketmq.model import Address, MessageQueue
from pyspark_rocketmq.wire.bodies import (
    ConsumerData,
    HeartbeatData,
    LockBatchRequestBody,
    ProducerData,
    build_subscription,
    decode_body,
)
from pyspark_rocketmq.wire.codes import ResponseCode
from tests.cluster.scripted import ScriptedLinks, answer, cluster_of, route_of

A0, A1, B0 = MessageQueue("T", "a", 0), MessageQueue("T", "a", 1), MessageQueue("T", "b", 0)


def two_brokers(namespace: Namespace | None = None) -> tuple[Cluster, ScriptedLinks]:
    """Return a scripted cluster with a topic at two brokers; the second one is down unless the test starts it."""
    links = ScriptedLinks()
    links.serve("ns:1", GET_ROUTEINFO_BY_TOPIC=route_of(a={0: "a:1"}, b={0: "b:1"}))
    return cluster_of(links, namespace=namespace or Namespace()), links


def test_a_lock_is_granted_refused_or_unknown() -> None:
    """If a broker is down, its locks are reported as unknown, and the locks granted by others are still reported."""
    cluster, links = two_brokers()
    links.serve("a:1", LOCK_BATCH_MQ=answer(body={"lockOKMQSet": [A1]}))
    locked = cluster.groups.lock("g", "c1", [A0, A1, B0])
    assert locked.granted == {A1} and locked.refused == {A0}
    assert [type(error) for error in locked.unknown.values()] == [ConnectError] and list(locked.unknown) == ["b"]


def test_a_broker_grants_no_locks_of_other_brokers_queues() -> None:
    """If a broker claims to have locked a queue that it was not asked for, that queue counts as its broker says."""
    cluster, links = two_brokers()
    links.serve("a:1", LOCK_BATCH_MQ=answer(body={"lockOKMQSet": [A0, A1, B0]}))
    links.serve("b:1", LOCK_BATCH_MQ=answer(body={"lockOKMQSet": []}))
    locked = cluster.groups.lock("g", "c1", [A0, B0])
    assert locked.granted == {A0} and locked.refused == {B0} and not locked.unknown

    links.stop("b:1")
    locked = cluster.groups.lock("g", "c1", [A0, B0])
    assert locked.granted == {A0} and not locked.refused and list(locked.unknown) == ["b"]


def test_locks_name_queues_as_the_cluster_knows_them() -> None:
    """Group and topics are sent under the cluster's names (with namespace), and returned under the user's."""
    cluster, links = two_brokers(Namespace("NS"))
    theirs = A0._replace(topic="NS%T")
    links.serve("a:1", LOCK_BATCH_MQ=answer(body={"lockOKMQSet": [theirs]}), UNLOCK_BATCH_MQ=answer())
    assert cluster.groups.lock("g", "c1", [A0]).granted == {A0}
    cluster.groups.unlock("g", "c1", [A0])
    cluster.groups.unlock_oneway("g", "c1", [A0])
    bodies = [decode_body(LockBatchRequestBody, request.body) for _, request in links.calls if request.body]
    assert bodies == [LockBatchRequestBody(consumer_group="NS%g", client_id="c1", mq_set=(theirs,))] * 3


def test_a_heartbeat_wraps_the_names_in_its_body() -> None:
    """A heartbeat's body holds producer groups, consumer groups and topics under the cluster's names."""
    cluster, links = two_brokers(Namespace("NS"))
    links.serve("a:1", HEART_BEAT=answer(IS_SUPPORT_HEART_BEAT_V2="true", IS_SUB_CHANGE="false"))
    member = ConsumerData(
        group_name="g", consume_type="CONSUME_PASSIVELY", message_model="CLUSTERING",
        consume_from_where="CONSUME_FROM_LAST_OFFSET", subscription_data_set=(build_subscription("T"),),
    )  # fmt: skip
    data = HeartbeatData(client_id="c1", producer_data_set=(ProducerData(group_name="p"),), consumer_data_set=(member,))
    assert cluster.groups.heartbeat(Address("a", 1), data) == HeartbeatReply(479, True, False)
    sent = decode_body(HeartbeatData, links.calls[-1][1].body)
    [group], [producer] = sent.consumer_data_set, sent.producer_data_set
    assert (producer.group_name, group.group_name, group.subscription_data_set[0].topic) == ("NS%p", "NS%g", "NS%T")


def test_a_broker_before_5_knows_no_second_version() -> None:
    """If a heartbeat reply has no header fields, the broker does not know heartbeats of version 2."""
    cluster, links = two_brokers()
    links.serve("a:1", HEART_BEAT=answer(version=407))
    assert cluster.groups.heartbeat(Address("a", 1), HeartbeatData(client_id="c")) == HeartbeatReply(407, False, False)


def test_a_group_without_members_is_empty() -> None:
    """If a broker reports by an error that a group has no members, the result is an empty list."""
    cluster, links = two_brokers()
    links.serve("a:1", GET_CONSUMER_LIST_BY_GROUP=answer(1, remark="no consumer for this group, g"))
    assert cluster.groups.fetch_members("g", "T") == ()
    links.serve("a:1", GET_CONSUMER_LIST_BY_GROUP=answer(body={"consumerIdList": ["c1", "c2"]}))
    assert cluster.groups.fetch_members("g", "T") == ("c1", "c2")


def test_brokers_without_the_group_are_left_out() -> None:
    """Connections of a group are fetched from every broker; a broker that does not know the group is left out."""
    cluster, links = two_brokers()
    members = {"connectionSet": [{"clientId": "c1", "clientAddr": "h:1", "language": "PYTHON", "version": 409}]}
    links.serve(
        "a:1", GET_CONSUMER_CONNECTION_LIST=answer(body=members), GET_PRODUCER_CONNECTION_LIST=answer(body=members)
    )
    links.serve(
        "b:1",
        GET_CONSUMER_CONNECTION_LIST=answer(ResponseCode.CONSUMER_NOT_ONLINE, remark="not online"),
        GET_PRODUCER_CONNECTION_LIST=answer(1, remark="the producer group[p] not exist"),
    )
    assert list(cluster.groups.fetch_consumer_connections("g", "T")) == ["a"]
    assert cluster.groups.fetch_producer_connections("p", "T")["a"].connection_set[0].client_id == "c1"


def test_a_group_of_too_many_members_is_refused() -> None:
    """If a broker lists more members than the limit, the error names the group."""
    cluster, links = two_brokers()
    members = [f"client{number}" for number in range(10_001)]
    links.serve("a:1", GET_CONSUMER_LIST_BY_GROUP=answer(body={"consumerIdList": members}))
    with pytest.raises(LimitExceeded, match=r"10001 members of the group, the limit is 10000 \(address a:1.*group g"):
        cluster.groups.fetch_members("g", "T")
