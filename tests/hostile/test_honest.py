"""Test the hostile servers themselves: with an honest behaviour every entry point succeeds."""

from __future__ import annotations

import pytest

from .entry_points import ENTRY_POINTS
from .scenarios import Allowed, Scenario, check, run
from .server import ServerFaults

HONEST = [Scenario(entry_point, ServerFaults, entry_point, allowed=Allowed.RIGHT) for entry_point in ENTRY_POINTS]
OWN_PROCESS = Scenario("own process", ServerFaults, "batch", allowed=Allowed.RIGHT, own_process=True)


@pytest.mark.parametrize("scenario", [*HONEST, OWN_PROCESS], ids=str)
def test_honest_servers_are_believed(scenario: Scenario) -> None:
    """If the proxy changes nothing, each entry point returns the right result."""
    outcome = run(scenario)
    check(scenario, outcome)
    assert not [line for line in outcome.log if not line.startswith("INFO")]
