"""Servers that say nothing, too slowly, or stop in the middle."""

from __future__ import annotations

import itertools

import pytest

from pyspark_rocketmq.wire.codes import RequestCode

from .behaviours import PULLS, ROUTE, STATISTICS, after, cut, drip, during, first, hang_up, mute, on, slow
from .scenarios import Ends, Scenario, assert_ends_well, lie
from .server import Behaviour, Manner, honest

LONG = {"pollTimeoutMs": "15000", "fetchOffset.numRetries": "12"}
SENDS = (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2)


def alternately() -> Behaviour:
    """Answer, then end the connection instead of answering, and so on."""
    turns = itertools.count()
    return lambda exchange: (hang_up if next(turns) % 2 else honest)(exchange)


SCENARIOS = [
    lie("mute at pulls", lambda: on(PULLS, mute), ends=Ends.ERROR),
    lie("mute at pulls of the stream", lambda: on(PULLS, mute), "stream", ends=Ends.ERROR),
    lie("mute at pulls of the engine", lambda: on(PULLS, mute), "engine", ends=Ends.ERROR),
    lie("mute after the first pulls", lambda: on(PULLS, after(2, mute)), ends=Ends.ERROR),
    lie("mute at statistics", lambda: on(STATISTICS, mute), ends=Ends.ERROR),
    lie("mute at statistics for two seconds", lambda: on(STATISTICS, during(2.0, mute)), options=LONG, ends=Ends.RIGHT),
    lie("mute at pulls for a second", lambda: on(PULLS, during(1.0, mute)), options=LONG, ends=Ends.RIGHT),
    lie("mute at everything", lambda: mute, ends=Ends.ERROR),
    lie(
        "mute at commits, for a client",
        lambda: on(RequestCode.UPDATE_CONSUMER_OFFSET, mute),
        "committed",
        ends=Ends.ERROR,
    ),
    lie("mute at sends", lambda: on(SENDS, mute), "send", ends=Ends.ERROR),
    lie("mute at heartbeats", lambda: on(RequestCode.HEART_BEAT, mute), "consume"),
    lie("mute at the first pulls of a member", lambda: on(PULLS, first(1, hang_up)), "consume", ends=Ends.RIGHT),
    lie("slow at pulls", lambda: on(PULLS, slow(0.15)), options=LONG, ends=Ends.RIGHT),
    lie("slow at everything", lambda: slow(0.04), "triggers", options=LONG, ends=Ends.RIGHT),
    lie("slow at sends", lambda: on(SENDS, slow(0.05)), "send", ends=Ends.RIGHT),
    lie("dripping pulls", lambda: on(PULLS, drip(0.05)), ends=Ends.ERROR),
    lie("dripping pulls of the engine", lambda: on(PULLS, drip(0.05)), "engine", ends=Ends.ERROR),
    lie("dripping statistics", lambda: on(STATISTICS, drip(0.05)), ends=Ends.ERROR),
    lie("dripping routes", lambda: on(ROUTE, drip(0.05)), ends=Ends.ERROR),
    lie("dripping answers to a producer", lambda: on(SENDS, drip(0.2)), "send", ends=Ends.ERROR),
    lie("flowing pulls", lambda: on(PULLS, drip(0.0005, 200)), options=LONG, ends=Ends.RIGHT),
    lie("hung up at every pull", lambda: on(PULLS, hang_up), ends=Ends.ERROR),
    lie("hung up at some pulls", lambda: on(PULLS, first(2, hang_up)), ends=Ends.RIGHT),
    lie("hung up at every statistics", lambda: on(STATISTICS, hang_up), ends=Ends.ERROR),
    lie("hung up at every route", lambda: on(ROUTE, hang_up), ends=Ends.ERROR),
    lie("reset in the middle of every pull", lambda: on(PULLS, cut(3000)), ends=Ends.ERROR),
    lie("reset in the middle of some pulls", lambda: on(PULLS, first(2, cut(3000))), ends=Ends.RIGHT),
    lie(
        "reset in the middle of some pulls of a stream",
        lambda: on(PULLS, first(3, cut(200))),
        "triggers",
        ends=Ends.RIGHT,
    ),
    lie("reset after every second answer", lambda: first(40, alternately()), "triggers"),
    Scenario("deaf brokers", lambda: Manner(deaf_after=1), ends=Ends.ERROR),
    Scenario("brokers deaf to pulls", lambda: Manner(deaf_after=2), ends=Ends.ERROR),
    Scenario("brokers deaf to the stream", lambda: Manner(deaf_after=3), "triggers"),
    Scenario("brokers deaf to sends", lambda: Manner(deaf_after=3), "send"),
    Scenario("brokers deaf to the engine", lambda: Manner(deaf_after=1), "engine", ends=Ends.ERROR),
    Scenario("brokers deaf to members", lambda: Manner(deaf_after=40), "consume"),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_stalls(scenario: Scenario) -> None:
    """Every wait ends at its deadline, also while bytes arrive."""
    assert_ends_well(scenario)
