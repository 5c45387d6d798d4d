"""Run the scenarios of one broker on real brokers of every version."""

from __future__ import annotations

import pytest

from tests.flows.scenarios import EVERYWHERE, RANGES, RETENTION, Scenario, each_of, transactions
from tests.real.fixtures import ClusterKeeper, both_profiles, slow_by_default
from tests.real.servers import DISK_ANSWERS, RealCluster
from tests.real.worlds import real_world

pytestmark = pytest.mark.real

_LONG: list[Scenario] = [transactions.forgotten_message_is_asked_about]


@both_profiles
@each_of([each for each in EVERYWHERE if each not in _LONG])
def test_scenario(real_cluster: RealCluster, scenario: Scenario) -> None:
    """Each scenario for one broker passes on a real one."""
    scenario(real_world(real_cluster))


@slow_by_default
@each_of(_LONG)
def test_long_scenario(real_cluster: RealCluster, scenario: Scenario) -> None:
    """Each scenario that waits for a transaction check passes; on RocketMQ's own defaults it takes half a minute."""
    scenario(real_world(real_cluster))


@both_profiles
@each_of(RANGES)
def test_answers_from_disk(real_clusters: ClusterKeeper, scenario: Scenario) -> None:
    """Each scenario of ranges passes on a broker that returns few messages per pull, as from disk."""
    scenario(real_world(real_clusters.cluster(options=DISK_ANSWERS)))


@pytest.mark.slow
@both_profiles
@each_of(RETENTION)
def test_retention(real_cluster: RealCluster, scenario: Scenario) -> None:
    """Each scenario of expired messages passes on a real broker."""
    scenario(real_world(real_cluster))
