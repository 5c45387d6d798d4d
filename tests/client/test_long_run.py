"""Orderly consumption keeps the order while listeners fail and members join, leave and crash."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from broker_stub import Settings
from tests.client.fixtures import QUICK, TOPIC, Group
from tests.client.long_run import Ledger, change_members

QUEUES = 8
SHORT_LEASE = replace(QUICK, lock_s=0.05, lock_max_live_s=0.3, unlock_delay_s=0.25)
SETTINGS = Settings(lock_lease_ms=600)


@pytest.mark.parametrize("count", [5_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_order_holds_through_failures_and_deaths(make_group: Callable[..., Group], count: int) -> None:
    """If members fail and crash, messages of a queue first succeed in the order of offsets, and none is missing."""
    group = make_group(queues=QUEUES, settings=SETTINGS)
    group.stub.fill(TOPIC, count, 10)
    ledger = Ledger(seed=count)
    change_members(
        lambda: group.orderly(ledger.consume, batch_size=8, rhythm=SHORT_LEASE, thread_count=4),
        lambda: sum(group.committed().values()),
        count,
        pause_s=1.0,
        timeout_s=60 + count / 500,
    )

    for number in range(QUEUES):
        assert ledger.firsts(number) == list(range(count // QUEUES))
