"""Test servers that never respond, respond too slowly, or stop in the middle of a response."""

from __future__ import annotations

import itertools

import pytest

from pyspark_rocketmq.wire.codes import RequestCode

from .behaviours import PULLS, ROUTE, STATISTICS, after, cut, drip, during, first, hang_up, mute, on, slow
from .scenarios import Allowed, Scenario, run_and_check, scenario_of
from .server import Behaviour, ServerFaults, honest

LONG = {"pollTimeoutMs": "15000", "fetchOffset.numRetries": "12"}
SENDS = (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2)


def alternately() -> Behaviour:
    """Return a behaviour that responds to every second request and closes the connection at the others."""
    turns = itertools.count()
    return lambda exchange: (hang_up if next(turns) % 2 else honest)(exchange)


SCENARIOS = [
    scenario_of("mute at pulls", lambda: on(PULLS, mute), allowed=Allowed.ERROR),
    scenario_of("mute at pulls of the stream", lambda: on(PULLS, mute), "stream", allowed=Allowed.ERROR),
    scenario_of("mute at pulls of the engine", lambda: on(PULLS, mute), "engine", allowed=Allowed.ERROR),
    scenario_of("mute after the first pulls", lambda: on(PULLS, after(2, mute)), allowed=Allowed.ERROR),
    scenario_of("mute at statistics", lambda: on(STATISTICS, mute), allowed=Allowed.ERROR),
    scenario_of(
        "mute at statistics for two seconds",
        lambda: on(STATISTICS, during(2.0, mute)),
        options=LONG,
        allowed=Allowed.RIGHT,
    ),
    scenario_of(
        "mute at pulls for a second", lambda: on(PULLS, during(1.0, mute)), options=LONG, allowed=Allowed.RIGHT
    ),
    scenario_of("mute at everything", lambda: mute, allowed=Allowed.ERROR),
    scenario_of(
        "mute at commits, for a client",
        lambda: on(RequestCode.UPDATE_CONSUMER_OFFSET, mute),
        "committed",
        allowed=Allowed.ERROR,
    ),
    scenario_of("mute at sends", lambda: on(SENDS, mute), "send", allowed=Allowed.ERROR),
    scenario_of("mute at heartbeats", lambda: on(RequestCode.HEART_BEAT, mute), "consume"),
    scenario_of(
        "mute at the first pulls of a member", lambda: on(PULLS, first(1, hang_up)), "consume", allowed=Allowed.RIGHT
    ),
    scenario_of("slow at pulls", lambda: on(PULLS, slow(0.15)), options=LONG, allowed=Allowed.RIGHT),
    scenario_of("slow at everything", lambda: slow(0.04), "triggers", options=LONG, allowed=Allowed.RIGHT),
    scenario_of("slow at sends", lambda: on(SENDS, slow(0.05)), "send", allowed=Allowed.RIGHT),
    scenario_of("dripping pulls", lambda: on(PULLS, drip(0.05)), allowed=Allowed.ERROR),
    scenario_of("dripping pulls of the engine", lambda: on(PULLS, drip(0.05)), "engine", allowed=Allowed.ERROR),
    scenario_of("dripping statistics", lambda: on(STATISTICS, drip(0.05)), allowed=Allowed.ERROR),
    scenario_of("dripping routes", lambda: on(ROUTE, drip(0.05)), allowed=Allowed.ERROR),
    scenario_of("dripping answers to a producer", lambda: on(SENDS, drip(0.2)), "send", allowed=Allowed.ERROR),
    scenario_of("flowing pulls", lambda: on(PULLS, drip(0.0005, 200)), options=LONG, allowed=Allowed.RIGHT),
    scenario_of("hung up at every pull", lambda: on(PULLS, hang_up), allowed=Allowed.ERROR),
    scenario_of("hung up at some pulls", lambda: on(PULLS, first(2, hang_up)), allowed=Allowed.RIGHT),
    scenario_of("hung up at every statistics", lambda: on(STATISTICS, hang_up), allowed=Allowed.ERROR),
    scenario_of("hung up at every route", lambda: on(ROUTE, hang_up), allowed=Allowed.ERROR),
    scenario_of("reset in the middle of every pull", lambda: on(PULLS, cut(3000)), allowed=Allowed.ERROR),
    scenario_of("reset in the middle of some pulls", lambda: on(PULLS, first(2, cut(3000))), allowed=Allowed.RIGHT),
    scenario_of(
        "reset in the middle of some pulls of a stream",
        lambda: on(PULLS, first(3, cut(200))),
        "triggers",
        allowed=Allowed.RIGHT,
    ),
    scenario_of("reset after every second answer", lambda: first(40, alternately()), "triggers"),
    Scenario("deaf brokers", lambda: ServerFaults(stop_reading_after=1), allowed=Allowed.ERROR),
    Scenario("brokers deaf to pulls", lambda: ServerFaults(stop_reading_after=2), allowed=Allowed.ERROR),
    Scenario("brokers deaf to the stream", lambda: ServerFaults(stop_reading_after=3), "triggers"),
    Scenario("brokers deaf to sends", lambda: ServerFaults(stop_reading_after=3), "send"),
    Scenario("brokers deaf to the engine", lambda: ServerFaults(stop_reading_after=1), "engine", allowed=Allowed.ERROR),
    Scenario("brokers deaf to members", lambda: ServerFaults(stop_reading_after=40), "consume"),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_stalls(scenario: Scenario) -> None:
    """If a server stalls, each call ends before its deadline, even while single bytes still arrive."""
    run_and_check(scenario)
