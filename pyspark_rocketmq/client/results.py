"""What may a listener answer?

Concurrently a result speaks of the first so many messages of the batch, in order of the whole queue. Anything else
that a listener returns, None too, counts as failure, as does an exception: nothing is lost by a slip.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple

from .message import ReceivedMessage

__all__ = [
    "COMMIT",
    "DEAD_LETTER",
    "RECONSUME_LATER",
    "ROLLBACK",
    "SUCCESS",
    "SUSPEND",
    "ConcurrentListener",
    "Consumed",
    "Ordered",
    "OrderlyListener",
    "OrderlyStatus",
    "later",
    "success_of_first",
    "suspend",
]

DEAD_LETTER = -1
"""The delay level that means never again."""


class Consumed(NamedTuple):
    """What became of a batch: the first `done_count` messages succeeded (None: all), the rest is sent back."""

    done_count: int | None = None
    delay_level: int = 0
    """0: the broker decides by the message's count; above: that level; -1: to the dead letters."""


class OrderlyStatus(Enum):
    """What becomes of a queue consumed in order; commit and rollback matter without auto-commit."""

    SUCCESS = "SUCCESS"
    COMMIT = "COMMIT"
    ROLLBACK = "ROLLBACK"
    SUSPEND = "SUSPEND_CURRENT_QUEUE_A_MOMENT"


class Ordered(NamedTuple):
    """What became of a batch consumed in order."""

    status: OrderlyStatus
    suspend_s: float | None = None
    """How long the queue rests, if not as set; RocketMQ allows 10 ms to 30 s."""


SUCCESS = Consumed()
RECONSUME_LATER = Consumed(0)
COMMIT = Ordered(OrderlyStatus.COMMIT)
ROLLBACK = Ordered(OrderlyStatus.ROLLBACK)
SUSPEND = Ordered(OrderlyStatus.SUSPEND)

ConcurrentListener = Callable[[Sequence[ReceivedMessage]], Consumed]
OrderlyListener = Callable[[Sequence[ReceivedMessage]], Ordered | Consumed]
"""`SUCCESS` and `RECONSUME_LATER` are understood here, too: done, and suspend."""


def success_of_first(count: int, delay_level: int = 0) -> Consumed:
    """The first so many messages succeeded, the others are sent back."""
    return Consumed(count, delay_level)


def later(delay_level: int) -> Consumed:
    """All are sent back with this delay level."""
    return Consumed(0, delay_level)


def suspend(seconds: float) -> Ordered:
    """The queue rests so long."""
    return Ordered(OrderlyStatus.SUSPEND, seconds)
