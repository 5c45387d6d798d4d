"""Do queries that work as members of their group do so with real brokers of every version? The flows are the stub's."""

from __future__ import annotations

import pytest

from tests.flows.scenarios import Scenario, each_of
from tests.real.servers import RealCluster
from tests.real.worlds import real_world
from tests.source.test_group_flows import FLOWS

pytestmark = pytest.mark.real


@each_of(FLOWS)
def test_one_broker(real_cluster: RealCluster, scenario: Scenario) -> None:
    """The flows that need nothing else."""
    scenario(real_world(real_cluster))
