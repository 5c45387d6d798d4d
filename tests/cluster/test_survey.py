"""Surveys ask all brokers at once; what one does not answer is an error among the results."""

from __future__ import annotations

from typing import Any

import pytest

from pyspark_rocketmq.broker_errors import ConsumerNotOnline, NoPermission, SystemBusy
from pyspark_rocketmq.cluster.cluster import Cluster
from pyspark_rocketmq.cluster.names import Namespace
from pyspark_rocketmq.cluster.survey import answers_of
from pyspark_rocketmq.errors import AnswerMismatch, ConnectError, MalformedFrame, NoBrokerAvailable
from pyspark_rocketmq.wire import fastjson
from pyspark_rocketmq.wire.bodies import ConsumerRunningInfo
from pyspark_rocketmq.wire.codes import ResponseCode
from tests.cluster.scripted import ScriptedLinks, answer, cluster_of

TOPICS = {"topicConfigTable": {"NS%T": {"topicName": "NS%T"}, "other": {"topicName": "other"}}}


def three_brokers(**settings: Any) -> tuple[Cluster, ScriptedLinks]:
    """Return a scripted cluster: broker a with a replica, broker b, and broker c, whose master is away."""
    links = ScriptedLinks()
    places = {"a": {0: "a:1", 1: "a:2"}, "b": {0: "b:1"}, "c": {1: "c:2"}}
    table = {name: {"brokerName": name, "cluster": "C", "brokerAddrs": at} for name, at in places.items()}
    links.serve("ns:1", GET_BROKER_CLUSTER_INFO=answer(body={"brokerAddrTable": table}))
    for address in ("a:1", "a:2", "b:1", "c:2"):
        links.serve(address, GET_ALL_TOPIC_CONFIG=answer(body=TOPICS))
        links.serve(address, GET_BROKER_RUNTIME_INFO=answer(body={"table": {"at": address}}))
    return cluster_of(links, **settings), links


def test_masters_are_asked_and_one_without_a_master_is_an_error() -> None:
    """Every master is asked once and no replica; a broker without a master is an error among the answers."""
    cluster, links = three_brokers()

    found = cluster.survey.fetch_topic_configs(cluster.survey.fetch_brokers())

    assert links.addresses("GET_ALL_TOPIC_CONFIG") == ["a:1", "b:1"]
    assert list(found) == ["a", "b", "c"]
    assert isinstance(found["c"], NoBrokerAvailable) and list(answers_of(found)) == ["a", "b"]


def test_every_process_reports_its_figures() -> None:
    """Runtime figures come from replicas, too, each under its own process."""
    cluster, _ = three_brokers()

    found = cluster.survey.fetch_runtime_infos(cluster.survey.fetch_brokers())

    shown = {(each.broker_name, each.broker_id): info for each, info in found.items()}
    assert shown == {
        ("a", 0): {"at": "a:1"},
        ("a", 1): {"at": "a:2"},
        ("b", 0): {"at": "b:1"},
        ("c", 1): {"at": "c:2"},
    }


def test_a_failing_broker_hides_no_other() -> None:
    """A broker that refuses connections, or whose answer is unreadable, is an error; the others answer."""
    cluster, links = three_brokers()
    links.stop("a:1")
    brokers = cluster.survey.fetch_brokers()

    found = cluster.survey.fetch_topic_configs(brokers)
    links.serve("b:1", GET_ALL_TOPIC_CONFIG=answer(body=b"not JSON"))
    broken = cluster.survey.fetch_topic_configs(brokers)

    assert isinstance(found["a"], ConnectError) and "b" in answers_of(found)
    assert isinstance(broken["b"], MalformedFrame) and broken["b"].where["broker"] == "b"


def test_what_may_pass_is_asked_once_more() -> None:
    """After a retriable error a broker is asked a second time, and no oftener; a refusal is final."""
    cluster, links = three_brokers()
    replies = [answer(ResponseCode.SYSTEM_BUSY), answer(body=TOPICS)]
    links.serve("a:1", GET_ALL_TOPIC_CONFIG=lambda request: replies.pop(0))
    links.serve("b:1", GET_ALL_TOPIC_CONFIG=answer(ResponseCode.NO_PERMISSION))

    found = cluster.survey.fetch_topic_configs(cluster.survey.fetch_brokers())

    assert isinstance(found["a"], dict) and isinstance(found["b"], NoPermission)
    assert sorted(links.addresses("GET_ALL_TOPIC_CONFIG")) == ["a:1", "a:1", "b:1"]


def test_nobody_is_asked_for_ever() -> None:
    """A broker that stays busy is an error after the second attempt."""
    cluster, links = three_brokers()
    links.serve("a:1", GET_ALL_TOPIC_CONFIG=answer(ResponseCode.SYSTEM_BUSY))

    found = cluster.survey.fetch_topic_configs(cluster.survey.fetch_brokers())

    assert isinstance(found["a"], SystemBusy)
    assert links.addresses("GET_ALL_TOPIC_CONFIG").count("a:1") == 2


def test_without_any_answer_the_first_error_is_raised() -> None:
    """`answers_of` raises the first error if no broker answered; without any broker there are no answers."""
    with pytest.raises(ConnectError):
        answers_of({"a": ConnectError("refused"), "b": NoPermission("no")})
    assert answers_of({}) == {}


def test_names_of_other_namespaces_are_left_out() -> None:
    """In a namespace, topics have the user's names, and topics of others are left out."""
    cluster, _ = three_brokers(namespace=Namespace("NS"))

    found = cluster.survey.fetch_topic_configs(cluster.survey.fetch_brokers())

    assert list(answers_of(found)["a"]) == ["T"]


def test_a_group_without_members_is_no_error() -> None:
    """A broker that knows no member of the group has no members; this is no error."""
    cluster, links = three_brokers()
    connection = {"connectionSet": [{"clientId": "one"}]}
    links.serve("a:1", GET_CONSUMER_CONNECTION_LIST=answer(body=connection))
    links.serve("b:1", GET_CONSUMER_CONNECTION_LIST=answer(ResponseCode.CONSUMER_NOT_ONLINE))

    found = answers_of(cluster.survey.fetch_connections(cluster.survey.fetch_brokers(), "g"))

    assert [each.client_id for each in found["a"].connection_set] == ["one"]
    assert found["b"].connection_set == ()


def test_members_are_asked_through_the_brokers_that_know_them() -> None:
    """All members are asked in one burst; a member that does not report is an error among the others."""
    cluster, links = three_brokers()
    brokers = {each.broker_name: each for each in cluster.survey.fetch_brokers()}
    links.serve("a:1", GET_CONSUMER_RUNNING_INFO=answer(body={"properties": {}}))
    links.serve("b:1", GET_CONSUMER_RUNNING_INFO=answer(ResponseCode.CONSUMER_NOT_ONLINE))
    links.bursts.clear()

    found = cluster.survey.fetch_running_infos("g", {"one": brokers["a"], "two": brokers["b"], "three": brokers["c"]})

    assert links.bursts[0] == 2
    assert isinstance(found["one"], ConsumerRunningInfo) and isinstance(found["two"], ConsumerNotOnline)
    assert isinstance(found["three"], NoBrokerAvailable)
    asked = links.asked("GET_CONSUMER_RUNNING_INFO")
    assert [(each["consumerGroup"], each["clientId"]) for each in asked] == [("g", "one"), ("g", "two")]


def test_figures_of_masters_come_from_masters_only() -> None:
    """A replica's clock does not stamp messages, so only masters are asked."""
    cluster, _ = three_brokers()

    found = cluster.survey.fetch_master_infos(cluster.survey.fetch_brokers())

    assert (found["a"], found["b"]) == ({"at": "a:1"}, {"at": "b:1"})
    assert isinstance(found["c"], NoBrokerAvailable)


def test_a_broker_that_reports_queues_of_another_is_an_error() -> None:
    """A broker tells only of its own queues; what it says of others must not replace what these say."""
    cluster, links = three_brokers()
    offsets = {"brokerOffset": 9, "consumerOffset": 9, "minOffset": 0, "maxOffset": 9, "lastUpdateTimestamp": 0}
    queue = fastjson.write({"topic": "T", "brokerName": "a", "queueId": 0})
    table = answer(body=b'{"offsetTable":{%s:%s}}' % (queue, fastjson.write(offsets)))
    for address in ("a:1", "b:1"):
        links.serve(address, GET_CONSUME_STATS=table, GET_TOPIC_STATS_INFO=table)
    brokers = cluster.survey.fetch_brokers()

    stats = cluster.survey.fetch_consume_stats(brokers, "g")
    ends = cluster.survey.fetch_topic_stats(brokers, "T")

    for found in (stats, ends):
        assert list(answers_of(found)) == ["a"]
        assert isinstance(found["b"], AnswerMismatch) and "T/a/0" in str(found["b"])
