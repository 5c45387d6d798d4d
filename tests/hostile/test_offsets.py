"""Offsets that are none, in every answer that carries one; positions and commits."""

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
from .scenarios import Ends, Scenario, assert_ends_well, lie
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
    """Return the scenario of pulls' answers with nonsense in one field."""
    return lie(f"pull {field} {name}", lambda: at_pulls(fields(**{field: NONSENSE[name]})))


def in_statistics(member: bytes, value: bytes) -> Scenario:
    """Return the scenario of statistics with nonsense in one member."""
    behaviour = rewrite(rb'"%b":-?\d+' % member, b'"%b":%b' % (member, value))
    return lie(f"statistics {member.decode()} {value[:20].decode()}", lambda: on(STATISTICS, behaviour))


def singly(code: RequestCode, value: str | None) -> Behaviour:
    """Refuse statistics, and answer this question with nonsense."""
    return on(code, fields(offset=value), on(STATISTICS, refuse(3)))


def asked_singly(code: RequestCode, kind: str, **options: str) -> Scenario:
    """Return the scenario of answers about one offset of one queue."""
    return lie(f"{code.name} {kind}", lambda: singly(code, NONSENSE[kind]), options=options)


def position(value: str | None) -> Callable[[], Behaviour]:
    """Claim that the group stands there."""
    return lambda: on(RequestCode.QUERY_CONSUMER_OFFSET, both(body(b""), fields(offset=value)))


def poison(value: bytes) -> Scenario:
    """Return the scenario of one wrong number, after which the query is started again."""
    behaviour = rewrite(rb'"maxOffset":\d+', b'"maxOffset":' + value)
    name = f"a checkpoint after {value.decode()}"
    return lie(name, lambda: on(STATISTICS, first(1, behaviour)), "restarted", ends=Ends.RIGHT)


def nothing_new() -> Behaviour:
    """Find nothing, at an offset that should hold messages."""
    return not_found(ResponseCode.PULL_NOT_FOUND, lambda asked, _: asked)


def no_match_at_all(exchange: Exchange) -> list[bytes]:
    """Answer with a status that no such request has."""
    exchange.answer.code = 20
    return [exchange.honest()]


COMMIT = RequestCode.UPDATE_CONSUMER_OFFSET
SCENARIOS = [
    *(in_pulls(field, kind) for field in PULL_FIELDS for kind in NONSENSE),
    *(in_statistics(member, value) for member in (b"minOffset", b"maxOffset") for value in NUMBERS),
    *(asked_singly(code, kind) for code in BOUNDS for kind in NONSENSE),
    *(asked_singly(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, kind, startingTimestamp="1") for kind in NONSENSE),
    *(
        lie(f"position {kind} for the {face}", position(value), face, options=FROM_GROUP)
        for kind, value in {**NONSENSE, "10^6": "1000000", "2^63-1": str(2**63 - 1)}.items()
        for face in ("batch", "stream")
    ),
    *map(poison, (b"1" + b"0" * 30, b"%d" % 2**63, b"%d" % 2**64, b"-5", b"1e30")),
    lie("a checkpoint after hang-ups", lambda: on(PULLS, after(1, first(6, hang_up))), "restarted", ends=Ends.RIGHT),
    lie("a client asks for the maximum", lambda: on(BOUNDS, fields(offset="9" * 31)), "max", ends=Ends.ERROR),
    lie("a client asks for the minimum", lambda: on(BOUNDS, fields(offset=str(2**63))), "min", ends=Ends.ERROR),
    lie(
        "a client searches",
        lambda: on(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, fields(offset="1" + "0" * 30)),
        "search",
        ends=Ends.ERROR,
    ),
    lie("a client asks for a position", position("1" + "0" * 30), "committed", ends=Ends.ERROR),
    lie(
        "a client asks for bounds",
        lambda: on(STATISTICS, rewrite(rb'"maxOffset":\d+', b'"maxOffset":1' + b"0" * 30)),
        "bounds",
        ends=Ends.ERROR,
    ),
    lie(
        "a member's position is nonsense once",
        lambda: on(14, first(2, both(body(b""), fields(offset="1" + "0" * 30)))),
        "consume",
        ends=Ends.RIGHT,
    ),
    lie("statistics of another topic", lambda: on(STATISTICS, rewrite(b'"topic":"orders"', b'"topic":"others"'))),
    lie("statistics of other queues", lambda: on(STATISTICS, rewrite(b'"queueId":1', b'"queueId":9')), ends=Ends.RIGHT),
    lie("statistics of a queue below zero", lambda: on(STATISTICS, rewrite(b'"queueId":1', b'"queueId":-1'))),
    lie("no statistics at all", lambda: on(STATISTICS, body(b'{"offsetTable":{}}')), ends=Ends.RIGHT),
    lie("statistics that are a list", lambda: on(STATISTICS, body(b"[1,2,3]"))),
    lie("statistics without a table", lambda: on(STATISTICS, body(b"{}"))),
    lie("statistics without a body", lambda: on(STATISTICS, body(b""))),
    lie("statistics cut off", lambda: on(STATISTICS, body(b'{"offsetTable":{{"brokerName":"broker-a","queu'))),
    lie("statistics that are no text", lambda: on(STATISTICS, body(b"\xff\xfe" * 500))),
    lie("statistics nested deeply", lambda: on(STATISTICS, body(b'{"offsetTable":' * 50_000))),
    lie(
        "the minimum above the maximum",
        lambda: on(STATISTICS, rewrite(b'"minOffset":0', b'"minOffset":1000')),
        ends=Ends.ERROR,
    ),
    lie(
        "the maximum is 2^62",
        lambda: on(STATISTICS, rewrite(b'"maxOffset":64', b'"maxOffset":%d' % 2**62)),
        ends=Ends.ERROR,
    ),
    lie(
        "the maximum falls after planning",
        lambda: at_pulls(after(1, both(fields(maxOffset="40"), nothing_new()))),
        ends=Ends.ERROR,
    ),
    lie("commits are refused", lambda: on(COMMIT, refuse(1)), "triggers", ends=Ends.RIGHT),
    lie("commits are forbidden", lambda: on(COMMIT, refuse(16)), "triggers", ends=Ends.RIGHT),
    lie("commits need time", lambda: on(COMMIT, slow(0.3)), "triggers", ends=Ends.RIGHT),
    lie("commits are not answered", lambda: on(COMMIT, mute), "triggers", ends=Ends.RIGHT),
    lie("commits end the connection", lambda: on(COMMIT, hang_up), "triggers", ends=Ends.RIGHT),
    lie("commits get another status", lambda: on(COMMIT, no_match_at_all), "triggers", ends=Ends.RIGHT),
    lie("pulls end the connection once", lambda: on(PULLS, first(2, hang_up)), "triggers", ends=Ends.RIGHT),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_offsets(scenario: Scenario) -> None:
    """A number that is no offset ends as an error where it is read, and enters no position."""
    assert_ends_well(scenario)
