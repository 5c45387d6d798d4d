"""Run the scenarios on the stub; `tests/real` runs the same ones on real brokers."""

from __future__ import annotations

from .scenarios import EVERYWHERE, MASTER_SLAVE, REPLICA_READS, RETENTION, TWO_BROKERS, Scenario, each_of
from .world import World


@each_of([*EVERYWHERE, *RETENTION])
def test_one_broker(world: World, scenario: Scenario) -> None:
    """Each scenario for one broker passes on the stub, for each release that the stub emulates."""
    scenario(world)


@each_of(MASTER_SLAVE + REPLICA_READS)
def test_master_and_slave(master_slave_world: World, scenario: Scenario) -> None:
    """Each scenario in which a master stops passes on the stub."""
    scenario(master_slave_world)


@each_of(TWO_BROKERS)
def test_two_brokers(two_broker_world: World, scenario: Scenario) -> None:
    """Each scenario for two masters passes on the stub."""
    scenario(two_broker_world)
