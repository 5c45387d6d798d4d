"""Does our client core get on with real brokers of every version? The scenarios are those of the stub."""

from __future__ import annotations

import pytest

from tests.flows.scenarios import EVERYWHERE, RANGES, RETENTION, Scenario, each_of
from tests.real.fixtures import ClusterKeeper
from tests.real.servers import DISK_ANSWERS, RealCluster
from tests.real.worlds import real_world

pytestmark = pytest.mark.real


@each_of(EVERYWHERE)
def test_scenario(real_cluster: RealCluster, scenario: Scenario) -> None:
    """The scenario list on one real broker."""
    scenario(real_world(real_cluster))


@each_of(RANGES)
def test_answers_from_disk(real_clusters: ClusterKeeper, scenario: Scenario) -> None:
    """Reading ranges where every answer is short."""
    scenario(real_world(real_clusters.cluster(options=DISK_ANSWERS)))


@pytest.mark.slow
@each_of(RETENTION)
def test_retention(real_cluster: RealCluster, scenario: Scenario) -> None:
    """Scenarios in which messages expire."""
    scenario(real_world(real_cluster))
