"""Does everything that holds on real brokers hold on the stub?"""

from __future__ import annotations

from .scenarios import EVERYWHERE, RETENTION, Scenario, each_of
from .world import World


@each_of([*EVERYWHERE, *RETENTION])
def test_stub(world: World, scenario: Scenario) -> None:
    """The scenario list on one broker of the stub, for each release it emulates."""
    scenario(world)
