"""Run the flows of group members on the stub, in the behaviour of each emulated RocketMQ release."""

from __future__ import annotations

from inspect import getmembers, isfunction

from tests.flows.scenarios import Scenario, each_of, is_own
from tests.flows.world import World
from tests.source import group_flows

FLOWS: list[Scenario] = [flow for _, flow in getmembers(group_flows, isfunction) if is_own(group_flows, flow)]


@each_of(FLOWS)
def test_one_broker(world: World, scenario: Scenario) -> None:
    scenario(world)
