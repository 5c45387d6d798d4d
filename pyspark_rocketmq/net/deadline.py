"""Limit how long an operation may wait.

All steps of an operation get the same deadline, so that together they do not wait longer than the operation may.
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
        """Return a deadline `seconds` from now."""
        return cls(clock() + seconds, seconds, clock)

    def remaining(self) -> float:
        """Return the seconds left until the deadline; 0 once it has passed."""
        return max(0.0, self.at - self.clock())

    @property
    def expired(self) -> bool:
        """Whether the deadline has passed."""
        return self.clock() >= self.at


def in_turn(deadline: Deadline | None, items: Collection[T]) -> Iterator[tuple[T, Deadline | None]]:
    """Yield each item with a deadline of its own; the time that is left is shared equally among the remaining items."""
    for left, item in zip(range(len(items), 0, -1), items, strict=True):
        yield item, share(deadline, left)


def remaining_s(*deadlines: Deadline | None) -> float | None:
    """Return the seconds left until the earliest of the deadlines; None if all are None."""
    return min((deadline.remaining() for deadline in deadlines if deadline), default=None)


def share(deadline: Deadline | None, parts: int) -> Deadline | None:
    """Return the deadline of the next step if `parts` steps share the time left; None if there is no deadline."""
    return deadline and Deadline.after(deadline.remaining() / parts, deadline.clock)
