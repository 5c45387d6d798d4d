"""Test illegal routes, topic lists and broker lists of a name server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyspark_rocketmq.wire.codes import RequestCode

from .behaviours import ROUTE, body, first, mute, on, refuse, rewrite, slow
from .scenarios import Allowed, Scenario, run_and_check, scenario_of

LIST = RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER
BROKERS = RequestCode.GET_BROKER_CLUSTER_INFO
PATTERN = {"subscribePattern": "orders"}
ADDRESS = rb'"127\.0\.0\.1:\d+"'


def route_of(name: str, content: object, **given: Any) -> Scenario:
    """Return the scenario of a name server that responds with this content as the route."""
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    return scenario_of(f"a route {name}", lambda: on(ROUTE, body(data)), **given)


def with_address(name: str, text: str, **given: Any) -> Scenario:
    """Return the scenario of routes in which a broker's address is this text."""
    return scenario_of(f"address {name}", lambda: on(ROUTE, rewrite(ADDRESS, lambda _: f'"{text}"'.encode())), **given)


def with_count(member: str, value: str, entry_point: str = "batch", **given: Any) -> Scenario:
    """Return the scenario of a route whose number of queues or permission (`member`) has this value."""
    pattern = b'"%b":\\d+' % member.encode()
    behaviour = on(ROUTE, rewrite(pattern, b'"%b":%b' % (member.encode(), value.encode())))
    return scenario_of(f"{member} {value[:24]} for {entry_point}", lambda: behaviour, entry_point, **given)


def queue_data(broker: str = "broker-a", **given: Any) -> dict[str, object]:
    """Return the part of a route that describes one broker's queues."""
    return {"brokerName": broker, "readQueueNums": 2, "writeQueueNums": 2, "perm": 6, "topicSysFlag": 0, **given}


def broker_data(address: str = "127.0.0.1:9", broker: str = "broker-a") -> dict[str, object]:
    """Return the part of a route that gives one broker's address."""
    return {"cluster": "c", "brokerName": broker, "brokerAddrs": {"0": address}}


MANY = [queue_data(f"broker-{number}") for number in range(20_000)]
SCENARIOS = [
    *(with_count("readQueueNums", value) for value in ("-1", "1e999", "NaN", '"2"', "null", "true", "2.5", "[]")),
    with_count("readQueueNums", str(2**31), own_process=True, allowed=Allowed.ERROR),
    with_count("readQueueNums", str(2**62), own_process=True, allowed=Allowed.ERROR),
    with_count("readQueueNums", "9" * 4400),
    with_count("readQueueNums", "5000"),
    with_count("writeQueueNums", str(2**31), "send", own_process=True, allowed=Allowed.ERROR),
    with_count("writeQueueNums", str(2**31), "batch", own_process=True),
    with_count("writeQueueNums", "-1", "send", allowed=Allowed.ERROR),
    with_count("perm", "-1"),
    with_count("perm", "0", allowed=Allowed.ERROR),
    with_count("perm", str(2**70)),
    with_count("perm", "null"),
    with_count("perm", "0", "send", allowed=Allowed.ERROR),
    scenario_of(
        "an order of 2^31 queues",
        lambda: on(ROUTE, rewrite(rb"^\{", b'{"orderTopicConf":"broker-a:2147483648",')),
        "send",
        own_process=True,
        allowed=Allowed.ERROR,
    ),
    scenario_of(
        "an order of 2^31 queues for a reader",
        lambda: on(ROUTE, rewrite(rb"^\{", b'{"orderTopicConf":"broker-a:2147483648",')),
        own_process=True,
    ),
    scenario_of(
        "an order of a million brokers",
        lambda: on(ROUTE, rewrite(rb"^\{", b'{"orderTopicConf":"' + b"b:9;" * 10**6 + b'",')),
        "send",
        own_process=True,
        allowed=Allowed.ERROR,
    ),
    scenario_of(
        "an order in words",
        lambda: on(ROUTE, rewrite(rb"^\{", b'{"orderTopicConf":"broker-a:many",')),
        "send",
        allowed=Allowed.ERROR,
    ),
    scenario_of(
        "an order below zero",
        lambda: on(ROUTE, rewrite(rb"^\{", b'{"orderTopicConf":"broker-a:-4",')),
        "send",
        allowed=Allowed.ERROR,
    ),
    scenario_of(
        "an order of 4,400 digits",
        lambda: on(ROUTE, rewrite(rb"^\{", b'{"orderTopicConf":"broker-a:' + b"9" * 4400 + b'",')),
        "send",
        allowed=Allowed.ERROR,
    ),
    with_address("empty", "", allowed=Allowed.ERROR),
    with_address("in words", "somewhere", allowed=Allowed.ERROR),
    with_address("with port 99999", "127.0.0.1:99999", allowed=Allowed.ERROR),
    with_address("with port 0", "127.0.0.1:0", allowed=Allowed.ERROR),
    with_address("with port below zero", "127.0.0.1:-1", allowed=Allowed.ERROR),
    with_address("cut off", "[::1", allowed=Allowed.ERROR),
    with_address("of a web page", "http://127.0.0.1:80", allowed=Allowed.ERROR),
    with_address("that does not resolve", "nowhere.invalid:10911", allowed=Allowed.ERROR),
    with_address("of a closed port", "127.0.0.1:9", allowed=Allowed.ERROR),
    with_address("of 300 KB", "x" * 300_000 + ":1", allowed=Allowed.ERROR),
    with_address("with a label of 64", "y" * 64 + ".example:10911", allowed=Allowed.ERROR),
    with_address("with a NUL", "local\\u0000host:10911", allowed=Allowed.ERROR),
    with_address("with a lone surrogate", "\\ud800:10911", allowed=Allowed.ERROR),
    with_address("of everybody", "0.0.0.0:1", allowed=Allowed.ERROR),
    scenario_of("no master", lambda: on(ROUTE, rewrite(rb'"brokerAddrs":\{"0"', b'"brokerAddrs":{"3"'))),
    scenario_of(
        "no master for a producer",
        lambda: on(ROUTE, rewrite(rb'"brokerAddrs":\{"0"', b'"brokerAddrs":{"3"')),
        "send",
        allowed=Allowed.ERROR,
    ),
    scenario_of(
        "a broker number in words",
        lambda: on(ROUTE, rewrite(rb'"brokerAddrs":\{"0"', b'"brokerAddrs":{"first"')),
        allowed=Allowed.ERROR,
    ),
    scenario_of(
        "a broker number of 2^70", lambda: on(ROUTE, rewrite(rb'"brokerAddrs":\{"0"', b'"brokerAddrs":{"%d"' % 2**70))
    ),
    scenario_of(
        "no addresses",
        lambda: on(ROUTE, rewrite(rb'"brokerAddrs":\{[^}]*\}', b'"brokerAddrs":{}')),
        allowed=Allowed.ERROR,
    ),
    scenario_of("another broker's name", lambda: on(ROUTE, rewrite(b"broker-a", b"broker-z"))),
    scenario_of(
        "the name of queues alone", lambda: on(ROUTE, rewrite(rb'("readQueueNums":2)', rb'\1,"brokerName":"gone"'))
    ),
    route_of("that is empty", {}, allowed=Allowed.ERROR),
    route_of("without queues", {"brokerDatas": [broker_data()], "queueDatas": []}, allowed=Allowed.ERROR),
    route_of("without brokers", {"brokerDatas": [], "queueDatas": [queue_data()]}, allowed=Allowed.ERROR),
    route_of("that is a list", [], allowed=Allowed.ERROR),
    route_of("that is null", b"null", allowed=Allowed.ERROR),
    route_of("that is no text", b"\xff\xff", allowed=Allowed.ERROR),
    route_of("without a body", b"", allowed=Allowed.ERROR),
    route_of("nested deeply", b'{"queueDatas":' + b"[" * 200_000, allowed=Allowed.ERROR),
    route_of("nested in keys", b"{" * 100_000, allowed=Allowed.ERROR),
    route_of(
        "of a static topic", {"topicQueueMappingByBroker": {"broker-a": {"topic": "orders"}}}, allowed=Allowed.ERROR
    ),
    route_of(
        "of 20,000 brokers",
        {"brokerDatas": [broker_data()], "queueDatas": MANY},
        own_process=True,
        allowed=Allowed.ERROR,
    ),
    route_of(
        "of one broker 20,000 times",
        {"brokerDatas": [broker_data()] * 20_000, "queueDatas": [queue_data()] * 20_000},
        own_process=True,
        allowed=Allowed.ERROR,
    ),
    scenario_of(
        "each broker twice", lambda: on(ROUTE, rewrite(rb'"queueDatas":\[(\{.*?\})\]', rb'"queueDatas":[\1,\1]'))
    ),
    scenario_of("the topic is unknown", lambda: on(ROUTE, refuse(17)), allowed=Allowed.ERROR),
    scenario_of("the topic is unknown for a moment", lambda: on(ROUTE, first(2, refuse(17)))),
    scenario_of("routes are forbidden", lambda: on(ROUTE, refuse(16)), allowed=Allowed.ERROR),
    scenario_of("the name server is mute", lambda: on(ROUTE, mute), allowed=Allowed.ERROR),
    scenario_of("the name server is slow", lambda: on(ROUTE, slow(0.3)), allowed=Allowed.RIGHT),
    scenario_of("the name server is mute for the stream", lambda: on(ROUTE, mute), "stream", allowed=Allowed.ERROR),
    scenario_of("the name server is mute for a producer", lambda: on(ROUTE, mute), "send", allowed=Allowed.ERROR),
    scenario_of("no topics", lambda: on(LIST, body(b'{"topicList":[]}')), options=PATTERN),
    scenario_of("topics of numbers", lambda: on(LIST, body(b'{"topicList":[1,2,null]}')), options=PATTERN),
    scenario_of(
        "topics of nonsense",
        lambda: on(LIST, body(b'{"topicList":["","a b","%00","\\ud800","' + b"x" * 9000 + b'"]}')),
        options={"subscribePattern": ".*"},
    ),
    scenario_of(
        "topics that do not exist",
        lambda: on(LIST, body(b'{"topicList":["orders","orders2"]}')),
        options={"subscribePattern": "orders.*"},
    ),
    scenario_of(
        "a topic 100,000 times",
        lambda: on(LIST, body(b'{"topicList":["orders"' + b',"orders"' * 100_000 + b"]}")),
        options=PATTERN,
        own_process=True,
    ),
    scenario_of(
        "a million topics",
        lambda: on(LIST, body(b'{"topicList":["orders"' + b',"t"' * 10**6 + b"]}")),
        options=PATTERN,
        own_process=True,
    ),
    scenario_of(
        "a topic list that is none", lambda: on(LIST, body(b'{"topicList":7}')), "topics", allowed=Allowed.ERROR
    ),
    scenario_of(
        "a topic list of references",
        lambda: on(LIST, body(b'{"topicList":[{"$ref":"$.topicList[0]"}]}')),
        "topics",
        allowed=Allowed.ERROR,
    ),
    scenario_of(
        "brokers that are none", lambda: on(BROKERS, body(b'{"brokerAddrTable":[]}')), "brokers", allowed=Allowed.ERROR
    ),
    scenario_of(
        "brokers without addresses",
        lambda: on(BROKERS, body(b'{"brokerAddrTable":{"a":{}}}')),
        "brokers",
        allowed=Allowed.ERROR,
    ),
    scenario_of("brokers twice", lambda: on(BROKERS, rewrite(rb"^(.*)$", rb"\1\1")), "brokers", allowed=Allowed.ERROR),
    scenario_of(
        "a configuration of nonsense", lambda: on(351, body(b'{"topicName":7}')), "topic config", allowed=Allowed.ERROR
    ),
    scenario_of("messages by key that are none", lambda: on(12, body(b"\x00" * 50)), "by key", allowed=Allowed.ERROR),
    scenario_of(
        "messages by key cut off", lambda: on(12, rewrite(rb"(?s)^(.{100}).*", rb"\1")), "by key", allowed=Allowed.ERROR
    ),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_routes(scenario: Scenario) -> None:
    """If a name server's response makes no sense, the call ends in time, with the right result or an error."""
    run_and_check(scenario)
