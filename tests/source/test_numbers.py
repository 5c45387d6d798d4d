"""Every interval and timeout of a query's planning process, as users and operators know it."""

from __future__ import annotations

import time

from pyspark_rocketmq.net.backoff import Backoff
from pyspark_rocketmq.source.rhythm import NORMAL, PlannerRhythm


def test_the_rhythm_of_queries() -> None:
    """Queries run with these values, each of which another test replaces to see what it does."""
    assert NORMAL == PlannerRhythm(
        clock=time.monotonic,
        bounds_s=0.1,
        minimum_offsets_s=30.0,
        members_check_s=60.0,
        commit_check_s=60.0,
        commit_backoff=Backoff(first_s=1.0, longest_s=30.0),
        exchange_s=1.0,
        exchange_per_queue_s=0.01,
        join_timeout_s=30.0,
        settle_s=0.5,
        lock_retry_s=1.0,
        lock_timeout_s=60.0,
        lock_warning_s=30.0,
        claim_timeout_s=60.0,
        claim_retry_s=0.2,
        flush_s=10.0,
        grace_s=2.0,
        grace_check_s=0.05,
        exit_s=25.0,
        driver_check_s=1.0,
    )
