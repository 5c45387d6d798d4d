"""Test illegal offsets in every response that carries an offset: bounds, positions and responses to commits."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode

from .behaviours import (
    PULLS,
    STATISTICS,
    after,
    at_pulls,
    body,
    both,
    fields,
    first,
    hang_up,
    mute,
    not_found,
    on,
    refuse,
    rewrite,
    slow,
)
from .scenarios import Allowed, Scenario, run_and_check, scenario_of
from .server import Behaviour, Exchange

NONSENSE = {
    "10^30": "1" + "0" * 30,
    "2^63": str(2**63),
    "-5": "-5",
    "-10^30": "-1" + "0" * 30,
    "word": "many",
    "empty": "",
    "none": None,
    "fraction": "1.5",
    "digits": "9" * 4400,
}
NUMBERS = (
    b"1" + b"0" * 30,
    b"%d" % 2**63,
    b"-5",
    b"1e999",
    b"NaN",
    b"9" * 4400,
    b'"7"',
    b"true",
    b"null",
)
PULL_FIELDS = ("nextBeginOffset", "minOffset", "maxOffset", "suggestWhichBrokerId")
BOUNDS = (RequestCode.GET_MIN_OFFSET, RequestCode.GET_MAX_OFFSET)
FROM_GROUP = {"consumerGroup": "readers", "startingOffsets": "group", "startingOffsetsDefault": "earliest"}


def in_pulls(field: str, name: str) -> Scenario:
    """Return the scenario of pull responses whose header field `field` has the illegal value `name`."""
    return scenario_of(f"pull {field} {name}", lambda: at_pulls(fields(**{field: NONSENSE[name]})))


def in_statistics(member: bytes, value: bytes) -> Scenario:
    """Return the scenario of topic statistics whose JSON member `member` has this illegal value."""
    behaviour = rewrite(rb'"%b":-?\d+' % member, b'"%b":%b' % (member, value))
    return scenario_of(f"statistics {member.decode()} {value[:20].decode()}", lambda: on(STATISTICS, behaviour))


def singly(code: RequestCode, value: str | None) -> Behaviour:
    """Return a behaviour that refuses topic statistics, and puts the offset `value` into responses to `code`."""
    return on(code, fields(offset=value), on(STATISTICS, refuse(3)))


def asked_singly(code: RequestCode, kind: str, **options: str) -> Scenario:
    """Return the scenario of an illegal offset in the responses to requests about one queue."""
    return scenario_of(f"{code.name} {kind}", lambda: singly(code, NONSENSE[kind]), options=options)


def position(value: str | None) -> Callable[[], Behaviour]:
    """Return a function that makes a behaviour, which reports `value` as the group's committed offset."""
    return lambda: on(RequestCode.QUERY_CONSUMER_OFFSET, both(body(b""), fields(offset=value)))


def poison(value: bytes) -> Scenario:
    """Return the scenario of a maximum offset that is illegal once: the query restarts and must return all rows."""
    behaviour = rewrite(rb'"maxOffset":\d+', b'"maxOffset":' + value)
    name = f"a checkpoint after {value.decode()}"
    return scenario_of(name, lambda: on(STATISTICS, first(1, behaviour)), "restarted", allowed=Allowed.RIGHT)


def nothing_new() -> Behaviour:
    """Return a behaviour that responds to pulls with "no new message" at offsets that have messages."""
    return not_found(ResponseCode.PULL_NOT_FOUND, lambda asked, _: asked)


def no_match_at_all(exchange: Exchange) -> list[bytes]:
    """Respond with code 20, which is no legal response to this request."""
    exchange.answer.code = 20
    return [exchange.honest()]


def statistics_of_another(what: str, own: bytes, other: bytes) -> Scenario:
    """Return the scenario of statistics with other offsets, whose queues belong to another topic or broker."""
    changed = rewrite(rb'"m(ax|in)Offset":\d+', rb'"m\1Offset":1000')
    behaviour = on(STATISTICS, both(changed, rewrite(own, other)))
    return scenario_of(f"statistics of another {what}", lambda: behaviour, allowed=Allowed.RIGHT)


COMMIT = RequestCode.UPDATE_CONSUMER_OFFSET
SCENARIOS = [
    *(in_pulls(field, kind) for field in PULL_FIELDS for kind in NONSENSE),
    *(in_statistics(member, value) for member in (b"minOffset", b"maxOffset") for value in NUMBERS),
    *(asked_singly(code, kind) for code in BOUNDS for kind in NONSENSE),
    *(asked_singly(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, kind, startingTimestamp="1") for kind in NONSENSE),
    *(
        scenario_of(f"position {kind} for the {entry_point}", position(value), entry_point, options=FROM_GROUP)
        for kind, value in {**NONSENSE, "10^6": "1000000", "2^63-1": str(2**63 - 1)}.items()
        for entry_point in ("batch", "stream")
    ),
    *map(poison, (b"1" + b"0" * 30, b"%d" % 2**63, b"%d" % 2**64, b"-5", b"1e30")),
    scenario_of(
        "a checkpoint after hang-ups",
        lambda: on(PULLS, after(1, first(6, hang_up))),
        "restarted",
        allowed=Allowed.RIGHT,
    ),
    scenario_of(
        "a client asks for the maximum", lambda: on(BOUNDS, fields(offset="9" * 31)), "max", allowed=Allowed.ERROR
    ),
    scenario_of(
        "a client asks for the minimum", lambda: on(BOUNDS, fields(offset=str(2**63))), "min", allowed=Allowed.ERROR
    ),
    scenario_of(
        "a client searches",
        lambda: on(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, fields(offset="1" + "0" * 30)),
        "search",
        allowed=Allowed.ERROR,
    ),
    scenario_of("a client asks for a position", position("1" + "0" * 30), "committed", allowed=Allowed.ERROR),
    scenario_of(
        "a client asks for bounds",
        lambda: on(STATISTICS, rewrite(rb'"maxOffset":\d+', b'"maxOffset":1' + b"0" * 30)),
        "bounds",
        allowed=Allowed.ERROR,
    ),
    scenario_of(
        "a member's position is nonsense once",
        lambda: on(14, first(2, both(body(b""), fields(offset="1" + "0" * 30)))),
        "consume",
        allowed=Allowed.RIGHT,
    ),
    statistics_of_another("topic", b'"topic":"orders"', b'"topic":"others"'),
    statistics_of_another("broker", b'"brokerName":"broker-a"', b'"brokerName":"broker-b"'),
    scenario_of(
        "statistics of other queues",
        lambda: on(STATISTICS, rewrite(b'"queueId":1', b'"queueId":9')),
        allowed=Allowed.RIGHT,
    ),
    scenario_of("statistics of a queue below zero", lambda: on(STATISTICS, rewrite(b'"queueId":1', b'"queueId":-1'))),
    scenario_of("no statistics at all", lambda: on(STATISTICS, body(b'{"offsetTable":{}}')), allowed=Allowed.RIGHT),
    scenario_of("statistics that are a list", lambda: on(STATISTICS, body(b"[1,2,3]"))),
    scenario_of("statistics without a table", lambda: on(STATISTICS, body(b"{}"))),
    scenario_of("statistics without a body", lambda: on(STATISTICS, body(b""))),
    scenario_of("statistics cut off", lambda: on(STATISTICS, body(b'{"offsetTable":{{"brokerName":"broker-a","queu'))),
    scenario_of("statistics that are no text", lambda: on(STATISTICS, body(b"\xff\xfe" * 500))),
    scenario_of("statistics nested deeply", lambda: on(STATISTICS, body(b'{"offsetTable":' * 50_000))),
    scenario_of(
        "the minimum above the maximum",
        lambda: on(STATISTICS, rewrite(b'"minOffset":0', b'"minOffset":1000')),
        allowed=Allowed.ERROR,
    ),
    scenario_of(
        "the maximum is 2^62",
        lambda: on(STATISTICS, rewrite(b'"maxOffset":64', b'"maxOffset":%d' % 2**62)),
        allowed=Allowed.ERROR,
    ),
    scenario_of(
        "the maximum falls after planning",
        lambda: at_pulls(after(1, both(fields(maxOffset="40"), nothing_new()))),
        allowed=Allowed.ERROR,
    ),
    scenario_of("commits are refused", lambda: on(COMMIT, refuse(1)), "triggers", allowed=Allowed.RIGHT),
    scenario_of("commits are forbidden", lambda: on(COMMIT, refuse(16)), "triggers", allowed=Allowed.RIGHT),
    scenario_of("commits need time", lambda: on(COMMIT, slow(0.3)), "triggers", allowed=Allowed.RIGHT),
    scenario_of("commits are not answered", lambda: on(COMMIT, mute), "triggers", allowed=Allowed.RIGHT),
    scenario_of("commits end the connection", lambda: on(COMMIT, hang_up), "triggers", allowed=Allowed.RIGHT),
    scenario_of("commits get another status", lambda: on(COMMIT, no_match_at_all), "triggers", allowed=Allowed.RIGHT),
    scenario_of(
        "pulls end the connection once", lambda: on(PULLS, first(2, hang_up)), "triggers", allowed=Allowed.RIGHT
    ),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_offsets(scenario: Scenario) -> None:
    """If a response has an illegal offset, the call fails or returns right rows, and no checkpoint keeps it."""
    run_and_check(scenario)
