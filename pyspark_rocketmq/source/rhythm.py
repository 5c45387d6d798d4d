"""Timings of the process that plans, as one value that tests replace.

Spark pickles readers, and the rhythm travels with its reader. Users choose none of these values; what users choose
stands in `options`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from ..net.backoff import Backoff

__all__ = ["NORMAL", "PlannerRhythm"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerRhythm:
    """Intervals and timeouts of the process that plans, in seconds."""

    clock: Callable[[], float] = time.monotonic
    """The monotonic clock by which the planning thread finds out what is due."""
    bounds_s: float = 0.1
    """Time without further requests that one request for bounds costs."""
    minimum_offsets_s: float = 30.0
    """Cache lifetime of minimum offsets where each costs a request; pulls report those that moved on."""
    members_check_s: float = 60.0
    """Time for which a group without live members counts as free."""
    commit_check_s: float = 60.0
    """From one comparison of a broker's position with what was committed there to the next."""
    commit_backoff: Backoff = field(default_factory=lambda: Backoff(first_s=1.0, longest_s=30.0))
    """Pauses after failed commits."""
    exchange_s: float = 1.0
    """A member asks a broker for the group's positions, and commits, at most once in this time."""
    exchange_per_queue_s: float = 0.01
    """The same for each queue: every queue costs a request, and an idle query must not keep brokers busy."""
    join_timeout_s: float = 30.0
    """Time that a query waits for the list of its group's members."""
    settle_s: float = 0.5
    """From gaining a queue to reading it: by then the last owner has committed its position."""
    lock_retry_s: float = 1.0
    """From one request for locks that others hold to the next."""
    lock_timeout_s: float = 60.0
    """Time that a planned batch, or a run to a target, waits for locks. The lease of a dead owner ends no later."""
    lock_warning_s: float = 30.0
    """From one warning about missing locks to the next."""
    claim_timeout_s: float = 30.0
    """Time that a query waits for group claims: a stopped query's process may last `exit_s` and a little more."""
    claim_retry_s: float = 0.2
    flush_s: float = 10.0
    """Time that the end of a query waits for its last commit. Spark does not wait for it."""
    grace_s: float = 2.0
    """Time in which a call of Spark may return once the process is to end."""
    grace_check_s: float = 0.05
    exit_s: float = 25.0
    """After this time the system ends a process that is to end: `stop` takes less if no broker answers."""
    driver_check_s: float = 1.0
    """From one check whether the driver lives to the next."""


NORMAL = PlannerRhythm()
"""The rhythm of users' queries."""
