"""The harness itself: without a lie every face ends right."""

from __future__ import annotations

import pytest

from .faces import FACES
from .scenarios import Ends, Scenario, check, run
from .server import Manner

HONEST = [Scenario(face, Manner, face, ends=Ends.RIGHT) for face in FACES]
APART = Scenario("apart", Manner, "batch", ends=Ends.RIGHT, apart=True)


@pytest.mark.parametrize("scenario", [*HONEST, APART], ids=str)
def test_honest_servers_are_believed(scenario: Scenario) -> None:
    """Through the proxy, with nothing distorted, each face gives what is right."""
    ending = run(scenario)
    check(scenario, ending)
    assert not [line for line in ending.log if not line.startswith("INFO")]
