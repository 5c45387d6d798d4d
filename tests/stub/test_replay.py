"""Replay recorded conversations: the stub must respond as the real servers did.

The conversation about authentication is tested elsewhere.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker_stub import Settings, StubBroker

from .recordings import read_scenario, scenarios
from .replay_player import Player
from .replay_setup import prepare

SETTINGS = Settings(transaction_timeout_ms=2_000, transaction_check_interval_ms=3_000)

ROUTE_RACE = (
    "the real name server response_field while the broker was still at work on the heartbeat that makes the topic"
)
CLIENT_VERSION = "the real broker passes a client's answer on with the client's version"
DIFFERENCES: dict[str, dict[int, str]] = {
    "binary_both_push_concurrent_lifecycle": {4: ROUTE_RACE},
    "binary_request_push_concurrent_lifecycle": {4: ROUTE_RACE},
    "consume_from_timestamp_new_group": {4: ROUTE_RACE},
    "push_concurrent_lifecycle": {4: ROUTE_RACE},
    "pull_offset_below_min": {
        4: "the real broker searched its log, whose deleted files the queue's minimum did not show yet"
    },
    "send_oneway": {2: "the real broker had not indexed the message yet; the stub does so at once"},
    "transaction_check": {6: "the recorded half topic held half messages of earlier conversations"},
    "4.9.7/connections_and_reset_offset": {18: CLIENT_VERSION},
    "4.9.7/consume_message_directly": {18: CLIENT_VERSION},
    "4.9.7/push_concurrent_lifecycle": {4: ROUTE_RACE},
    "4.9.7/transaction_check": dict.fromkeys((6, 11), "the recorded broker had looked at the half message before"),
}
"""Reasons for known deviations of the stub, by conversation and number of the exchange."""


def play(name: str, release: str, folder: str = "") -> dict[int, str]:
    """Replay a conversation against a new stub, and return the differences by exchange number."""
    exchanges = read_scenario(name, folder)
    settings = replace(
        SETTINGS, binary_answers=name.startswith("binary_both"), server_side_reset=name != "reset_offset_client_side"
    )
    with StubBroker(emulate=release, settings=settings, frozen_clock=True) as stub:
        prepare(stub, name, exchanges, folder)
        return Player(stub, exchanges).play()


@pytest.mark.parametrize("name", scenarios())
def test_answers_as_5_3_3_did(name: str) -> None:
    """Replaying a conversation of 5.3.3 gives responses with the recorded code, header fields and body shape."""
    assert play(name, "5.3.3").keys() == DIFFERENCES.get(name, {}).keys()


@pytest.mark.parametrize("name", scenarios("4.9.7"))
def test_answers_as_4_9_7_did(name: str) -> None:
    """Replaying a conversation of 4.9.7 gives responses with the recorded code, header fields and body shape."""
    assert play(name, "4.9.7", "4.9.7").keys() == DIFFERENCES.get(f"4.9.7/{name}", {}).keys()
