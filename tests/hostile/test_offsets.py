"""Offsets that are none, in every answer that carries one; positions and commits."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode

from .behaviours import PULLS, STATISTICS, after, at_pulls, body, both, fields, first, hang_up, mute, not_found, on, refuse, rewrite, slow
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
BOUNDS = (RequestCode.GET_MIN_OFFSET, RequestCode.GET_MAX_OFFSET)
FROM_GROUP = {"consumerGroup": "readers", "startingOffsets": "group", "startingOffsetsDefault": "earliest"}


def in_pulls(field: str) -> list[Scenario]:
    """Return scenarios of pulls' answers with nonsense in one field."""
    return [
        lie(f"pull {field} {name}", lambda field=field, value=value: at_pulls(fields(**{field: value})))
        for name, value in NONSENSE.items()
    ]


def in_statistics(member: bytes) -> list[Scenario]:
    """Return scenarios of statistics with nonsense in one member."""
    values = [b"1" + b"0" * 30, b"9223372036854775808", b"-5", b"1e999", b"NaN", b"9" * 4400, b'"7"', b"true", b"null"]
    return [
        lie(
            f"statistics {member.decode()} {value[:20].decode()}",
            lambda value=value: on(STATISTICS, rewrite(b'"%b":-?\\d+' % member, b'"%b":%b' % (member, value))),
        )
        for value in values
    ]


def singly(code: RequestCode, value: str | None) -> Behaviour:
    """Refuse statistics, and answer this question with nonsense."""
    return on(code, fields(offset=value), on(STATISTICS, refuse(3)))


def asked_singly(code: RequestCode, name: str, face: str = "batch", **options: str) -> list[Scenario]:
    """Return scenarios of answers about one offset of one queue."""
    return [
        lie(f"{name} {kind}", lambda value=value: singly(code, value), face, options=options)
        for kind, value in NONSENSE.items()
    ]


def position(value: str | None) -> Callable[[], Behaviour]:
    """Claim that the group stands there."""
    return lambda: on(RequestCode.QUERY_CONSUMER_OFFSET, both(body(b""), fields(offset=value)))


def positions() -> list[Scenario]:
    """Return scenarios of positions that no group can have."""
    beyond = {"far beyond the end": "1000000", "2^63-1": str(2**63 - 1)}
    return [
        lie(f"position {kind}", position(value), face, options=FROM_GROUP)
        for kind, value in {**NONSENSE, **beyond}.items()
        for face in ("batch", "stream")
    ]


def nothing_new() -> Behaviour:
    """Find nothing, at an offset that should hold messages."""
    return not_found(ResponseCode.PULL_NOT_FOUND, lambda asked, _: asked)


def no_match_at_all(exchange: Exchange) -> list[bytes]:
    """Answer with a status that no such request has."""
    exchange.answer.code = 20
    return [exchange.honest()]


COMMIT = RequestCode.UPDATE_CONSUMER_OFFSET
SCENARIOS = [
    *in_pulls("nextBeginOffset"),
    *in_pulls("minOffset"),
    *in_pulls("maxOffset"),
    *in_pulls("suggestWhichBrokerId"),
    *in_statistics(b"maxOffset"),
    *in_statistics(b"minOffset"),
    *asked_singly(RequestCode.GET_MAX_OFFSET, "maximum"),
    *asked_singly(RequestCode.GET_MIN_OFFSET, "minimum"),
    *asked_singly(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, "search", startingTimestamp="1"),
    *positions(),
    lie("a client asks for the maximum", lambda: on(BOUNDS, fields(offset="9" * 31)), "max", ends=Ends.ERROR),
    lie("a client asks for the minimum", lambda: on(BOUNDS, fields(offset=str(2**63))), "min", ends=Ends.ERROR),
    lie(
        "a client searches",
        lambda: on(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, fields(offset="1" + "0" * 30)),
        "search",
        ends=Ends.ERROR,
    ),
    lie("a client asks for a position", position("1" + "0" * 30), "committed", ends=Ends.ERROR),
    lie("a client asks for bounds", lambda: on(STATISTICS, rewrite(b'"maxOffset":\\d+', b'"maxOffset":1' + b"0" * 30)), "bounds", ends=Ends.ERROR),
    lie("a member's position is nonsense once", lambda: on(14, first(2, both(body(b""), fields(offset="1" + "0" * 30)))), "consume", ends=Ends.RIGHT),
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
    lie("the minimum above the maximum", lambda: on(STATISTICS, rewrite(b'"minOffset":0', b'"minOffset":1000')), ends=Ends.ERROR),
    lie("the maximum is 2^62", lambda: on(STATISTICS, rewrite(b'"maxOffset":64', b'"maxOffset":%d' % 2**62)), ends=Ends.ERROR),
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
