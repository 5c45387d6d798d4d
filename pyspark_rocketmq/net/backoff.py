"""Compute the delays between attempts of a request or a connection.

Delays double up to a limit. Each is shortened at random, so that clients that failed at the same time do not retry at
the same time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from random import Random

_random = Random()
"""A generator of our own: programs that seed the module `random` get the same numbers with and without this library."""


class Jitter(Enum):
    """The largest part of a delay that may be cut off at random: all or half of it."""

    FULL = 1.0
    EQUAL = 0.5


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays of `first_s`, twice that, and so on up to `longest_s`; each is shortened at random, as `jitter` allows."""

    first_s: float = 0.1
    longest_s: float = 10.0
    jitter: Jitter = Jitter.EQUAL

    def delay_s(self, attempt: int, chance: Callable[[], float] = _random.random) -> float:
        """Return the delay after a failed attempt, in seconds.

        Attempts are counted from 0; `chance` returns a random number in [0, 1).
        """
        # A float overflows at larger powers, and the longest delay is reached long before 2**64.
        whole = min(self.longest_s, self.first_s * 2.0 ** min(attempt, 64))
        return whole * (1.0 - self.jitter.value * chance())
