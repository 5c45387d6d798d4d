"""Servers that never stop talking: memory, time and log lines stay bounded. Each runs in a process of its own."""

from __future__ import annotations

import pytest

from pyspark_rocketmq.wire.codes import RequestCode

from .behaviours import PULLS, STATISTICS, again, flood, mute, on, reply_frame, request_frame
from .scenarios import Ends, Scenario, assert_ends_well, lie
from .server import Behaviour, Greeting, Manner, honest

NOTIFY, RUNNING, CHECK = (
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
    RequestCode.GET_CONSUMER_RUNNING_INFO,
    RequestCode.CHECK_TRANSACTION_STATE,
)
ONEWAY = request_frame(NOTIFY, is_oneway=True, consumerGroup="spark-orders")
QUESTION = request_frame(RUNNING, is_oneway=False, consumerGroup="spark-orders", clientId="x")
BIG_QUESTION = request_frame(RequestCode.CONSUME_MESSAGE_DIRECTLY, is_oneway=False, body=bytes(2**20), consumerGroup="g")
UNKNOWN = request_frame(29_999, is_oneway=False)
EVER = 20.0
"""Longer than any read waits; the connection ends first."""


def flooded(name: str, greeting: Greeting, face: str = "batch", behaviour: Behaviour = honest, **given: object) -> Scenario:
    """Return the scenario of brokers that send this while they answer."""
    manner = Manner(behaviour, greeting, deaf_after=given.pop("deaf_after", None))  # type: ignore[arg-type]
    return Scenario(name, lambda: manner, face, apart=True, **given)  # type: ignore[arg-type]


SCENARIOS = [
    *(
        flooded(f"{what}, {face}", flood(frame, EVER), face)
        for what, frame in {
            "one-way requests": ONEWAY,
            "questions": QUESTION,
            "unknown questions": UNKNOWN,
            "answers to nobody": reply_frame(10**6),
            "answers to old requests": reply_frame(1),
        }.items()
        for face in ("batch", "consume")
    ),
    flooded("one-way requests while pulls are mute", flood(ONEWAY, EVER), behaviour=on(PULLS, mute), ends=Ends.ERROR),
    flooded("one-way requests while statistics are mute", flood(ONEWAY, EVER), behaviour=on(STATISTICS, mute), ends=Ends.ERROR),
    flooded("questions while pulls are mute", flood(QUESTION, EVER), behaviour=on(PULLS, mute), ends=Ends.ERROR),
    flooded("one-way requests to a mute stream", flood(ONEWAY, EVER), "stream", on(PULLS, mute), ends=Ends.ERROR),
    flooded("one-way requests to the engine", flood(ONEWAY, EVER), "engine", on(PULLS, mute), ends=Ends.ERROR),
    flooded("questions of a deaf broker", flood(QUESTION, EVER), deaf_after=1),
    flooded("unknown questions of a deaf broker", flood(UNKNOWN, EVER), deaf_after=1),
    flooded("questions of a broker deaf to the stream", flood(QUESTION, EVER), "stream", deaf_after=2),
    flooded("questions of a broker deaf to sends", flood(QUESTION, EVER), "send", deaf_after=2),
    flooded("big questions", flood(BIG_QUESTION, EVER)),
    flooded("big questions to a member", flood(BIG_QUESTION, EVER), "consume"),
    flooded("checks to a producer", flood(request_frame(CHECK, is_oneway=True), EVER), "send"),
    flooded("questions to a producer", flood(QUESTION, EVER), "send"),
    flooded("a thousand questions", flood(QUESTION, count=1000), "consume", ends=Ends.RIGHT),
    flooded("a thousand notices", flood(ONEWAY, count=1000), "consume", ends=Ends.RIGHT),
    flooded("a thousand notices to a reader", flood(ONEWAY, count=1000), ends=Ends.RIGHT),
    flooded("a thousand questions to a reader", flood(QUESTION, count=1000)),
    lie("duplicates of pulls", lambda: on(PULLS, again(10**9)), apart=True),
    lie("duplicates of statistics", lambda: on(STATISTICS, again(10**9)), apart=True),
    lie("a hundred duplicates of each answer", lambda: again(100), apart=True),
    lie("duplicates for a client", lambda: again(10**9), "bounds", apart=True),
    lie("duplicates for the engine", lambda: on(PULLS, again(10**9)), "engine", apart=True),
    Scenario("one-way requests of the name server", lambda: Manner(greeting=flood(ONEWAY, EVER), greets_at_name_server=True), apart=True),
    Scenario("questions of the name server", lambda: Manner(greeting=flood(QUESTION, EVER), greets_at_name_server=True), "topics", apart=True),
    Scenario("noise of the name server", lambda: Manner(greeting=flood(b"\0\0\0\x08\0\0\0\x04abcd", EVER), greets_at_name_server=True), "stream", apart=True, ends=Ends.ERROR),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_floods(scenario: Scenario) -> None:
    """What nobody asked for neither fills memory nor holds up what was asked."""
    assert_ends_well(scenario)
