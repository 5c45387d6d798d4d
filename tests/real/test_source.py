"""Run the flows of streaming reads on real brokers of every version."""

from __future__ import annotations

import pytest

from tests.flows.scenarios import Scenario, each_of
from tests.real.fixtures import both_profiles
from tests.real.servers import RealCluster
from tests.real.worlds import real_world
from tests.source.test_flows import EVERYWHERE, EXPIRY, MASTER_SLAVE, TWO_BROKERS

pytestmark = pytest.mark.real


@both_profiles
@each_of(EVERYWHERE)
def test_one_broker(real_cluster: RealCluster, scenario: Scenario) -> None:
    """Each flow for one broker passes on a real one."""
    scenario(real_world(real_cluster))


@both_profiles
@each_of(TWO_BROKERS)
def test_two_brokers(real_two_brokers: RealCluster, scenario: Scenario) -> None:
    """Each flow in which one of two brokers stops passes on real servers."""
    scenario(real_world(real_two_brokers))


@each_of(MASTER_SLAVE)
def test_master_and_slave(real_master_slave: RealCluster, scenario: Scenario) -> None:
    """Each flow passes in which a slave serves while its master is down; slaves of 5.x need a setting for that."""
    scenario(real_world(real_master_slave))


@pytest.mark.slow
@both_profiles
@each_of(EXPIRY)
def test_expiry(real_cluster: RealCluster, scenario: Scenario) -> None:
    """Each flow of expired messages passes; it is slow because real brokers delete nothing in their first minute."""
    scenario(real_world(real_cluster))
