"""Test servers that send frames without end.

Memory, time and the number of log lines stay bounded; each scenario runs in a process of its own.
"""

from __future__ import annotations

from typing import Any

import pytest

from pyspark_rocketmq.wire.codes import RequestCode
from tests.source.driving import GROUP

from .behaviours import PULLS, STATISTICS, flood, mute, on, repeat, reply_frame, request_frame
from .scenarios import Allowed, Scenario, run_and_check
from .server import Behaviour, ServerFaults, honest

NOTIFY, RUNNING, CHECK, DIRECTLY = (
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
    RequestCode.GET_CONSUMER_RUNNING_INFO,
    RequestCode.CHECK_TRANSACTION_STATE,
    RequestCode.CONSUME_MESSAGE_DIRECTLY,
)
NOTIFICATION = request_frame(NOTIFY, is_oneway=True, consumerGroup=GROUP)
REQUEST = request_frame(RUNNING, is_oneway=False, consumerGroup=GROUP, clientId="x")
BIG_REQUEST = request_frame(DIRECTLY, is_oneway=False, body=bytes(2**20), consumerGroup=GROUP, clientId="x")
UNKNOWN = request_frame(29_999, is_oneway=False)
UNMATCHED, LATE_DUPLICATE = reply_frame(10**6), reply_frame(1)
FRAMES = {
    "notifications": NOTIFICATION,
    "requests": REQUEST,
    "unknown requests": UNKNOWN,
    "unmatched responses": UNMATCHED,
    "late duplicates": LATE_DUPLICATE,
}
DEADLINE_S = 20.0
EVER_S = 2 * DEADLINE_S
MOMENT_S = 3.0


def flooded(
    name: str,
    frame: bytes,
    entry_point: str = "batch",
    behaviour: Behaviour = honest,
    *,
    seconds: float = EVER_S,
    **given: Any,
) -> Scenario:
    """Return the scenario of brokers that send `frame` continuously on each connection, besides their responses."""
    stop_reading_after = given.pop("stop_reading_after", None)
    return _in_own_process(
        name,
        lambda: ServerFaults(behaviour, flood(frame, seconds), stop_reading_after=stop_reading_after),
        entry_point,
        **given,
    )


def repeated(name: str, behaviour: Behaviour, entry_point: str = "batch", **given: Any) -> Scenario:
    """Return the scenario of brokers that send each response many times."""
    return _in_own_process(name, lambda: ServerFaults(behaviour), entry_point, **given)


def counted(name: str, frame: bytes, entry_point: str, **given: Any) -> Scenario:
    """Return the scenario of brokers that send `frame` a thousand times on each connection."""
    return _in_own_process(name, lambda: ServerFaults(greeting=flood(frame, count=1000)), entry_point, **given)


def of_name_server(name: str, frame: bytes, entry_point: str = "batch") -> Scenario:
    """Return the scenario of a name server that sends `frame` continuously, besides its responses."""
    return _in_own_process(
        name, lambda: ServerFaults(greeting=flood(frame, EVER_S), greets_at_name_server=True), entry_point
    )


def _in_own_process(name: str, make: Any, entry_point: str, **given: Any) -> Scenario:
    return Scenario(name, make, entry_point, own_process=True, deadline_s=DEADLINE_S, **given)


SCENARIOS = [
    *(flooded(f"{what} to a reader", frame) for what, frame in FRAMES.items()),
    *(
        flooded(f"{what} to a member for a moment", frame, "consume", seconds=MOMENT_S, allowed=Allowed.RIGHT)
        for what, frame in FRAMES.items()
    ),
    flooded("notifications while pulls are mute", NOTIFICATION, behaviour=on(PULLS, mute), allowed=Allowed.ERROR),
    flooded(
        "notifications while statistics are mute", NOTIFICATION, behaviour=on(STATISTICS, mute), allowed=Allowed.ERROR
    ),
    flooded("requests while pulls are mute", REQUEST, behaviour=on(PULLS, mute), allowed=Allowed.ERROR),
    flooded("late duplicates while pulls are mute", LATE_DUPLICATE, behaviour=on(PULLS, mute), allowed=Allowed.ERROR),
    flooded("notifications to a mute stream", NOTIFICATION, "stream", on(PULLS, mute), allowed=Allowed.ERROR),
    flooded(
        "notifications to the engine while pulls are mute",
        NOTIFICATION,
        "engine",
        on(PULLS, mute),
        allowed=Allowed.ERROR,
    ),
    flooded("requests of a deaf broker", REQUEST, stop_reading_after=1),
    flooded("unknown requests of a deaf broker", UNKNOWN, stop_reading_after=1),
    flooded("requests of a broker deaf to the stream", REQUEST, "stream", stop_reading_after=2),
    flooded("requests of a broker deaf to sends", REQUEST, "send", stop_reading_after=2),
    flooded("big requests to a reader", BIG_REQUEST),
    flooded("big requests to a member for a moment", BIG_REQUEST, "consume", seconds=MOMENT_S, allowed=Allowed.RIGHT),
    flooded("checks to a producer", request_frame(CHECK, is_oneway=True), "send"),
    flooded("requests to a producer", REQUEST, "send"),
    counted("a thousand requests to a member", REQUEST, "consume", allowed=Allowed.RIGHT),
    counted("a thousand notifications to a member", NOTIFICATION, "consume", allowed=Allowed.RIGHT),
    counted("a thousand notifications to a reader", NOTIFICATION, "batch", allowed=Allowed.RIGHT),
    counted("a thousand requests to a reader", REQUEST, "batch"),
    repeated("duplicates of pulls", on(PULLS, repeat(10**9))),
    repeated("duplicates of statistics", on(STATISTICS, repeat(10**9))),
    repeated("a hundred duplicates of each response", repeat(100)),
    repeated("duplicates for a client", repeat(10**9), "bounds"),
    repeated("duplicates for the engine", on(PULLS, repeat(10**9)), "engine"),
    of_name_server("notifications of the name server", NOTIFICATION),
    of_name_server("requests of the name server", REQUEST, "topics"),
    of_name_server("noise of the name server", b"\0\0\0\x08\0\0\0\x04abcd", "stream"),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_floods(scenario: Scenario) -> None:
    """If a server sends frames that nobody requested, memory stays bounded and each call ends before its deadline."""
    run_and_check(scenario)
