"""How long until the next attempt?

Delays double, and chance spreads them, so that clients which failed together do not come back together.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum


class Jitter(Enum):
    """The share of a delay that is left to chance."""

    FULL = 1.0
    EQUAL = 0.5


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays `first_s`, twice that, and so on up to `longest_s`; each is shortened by chance within its jitter."""

    first_s: float = 0.1
    longest_s: float = 10.0
    jitter: Jitter = Jitter.EQUAL

    def delay_s(self, attempt: int, chance: Callable[[], float] = random.random) -> float:
        """Seconds to wait after failed attempt number `attempt`, counted from 0; `chance` draws from [0, 1)."""
        # Beyond 2**64 the longest delay has been reached long ago, and a float would overflow later.
        whole = min(self.longest_s, self.first_s * 2.0 ** min(attempt, 64))
        return whole * (1.0 - self.jitter.value * chance())
