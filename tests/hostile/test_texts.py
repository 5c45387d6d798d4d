"""Test remarks and names of servers that are huge, forge log lines, or move a terminal's cursor.

No text of an error or log line is long or has control characters; each outcome of this folder's tests is checked for
that. Here every entry point meets such texts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import partial

import pytest

from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from tests.source.driving import GROUP

from .behaviours import PULLS, ROUTE, body, each_record, first, flood, on, refuse, request_frame, rewrite
from .entry_points import ENTRY_POINTS
from .scenarios import Allowed, Scenario, run_and_check, scenario_of
from .server import Behaviour, Exchange, ServerFaults, honest

FORGED = "no\n2026-01-01 00:00:00 ERROR forged\r\x1b[31m\x07\x85\u2028\u202e"
REMARK = FORGED + "x" * 500_000
NAME = json.dumps(FORGED).encode()
LONG_NAME = b'"%b"' % (b"x" * 300_000)
LIST = RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER
BROKERS, CHECK_FILTER = RequestCode.GET_BROKER_CLUSTER_INFO, RequestCode.CHECK_CLIENT_CONFIG
ENDLESS = ("consume", "poll")
"""Entry points that wait for their messages as long as it takes."""


def to_brokers(behaviour: Behaviour) -> Behaviour:
    """Return a behaviour that applies `behaviour` to requests to brokers, and answers others honestly."""
    to_name_servers = (ROUTE, LIST, BROKERS)
    return lambda exchange: (honest if exchange.request.code in to_name_servers else behaviour)(exchange)


def refusing(code: ResponseCode, entry_point: str, *, only_brokers: bool) -> Scenario:
    """Return the scenario of servers that refuse requests with the remark; for members, the first few requests."""
    refusal = first(5, refuse(code, REMARK)) if entry_point in ENDLESS else refuse(code, REMARK)
    name = f"{code.name} of {'brokers' if only_brokers else 'all'} for {entry_point}"
    return scenario_of(name, lambda: to_brokers(refusal) if only_brokers else refusal, entry_point)


def forged_fields(exchange: Exchange) -> Iterable[bytes]:
    """Send the response with forged text in all header fields."""
    exchange.answer.fields = dict.fromkeys(exchange.answer.fields or {}, FORGED)
    return [exchange.honest()]


def forged_strings(exchange: Exchange) -> Iterable[bytes]:
    """Send the response with forged text in all strings of a JSON body."""
    is_json = bytes(exchange.answer.body[:1]) == b"{"
    return (rewrite(rb'"[^"]*"(?!:)', lambda _: NAME) if is_json else honest)(exchange)


def named(name: str, pattern: bytes, text: bytes, codes: int, entry_point: str = "batch") -> Scenario:
    """Return the scenario of responses with this text where the pattern matches."""
    return scenario_of(
        f"{name} of {len(text)} bytes for {entry_point}",
        lambda: on(codes, rewrite(pattern, lambda _: text)),
        entry_point,
        allowed=Allowed.ERROR,
    )


def reset_of_a_forged_topic() -> ServerFaults:
    """Return servers that tell members to reset their positions in a topic with a forged name."""
    frame = request_frame(
        RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
        is_oneway=False,
        body=b'{"offsetTable":{}}',
        topic=REMARK,
        group=GROUP,
        timestamp="0",
        isForce="true",
    )
    return ServerFaults(greeting=flood(frame, count=1))


SCENARIOS = [
    *(
        refusing(ResponseCode.NO_PERMISSION, entry_point, only_brokers=only_brokers)
        for entry_point in ENTRY_POINTS
        for only_brokers in (False, True)
    ),
    *(refusing(ResponseCode.SYSTEM_ERROR, entry_point, only_brokers=True) for entry_point in ("triggers", "consume")),
    *(
        named("a broker's name", b'"broker-a"', text, code, entry_point)
        for text in (NAME, LONG_NAME)
        for code, entry_point in ((ROUTE, "batch"), (ROUTE, "send"), (BROKERS, "brokers"))
    ),
    *(
        scenario_of(f"{behaviour.__name__} for {entry_point}", partial(first, 20, behaviour), entry_point)
        for behaviour in (forged_fields, forged_strings)
        for entry_point in ENTRY_POINTS
    ),
    named("an address", rb'"127\.0\.0\.1:\d+"', b'"no\\nhost\\u202e:10911"', ROUTE),
    named("a broker's name in an order", rb"^\{", b'{"orderTopicConf":"b\\u001b[31m:1",', ROUTE, "send"),
    scenario_of(
        "topics with forged names",
        lambda: on(LIST, body(b'{"topicList":["orders",%b,%b]}' % (NAME, LONG_NAME))),
        options={"subscribePattern": ".*"},
        allowed=Allowed.RIGHT,
    ),
    scenario_of(
        "a filter that is refused",
        lambda: on(CHECK_FILTER, refuse(ResponseCode.SUBSCRIPTION_PARSE_FAILED, REMARK)),
        options={"sqlFilter": "a > 1\n AND b"},
        allowed=Allowed.ERROR,
    ),
    scenario_of("records of a forged topic", lambda: on(PULLS, each_record(topic=FORGED[:40])), allowed=Allowed.ERROR),
    Scenario("a reset of a forged topic", reset_of_a_forged_topic, "consume", allowed=Allowed.RIGHT),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_texts(scenario: Scenario) -> None:
    """If a server sends such a text, errors and log lines stay short and on one line."""
    run_and_check(scenario)
