"""Define the intervals and timeouts of the planning process, as one value that tests replace.

Spark pickles a reader together with its rhythm. Users choose none of these values; timings that users choose are in
`options`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from ..net.backoff import Backoff

__all__ = ["NORMAL", "PlannerRhythm"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerRhythm:
    """Intervals and timeouts of the planning process, in seconds."""

    clock: Callable[[], float] = time.monotonic
    """The monotonic clock that tells the planning thread when something is due."""
    bounds_s: float = 0.1
    """Cache lifetime of bounds, for each request that they cost."""
    minimum_offsets_s: float = 30.0
    """Cache lifetime of minimum offsets where each costs a request; pulls report a minimum that has risen since."""
    members_check_s: float = 60.0
    """Interval between checks that a group has no live members."""
    commit_check_s: float = 60.0
    """Interval between comparisons of a broker's positions with those that were committed there."""
    commit_backoff: Backoff = field(default_factory=lambda: Backoff(first_s=1.0, longest_s=30.0))
    """Pauses after failed commits."""
    exchange_s: float = 1.0
    """Least interval at which a member asks a broker for the group's positions and commits there."""
    exchange_per_queue_s: float = 0.01
    """Least such interval per queue of the member at the broker: each costs a request, even in an idle query."""
    join_timeout_s: float = 30.0
    """Timeout of a query that waits until queues are assigned to it."""
    settle_s: float = 0.5
    """Pause between gaining a queue and reading it, so that its last owner can commit its position."""
    lock_retry_s: float = 1.0
    """Interval between requests for missing locks."""
    lock_timeout_s: float = 60.0
    """Timeout of a planned batch, or a run of availableNow, that waits for locks; a dead owner's lease ends by then."""
    lock_warning_s: float = 30.0
    """Interval between warnings about missing locks."""
    claim_timeout_s: float = 60.0
    """Timeout of waiting for group claims; a query that is stopping may keep them for `grace_s` and twice `exit_s`."""
    claim_retry_s: float = 0.2
    flush_s: float = 10.0
    """Timeout of the last commit at the end of a query; Spark does not wait for it."""
    grace_s: float = 2.0
    """Time in which a call of Spark may still return after SIGTERM."""
    grace_check_s: float = 0.05
    exit_s: float = 25.0
    """Longest wait for a safe moment to interrupt a call after SIGTERM, and again for `stop`; then the process ends."""
    driver_check_s: float = 1.0
    """Interval between checks whether the driver lives."""


NORMAL = PlannerRhythm()
"""The rhythm of queries outside tests."""
