"""Bound how long an operation may wait.

One deadline passes through all steps of an operation, so that the steps cannot add up to more than the whole.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Self, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment `at` on a monotonic clock; `seconds` is the span that it was set for."""

    at: float
    seconds: float
    clock: Callable[[], float] = time.monotonic

    @classmethod
    def after(cls, seconds: float, clock: Callable[[], float] = time.monotonic) -> Self:
        """Return the moment `seconds` from now."""
        return cls(clock() + seconds, seconds, clock)

    def remaining(self) -> float:
        """Return the seconds left; 0 once it has passed."""
        return max(0.0, self.at - self.clock())

    @property
    def expired(self) -> bool:
        """Whether the moment has passed."""
        return self.clock() >= self.at


def in_turn(deadline: Deadline | None, items: Collection[T]) -> Iterator[tuple[T, Deadline | None]]:
    """Yield each item with its share of the time that is left when its turn comes."""
    for left, item in zip(range(len(items), 0, -1), items, strict=True):
        yield item, share(deadline, left)


def remaining_s(*deadlines: Deadline | None) -> float | None:
    """Return the seconds left until the first of the deadlines; None if there is none."""
    return min((deadline.remaining() for deadline in deadlines if deadline), default=None)


def share(deadline: Deadline | None, parts: int) -> Deadline | None:
    """Return the deadline of one step, if `parts` steps are left."""
    return deadline and Deadline.after(deadline.remaining() / parts, deadline.clock)
