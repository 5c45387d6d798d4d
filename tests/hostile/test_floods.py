"""Servers that never stop talking: memory, time and log lines stay bounded. Each runs in a process of its own."""

from __future__ import annotations

from typing import Any

import pytest

from pyspark_rocketmq.wire.codes import RequestCode
from tests.source.driving import GROUP

from .behaviours import PULLS, STATISTICS, again, flood, mute, on, reply_frame, request_frame
from .scenarios import Ends, Scenario, assert_ends_well
from .server import Behaviour, Manner, honest

NOTIFY, RUNNING, CHECK, DIRECTLY = (
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
    RequestCode.GET_CONSUMER_RUNNING_INFO,
    RequestCode.CHECK_TRANSACTION_STATE,
    RequestCode.CONSUME_MESSAGE_DIRECTLY,
)
NOTICE = request_frame(NOTIFY, is_oneway=True, consumerGroup=GROUP)
QUESTION = request_frame(RUNNING, is_oneway=False, consumerGroup=GROUP, clientId="x")
BIG_QUESTION = request_frame(DIRECTLY, is_oneway=False, body=bytes(2**20), consumerGroup=GROUP, clientId="x")
UNKNOWN = request_frame(29_999, is_oneway=False)
TO_NOBODY, TO_THE_FIRST = reply_frame(10**6), reply_frame(1)
FRAMES = {
    "notices": NOTICE,
    "questions": QUESTION,
    "unknown questions": UNKNOWN,
    "answers to nobody": TO_NOBODY,
    "answers to an old request": TO_THE_FIRST,
}
DEADLINE_S = 20.0
EVER_S = 2 * DEADLINE_S
MOMENT_S = 3.0


def flooded(
    name: str,
    frame: bytes,
    face: str = "batch",
    behaviour: Behaviour = honest,
    *,
    seconds: float = EVER_S,
    **given: Any,
) -> Scenario:
    """Return the scenario of brokers that send a frame all the time while they answer."""
    deaf_after = given.pop("deaf_after", None)
    return _apart(name, lambda: Manner(behaviour, flood(frame, seconds), deaf_after=deaf_after), face, **given)


def repeated(name: str, behaviour: Behaviour, face: str = "batch", **given: Any) -> Scenario:
    """Return the scenario of brokers that send answers again and again."""
    return _apart(name, lambda: Manner(behaviour), face, **given)


def counted(name: str, frame: bytes, face: str, **given: Any) -> Scenario:
    """Return the scenario of brokers that send each connection a thousand frames."""
    return _apart(name, lambda: Manner(greeting=flood(frame, count=1000)), face, **given)


def of_name_server(name: str, frame: bytes, face: str = "batch") -> Scenario:
    """Return the scenario of a name server that sends a frame all the time."""
    return _apart(name, lambda: Manner(greeting=flood(frame, EVER_S), greets_at_name_server=True), face)


def _apart(name: str, make: Any, face: str, **given: Any) -> Scenario:
    return Scenario(name, make, face, apart=True, deadline_s=DEADLINE_S, **given)


SCENARIOS = [
    *(flooded(f"{what} to a reader", frame) for what, frame in FRAMES.items()),
    *(
        flooded(f"{what} to a member for a moment", frame, "consume", seconds=MOMENT_S, ends=Ends.RIGHT)
        for what, frame in FRAMES.items()
    ),
    flooded("notices while pulls are mute", NOTICE, behaviour=on(PULLS, mute), ends=Ends.ERROR),
    flooded("notices while statistics are mute", NOTICE, behaviour=on(STATISTICS, mute), ends=Ends.ERROR),
    flooded("questions while pulls are mute", QUESTION, behaviour=on(PULLS, mute), ends=Ends.ERROR),
    flooded("answers to an old request while pulls are mute", TO_THE_FIRST, behaviour=on(PULLS, mute), ends=Ends.ERROR),
    flooded("notices to a mute stream", NOTICE, "stream", on(PULLS, mute), ends=Ends.ERROR),
    flooded("notices to the engine while pulls are mute", NOTICE, "engine", on(PULLS, mute), ends=Ends.ERROR),
    flooded("questions of a deaf broker", QUESTION, deaf_after=1),
    flooded("unknown questions of a deaf broker", UNKNOWN, deaf_after=1),
    flooded("questions of a broker deaf to the stream", QUESTION, "stream", deaf_after=2),
    flooded("questions of a broker deaf to sends", QUESTION, "send", deaf_after=2),
    flooded("big questions to a reader", BIG_QUESTION),
    flooded("big questions to a member for a moment", BIG_QUESTION, "consume", seconds=MOMENT_S, ends=Ends.RIGHT),
    flooded("checks to a producer", request_frame(CHECK, is_oneway=True), "send"),
    flooded("questions to a producer", QUESTION, "send"),
    counted("a thousand questions to a member", QUESTION, "consume", ends=Ends.RIGHT),
    counted("a thousand notices to a member", NOTICE, "consume", ends=Ends.RIGHT),
    counted("a thousand notices to a reader", NOTICE, "batch", ends=Ends.RIGHT),
    counted("a thousand questions to a reader", QUESTION, "batch"),
    repeated("duplicates of pulls", on(PULLS, again(10**9))),
    repeated("duplicates of statistics", on(STATISTICS, again(10**9))),
    repeated("a hundred duplicates of each answer", again(100)),
    repeated("duplicates for a client", again(10**9), "bounds"),
    repeated("duplicates for the engine", on(PULLS, again(10**9)), "engine"),
    of_name_server("notices of the name server", NOTICE),
    of_name_server("questions of the name server", QUESTION, "topics"),
    of_name_server("noise of the name server", b"\0\0\0\x08\0\0\0\x04abcd", "stream"),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_floods(scenario: Scenario) -> None:
    """What nobody asked for neither fills memory nor holds up what was asked."""
    assert_ends_well(scenario)
