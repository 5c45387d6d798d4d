"""Run the flows of queries that are group members on real brokers of every version."""

from __future__ import annotations

import pytest

from tests.flows.scenarios import Scenario, each_of
from tests.real.servers import RealCluster
from tests.real.worlds import real_world
from tests.source.test_group_flows import FLOWS

pytestmark = pytest.mark.real


@each_of(FLOWS)
def test_one_broker(real_cluster: RealCluster, scenario: Scenario) -> None:
    """Each flow for one broker passes on a real one."""
    scenario(real_world(real_cluster))
