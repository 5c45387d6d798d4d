"""Compute the delays between attempts.

Delays double, and chance spreads them, so that clients which failed together do not come back together.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum


class Jitter(Enum):
    """The part of a delay that chance may take away."""

    FULL = 1.0
    EQUAL = 0.5


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays of `first_s`, twice that, and so on up to `longest_s`; chance shortens each within its jitter."""

    first_s: float = 0.1
    longest_s: float = 10.0
    jitter: Jitter = Jitter.EQUAL

    def delay_s(self, attempt: int, chance: Callable[[], float] = random.random) -> float:
        """Return the delay after a failed attempt, counted from 0, in seconds; `chance` draws from [0, 1)."""
        # A float overflows at larger powers, and the longest delay is reached long before 2**64.
        whole = min(self.longest_s, self.first_s * 2.0 ** min(attempt, 64))
        return whole * (1.0 - self.jitter.value * chance())
