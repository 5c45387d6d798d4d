"""If a name server fails, another one gets the request."""

from __future__ import annotations

import pytest

from pyspark_rocketmq.broker_errors import SystemBusy
from pyspark_rocketmq.errors import (
    ConnectError,
    MalformedFrame,
    OptionError,
    StaticTopicUnsupported,
    TopicNotFound,
    TopicUnconfirmed,
)
from pyspark_rocketmq.model import parse_addresses
from pyspark_rocketmq.wire.codes import ResponseCode
from pyspark_rocketmq.wire.header import Command
from tests.cluster.scripted import ScriptedLinks, answer, cluster_of, route_of

UNKNOWN = answer(ResponseCode.TOPIC_NOT_EXIST, remark="No topic route info")
BUSY = answer(ResponseCode.SYSTEM_BUSY, remark="[OVERLOAD]")


def test_a_dead_name_server_gives_way_and_is_not_asked_first_again() -> None:
    """If a name server is down, the next one replies and gets later requests first."""
    links = ScriptedLinks()
    links.serve("two:2", GET_ROUTEINFO_BY_TOPIC=route_of(b={0: "b:1"}))
    cluster = cluster_of(links, "one:1", "two:2")
    for _ in range(2):
        assert cluster.name_servers.fetch_route("T").readable
    assert links.addresses() == ["one:1", "two:2", "two:2"]
    assert "now two:2" in repr(cluster.name_servers)


def test_no_name_server_at_all_names_each_of_them() -> None:
    """If all name servers fail in all rounds, the error lists each of them with its own error."""
    cluster = cluster_of(ScriptedLinks(), "one:1", "two:2", retries=1)
    with pytest.raises(ConnectError, match=r"one:1: refused; two:2: refused .*GET_ROUTEINFO_BY_TOPIC, topic T"):
        cluster.name_servers.fetch_route("T")


def test_a_topic_is_unknown_only_when_nobody_knows_it() -> None:
    """A topic counts as unknown only if no name server knows it."""
    links = ScriptedLinks()
    links.serve("one:1", GET_ROUTEINFO_BY_TOPIC=UNKNOWN)
    links.serve("two:2", GET_ROUTEINFO_BY_TOPIC=route_of(b={0: "b:1"}))
    assert cluster_of(links, "one:1", "two:2").name_servers.fetch_route("T").readable


def test_an_unknown_topic_is_not_asked_for_again() -> None:
    """If no name server knows a topic, the lookup ends after one round."""
    links = ScriptedLinks()
    for address in ("one:1", "two:2"):
        links.serve(address, GET_ROUTEINFO_BY_TOPIC=UNKNOWN)
    with pytest.raises(TopicNotFound, match=r"one:1.*topic T.*create the topic") as caught:
        cluster_of(links, "one:1", "two:2").name_servers.fetch_route("T")
    assert len(links.calls) == 2 and not caught.value.retriable and caught.value.__cause__


@pytest.mark.parametrize("others", [None, BUSY])
def test_a_topic_is_not_unknown_while_a_name_server_does_not_reply(others: Command | None) -> None:
    """If one does not know a topic, and another one is down or busy, the error names them, after one round.

    The first one may have started a moment ago, and only the other one may know the topic.
    """
    links = ScriptedLinks()
    links.serve("two:2", GET_ROUTEINFO_BY_TOPIC=UNKNOWN)
    if others:
        links.serve("one:1", GET_ROUTEINFO_BY_TOPIC=others)
    what = "OVERLOAD" if others else "refused"
    with pytest.raises(TopicUnconfirmed, match=rf"fail: one:1: .*{what}.*two:2.*topic T.*leave them out") as caught:
        cluster_of(links, "one:1", "two:2", retries=1).name_servers.fetch_route("T")
    assert len(links.calls) == 2 and caught.value.retriable and caught.value.__cause__


def test_a_known_route_stays_in_use_while_a_name_server_does_not_reply() -> None:
    """If one name server goes, and another one was just started, brokers serve the topic on."""
    links = ScriptedLinks()
    links.serve("one:1", GET_ROUTEINFO_BY_TOPIC=route_of(b={0: "b:1"}))
    links.serve("two:2", GET_ROUTEINFO_BY_TOPIC=UNKNOWN)
    cluster = cluster_of(links, "one:1", "two:2")
    before = cluster.routes.route("T")
    links.stop("one:1")
    cluster.routes.expire("T")
    assert cluster.routes.route("T") == before


def test_a_busy_name_server_is_asked_again() -> None:
    """If a name server is busy, the request is repeated, and its last error is raised in the end."""
    links = ScriptedLinks()
    links.serve("ns:1", GET_ROUTEINFO_BY_TOPIC=BUSY)
    with pytest.raises(SystemBusy, match="OVERLOAD"):
        cluster_of(links, retries=2).name_servers.fetch_route("T")
    assert len(links.calls) == 3


def test_a_static_topic_is_refused_by_name() -> None:
    """If a topic is static, the error names topic and name server and is not retriable."""
    links = ScriptedLinks()
    mapping = {"b": {"bname": "b", "totalQueues": 8}}
    links.serve("ns:1", GET_ROUTEINFO_BY_TOPIC=answer(body={"topicQueueMappingByBroker": mapping}))
    with pytest.raises(StaticTopicUnsupported, match=r"ns:1.*topic T"):
        cluster_of(links).name_servers.fetch_route("T")
    assert len(links.calls) == 1


@pytest.mark.parametrize("body", ["nothing", [], {"queueDatas": [{"brokerName": 7}]}, {"queueDatas": {}}])
def test_an_answer_that_is_no_route_names_server_and_topic(body: object) -> None:
    """If a route cannot be parsed, the error names name server and topic."""
    links = ScriptedLinks()
    links.serve("ns:1", GET_ROUTEINFO_BY_TOPIC=answer(body=body))
    with pytest.raises(MalformedFrame, match=r"TopicRouteData.*address ns:1, .*topic T"):
        cluster_of(links).name_servers.fetch_route("T")


def test_values_are_kept_by_each_name_server() -> None:
    """A value is stored at every name server, and deleted from every one."""
    links = ScriptedLinks()
    for address in ("one:1", "two:2"):
        links.serve(address, PUT_KV_CONFIG=answer(), DELETE_KV_CONFIG=answer(), DELETE_TOPIC_IN_NAMESRV=answer())
    servers = cluster_of(links, "one:1", "two:2").name_servers
    servers.put_value("N", "k", "v")
    servers.delete_value("N", "k")
    servers.delete_topic("T")
    assert links.addresses() == ["one:1", "two:2"] * 3


def test_absent_values_are_none() -> None:
    """If name servers respond with code 22, there is no such value, and None or an empty dict is returned."""
    links = ScriptedLinks()
    absent = answer(ResponseCode.QUERY_NOT_FOUND)
    links.serve("ns:1", GET_KV_CONFIG=absent, GET_KVLIST_BY_NAMESPACE=absent)
    servers = cluster_of(links).name_servers
    assert servers.fetch_value("N", "k") is None and servers.fetch_values("N") == {}


@pytest.mark.parametrize("text", ["http://ns:9876", "https://ns:9876", "ns", "", ";"])
def test_what_is_no_address_is_refused(text: str) -> None:
    """If the text of an address is not host and port, it raises an error."""
    with pytest.raises(OptionError, match="host:port"):
        parse_addresses(text, "nameServer")
