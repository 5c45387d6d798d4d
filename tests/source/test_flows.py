"""Run the flows of a query on the stub, in the behaviour of each emulated RocketMQ release."""

from __future__ import annotations

from inspect import getmembers, isfunction

from tests.flows.scenarios import Scenario, each_of, is_own
from tests.flows.world import World
from tests.source import flows

FLOWS: list[Scenario] = [flow for _, flow in getmembers(flows, isfunction) if is_own(flows, flow)]
TWO_BROKERS, MASTER_SLAVE, EXPIRY = (
    [flow for flow in FLOWS if flow.__name__.startswith(kind)] for kind in ("two_brokers", "master_slave", "expiry")
)
EVERYWHERE = [flow for flow in FLOWS if flow not in TWO_BROKERS + MASTER_SLAVE + EXPIRY]


@each_of(EVERYWHERE + EXPIRY)
def test_one_broker(world: World, scenario: Scenario) -> None:
    scenario(world)


@each_of(TWO_BROKERS)
def test_two_brokers(two_broker_world: World, scenario: Scenario) -> None:
    """Each flow of a cluster with two brokers passes while one of them stops."""
    scenario(two_broker_world)


@each_of(MASTER_SLAVE)
def test_master_and_slave(master_slave_world: World, scenario: Scenario) -> None:
    """Each flow of a cluster with a replica passes while the master stops."""
    scenario(master_slave_world)
