"""Test what real brokers do with half messages that are ended late, twice, wrongly or never."""

from __future__ import annotations

import pytest

from tests.flows.scenarios import TRANSACTION_RULES, Scenario, each_of, transaction_rules, transaction_servers
from tests.real.fixtures import ClusterKeeper
from tests.real.worlds import (
    LATE_ENDS,
    LATE_FILES,
    NO_FLUSH,
    QUICK_CHECKS,
    ROCKSDB,
    ROCKSDB_BESIDE,
    real_world,
    rocksdb_world,
)

pytestmark = pytest.mark.real

_LONG: list[Scenario] = [
    transaction_rules.each_check_writes_the_half_anew,
    transaction_rules.given_up_half_message_still_commits,
    transaction_rules.rollback_as_answer_ends_the_checks,
    transaction_rules.commit_of_the_original_leaves_its_copy,
    transaction_rules.immune_half_message_is_given_up_unchecked,
    transaction_rules.commit_of_an_immune_original_leaves_its_copy,
    transaction_rules.timed_half_message_is_lost,
]


@each_of([each for each in TRANSACTION_RULES if each not in _LONG])
def test_rule(real_clusters: ClusterKeeper, scenario: Scenario) -> None:
    """Each rule of half messages holds on a real broker."""
    scenario(real_world(real_clusters.cluster(options=QUICK_CHECKS)))


@pytest.mark.slow
@each_of(_LONG)
def test_long_rule(real_clusters: ClusterKeeper, scenario: Scenario) -> None:
    """Each rule that takes many seconds to show, most of them several checks, holds on a real broker."""
    scenario(real_world(real_clusters.cluster(options=QUICK_CHECKS)))


@pytest.mark.slow
@each_of(TRANSACTION_RULES)
def test_rule_beside_rocksdb(rocksdb_clusters: ClusterKeeper, scenario: Scenario) -> None:
    """`transRocksDBEnable` alone changes no rule: new half messages still go to the usual topic."""
    scenario(real_world(rocksdb_clusters.cluster(options=ROCKSDB_BESIDE)))


@pytest.mark.slow
@each_of(TRANSACTION_RULES)
def test_rule_in_rocksdb(rocksdb_clusters: ClusterKeeper, scenario: Scenario) -> None:
    """Each rule holds for half messages in RocksDB, with the differences that the scenarios name."""
    scenario(rocksdb_world(rocksdb_clusters.cluster(options=ROCKSDB)))


@pytest.mark.slow
def test_half_message_in_memory(real_clusters: ClusterKeeper) -> None:
    """A real broker ends no half message that has not reached the file."""
    transaction_servers.half_message_in_memory_is_not_found(real_world(real_clusters.cluster(options=LATE_FILES)))


@pytest.mark.slow
def test_missing_flush(real_clusters: ClusterKeeper) -> None:
    """A real broker reports a missing flush to a sender, but not to the sender of an END."""
    transaction_servers.success_of_end_hides_a_missing_flush(real_world(real_clusters.cluster(options=NO_FLUSH)))


@pytest.mark.slow
def test_half_message_in_memory_with_rocksdb(rocksdb_clusters: ClusterKeeper) -> None:
    """In RocksDB mode a real broker ends no half message that has not reached the file, either."""
    world = rocksdb_world(rocksdb_clusters.cluster(options={**ROCKSDB, **LATE_FILES}))
    transaction_servers.half_message_in_memory_is_not_found(world)


@pytest.mark.slow
def test_missing_flush_with_rocksdb(rocksdb_clusters: ClusterKeeper) -> None:
    """In RocksDB mode a real broker does not report a missing flush to the sender of an END, either."""
    world = rocksdb_world(rocksdb_clusters.cluster(options={**ROCKSDB, **NO_FLUSH}))
    transaction_servers.success_of_end_hides_a_missing_flush(world)


@pytest.mark.slow
def test_crash_after_the_end(real_clusters: ClusterKeeper) -> None:
    """A real broker that crashes may check a half message again that has ended."""
    world = real_world(real_clusters.cluster(options=LATE_ENDS))
    transaction_servers.crash_forgets_that_a_half_message_ended(world)


@pytest.mark.slow
def test_crash_after_the_end_in_rocksdb(rocksdb_clusters: ClusterKeeper) -> None:
    """In RocksDB mode a real broker that crashes knows which half messages have ended."""
    world = rocksdb_world(rocksdb_clusters.cluster(options={**ROCKSDB, **LATE_ENDS}))
    transaction_servers.crash_forgets_that_a_half_message_ended(world)


@pytest.fixture
def rocksdb_clusters(real_clusters: ClusterKeeper) -> ClusterKeeper:
    """The keeper of clusters of a release that can keep half messages in RocksDB; other releases are skipped."""
    if real_clusters.version != "5.5.0":
        pytest.skip(f"{real_clusters.version} keeps no half messages in RocksDB")
    return real_clusters
