"""Routes, topic lists and lists of brokers that cannot be."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyspark_rocketmq.wire.codes import RequestCode

from .behaviours import ROUTE, body, first, mute, on, refuse, rewrite, slow
from .scenarios import Ends, Scenario, assert_ends_well, lie

LIST = RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER
BROKERS = RequestCode.GET_BROKER_CLUSTER_INFO
PATTERN = {"subscribePattern": "orders"}
ADDRESS = rb'"127\.0\.0\.1:\d+"'


def route_of(name: str, content: object, **given: Any) -> Scenario:
    """Return the scenario of a name server that gives this route."""
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    return lie(f"a route {name}", lambda: on(ROUTE, body(data)), **given)


def with_address(name: str, text: str, **given: Any) -> Scenario:
    """Return the scenario of brokers that are registered with another address."""
    return lie(f"address {name}", lambda: on(ROUTE, rewrite(ADDRESS, lambda _: f'"{text}"'.encode())), **given)


def with_count(member: str, value: str, face: str = "batch", **given: Any) -> Scenario:
    """Return the scenario of a route with such a number of queues, or of rights."""
    pattern = b'"%b":\\d+' % member.encode()
    behaviour = on(ROUTE, rewrite(pattern, b'"%b":%b' % (member.encode(), value.encode())))
    return lie(f"{member} {value[:24]} for {face}", lambda: behaviour, face, **given)


def queue_data(broker: str = "broker-a", **given: Any) -> dict[str, object]:
    """Return one broker's part of a route."""
    return {"brokerName": broker, "readQueueNums": 2, "writeQueueNums": 2, "perm": 6, "topicSysFlag": 0, **given}


def broker_data(address: str = "127.0.0.1:9", broker: str = "broker-a") -> dict[str, object]:
    """Return one broker's addresses."""
    return {"cluster": "c", "brokerName": broker, "brokerAddrs": {"0": address}}


MANY = [queue_data(f"broker-{number}") for number in range(20_000)]
SCENARIOS = [
    *(with_count("readQueueNums", value) for value in ("-1", "1e999", "NaN", '"2"', "null", "true", "2.5", "[]")),
    with_count("readQueueNums", str(2**31), apart=True, ends=Ends.ERROR),
    with_count("readQueueNums", str(2**62), apart=True, ends=Ends.ERROR),
    with_count("readQueueNums", "9" * 4400),
    with_count("readQueueNums", "5000"),
    with_count("writeQueueNums", str(2**31), "send", apart=True, ends=Ends.ERROR),
    with_count("writeQueueNums", str(2**31), "batch", apart=True),
    with_count("writeQueueNums", "-1", "send", ends=Ends.ERROR),
    with_count("perm", "-1"),
    with_count("perm", "0", ends=Ends.ERROR),
    with_count("perm", str(2**70)),
    with_count("perm", "null"),
    with_count("perm", "0", "send", ends=Ends.ERROR),
    lie(
        "an order of 2^31 queues",
        lambda: on(ROUTE, rewrite(rb"^\{", b'{"orderTopicConf":"broker-a:2147483648",')),
        "send",
        apart=True,
        ends=Ends.ERROR,
    ),
    lie(
        "an order of 2^31 queues for a reader",
        lambda: on(ROUTE, rewrite(rb"^\{", b'{"orderTopicConf":"broker-a:2147483648",')),
        apart=True,
    ),
    lie(
        "an order of a million brokers",
        lambda: on(ROUTE, rewrite(rb"^\{", b'{"orderTopicConf":"' + b"b:9;" * 10**6 + b'",')),
        "send",
        apart=True,
        ends=Ends.ERROR,
    ),
    lie(
        "an order in words",
        lambda: on(ROUTE, rewrite(rb"^\{", b'{"orderTopicConf":"broker-a:many",')),
        "send",
        ends=Ends.ERROR,
    ),
    lie(
        "an order below zero",
        lambda: on(ROUTE, rewrite(rb"^\{", b'{"orderTopicConf":"broker-a:-4",')),
        "send",
        ends=Ends.ERROR,
    ),
    lie(
        "an order of 4,400 digits",
        lambda: on(ROUTE, rewrite(rb"^\{", b'{"orderTopicConf":"broker-a:' + b"9" * 4400 + b'",')),
        "send",
        ends=Ends.ERROR,
    ),
    with_address("empty", "", ends=Ends.ERROR),
    with_address("in words", "somewhere", ends=Ends.ERROR),
    with_address("with port 99999", "127.0.0.1:99999", ends=Ends.ERROR),
    with_address("with port 0", "127.0.0.1:0", ends=Ends.ERROR),
    with_address("with port below zero", "127.0.0.1:-1", ends=Ends.ERROR),
    with_address("cut off", "[::1", ends=Ends.ERROR),
    with_address("of a web page", "http://127.0.0.1:80", ends=Ends.ERROR),
    with_address("of nobody", "nowhere.invalid:10911", ends=Ends.ERROR),
    with_address("where nobody listens", "127.0.0.1:9", ends=Ends.ERROR),
    with_address("of 300 KB", "x" * 300_000 + ":1", ends=Ends.ERROR),
    with_address("with a label of 64", "y" * 64 + ".example:10911", ends=Ends.ERROR),
    with_address("with a NUL", "local\\u0000host:10911", ends=Ends.ERROR),
    with_address("with a lone surrogate", "\\ud800:10911", ends=Ends.ERROR),
    with_address("of everybody", "0.0.0.0:1", ends=Ends.ERROR),
    lie("no master", lambda: on(ROUTE, rewrite(rb'"brokerAddrs":\{"0"', b'"brokerAddrs":{"3"'))),
    lie(
        "no master for a producer",
        lambda: on(ROUTE, rewrite(rb'"brokerAddrs":\{"0"', b'"brokerAddrs":{"3"')),
        "send",
        ends=Ends.ERROR,
    ),
    lie(
        "a broker number in words",
        lambda: on(ROUTE, rewrite(rb'"brokerAddrs":\{"0"', b'"brokerAddrs":{"first"')),
        ends=Ends.ERROR,
    ),
    lie("a broker number of 2^70", lambda: on(ROUTE, rewrite(rb'"brokerAddrs":\{"0"', b'"brokerAddrs":{"%d"' % 2**70))),
    lie("no addresses", lambda: on(ROUTE, rewrite(rb'"brokerAddrs":\{[^}]*\}', b'"brokerAddrs":{}')), ends=Ends.ERROR),
    lie("another broker's name", lambda: on(ROUTE, rewrite(b"broker-a", b"broker-z"))),
    lie("the name of queues alone", lambda: on(ROUTE, rewrite(rb'("readQueueNums":2)', rb'\1,"brokerName":"gone"'))),
    route_of("that is empty", {}, ends=Ends.ERROR),
    route_of("without queues", {"brokerDatas": [broker_data()], "queueDatas": []}, ends=Ends.ERROR),
    route_of("without brokers", {"brokerDatas": [], "queueDatas": [queue_data()]}, ends=Ends.ERROR),
    route_of("that is a list", [], ends=Ends.ERROR),
    route_of("that is null", b"null", ends=Ends.ERROR),
    route_of("that is no text", b"\xff\xff", ends=Ends.ERROR),
    route_of("without a body", b"", ends=Ends.ERROR),
    route_of("nested deeply", b'{"queueDatas":' + b"[" * 200_000, ends=Ends.ERROR),
    route_of("nested in keys", b"{" * 100_000, ends=Ends.ERROR),
    route_of("of a static topic", {"topicQueueMappingByBroker": {"broker-a": {"topic": "orders"}}}, ends=Ends.ERROR),
    route_of("of 20,000 brokers", {"brokerDatas": [broker_data()], "queueDatas": MANY}, apart=True, ends=Ends.ERROR),
    route_of(
        "of one broker 20,000 times",
        {"brokerDatas": [broker_data()] * 20_000, "queueDatas": [queue_data()] * 20_000},
        apart=True,
        ends=Ends.ERROR,
    ),
    lie("each broker twice", lambda: on(ROUTE, rewrite(rb'"queueDatas":\[(\{.*?\})\]', rb'"queueDatas":[\1,\1]'))),
    lie("the topic is unknown", lambda: on(ROUTE, refuse(17)), ends=Ends.ERROR),
    lie("the topic is unknown for a moment", lambda: on(ROUTE, first(2, refuse(17)))),
    lie("routes are forbidden", lambda: on(ROUTE, refuse(16)), ends=Ends.ERROR),
    lie("the name server is mute", lambda: on(ROUTE, mute), ends=Ends.ERROR),
    lie("the name server is slow", lambda: on(ROUTE, slow(0.3)), ends=Ends.RIGHT),
    lie("the name server is mute for the stream", lambda: on(ROUTE, mute), "stream", ends=Ends.ERROR),
    lie("the name server is mute for a producer", lambda: on(ROUTE, mute), "send", ends=Ends.ERROR),
    lie("no topics", lambda: on(LIST, body(b'{"topicList":[]}')), options=PATTERN),
    lie("topics of numbers", lambda: on(LIST, body(b'{"topicList":[1,2,null]}')), options=PATTERN),
    lie(
        "topics of nonsense",
        lambda: on(LIST, body(b'{"topicList":["","a b","%00","\\ud800","' + b"x" * 9000 + b'"]}')),
        options={"subscribePattern": ".*"},
    ),
    lie(
        "topics that do not exist",
        lambda: on(LIST, body(b'{"topicList":["orders","orders2"]}')),
        options={"subscribePattern": "orders.*"},
    ),
    lie(
        "a topic 100,000 times",
        lambda: on(LIST, body(b'{"topicList":["orders"' + b',"orders"' * 100_000 + b"]}")),
        options=PATTERN,
        apart=True,
    ),
    lie(
        "a million topics",
        lambda: on(LIST, body(b'{"topicList":["orders"' + b',"t"' * 10**6 + b"]}")),
        options=PATTERN,
        apart=True,
    ),
    lie("a topic list that is none", lambda: on(LIST, body(b'{"topicList":7}')), "topics", ends=Ends.ERROR),
    lie(
        "a topic list of references",
        lambda: on(LIST, body(b'{"topicList":[{"$ref":"$.topicList[0]"}]}')),
        "topics",
        ends=Ends.ERROR,
    ),
    lie("brokers that are none", lambda: on(BROKERS, body(b'{"brokerAddrTable":[]}')), "brokers", ends=Ends.ERROR),
    lie(
        "brokers without addresses",
        lambda: on(BROKERS, body(b'{"brokerAddrTable":{"a":{}}}')),
        "brokers",
        ends=Ends.ERROR,
    ),
    lie("brokers twice", lambda: on(BROKERS, rewrite(rb"^(.*)$", rb"\1\1")), "brokers", ends=Ends.ERROR),
    lie("a configuration of nonsense", lambda: on(351, body(b'{"topicName":7}')), "topic config", ends=Ends.ERROR),
    lie("messages by key that are none", lambda: on(12, body(b"\x00" * 50)), "by key", ends=Ends.ERROR),
    lie("messages by key cut off", lambda: on(12, rewrite(rb"(?s)^(.{100}).*", rb"\1")), "by key", ends=Ends.ERROR),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_routes(scenario: Scenario) -> None:
    """What a name server says costs no more than it is worth, and is refused by name where it makes no sense."""
    assert_ends_well(scenario)
