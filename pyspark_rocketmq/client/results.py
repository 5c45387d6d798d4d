"""The results that a listener returns.

A concurrent listener's result counts the messages of the batch that succeeded, from the first on. Anything else that a
listener returns, None too, counts as failure, as does an exception: a slip loses no message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple

from .message import ReceivedMessage

__all__ = [
    "COMMIT",
    "CONCURRENT_ADVICE",
    "DEAD_LETTER",
    "ORDERLY_ADVICE",
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
"""The delay level by which a message is not delivered again: it becomes a dead letter."""

CONCURRENT_ADVICE = "return SUCCESS, RECONSUME_LATER, later(delay_level) or success_of_first(count)"
ORDERLY_ADVICE = "return SUCCESS, SUSPEND or suspend(seconds); without auto_commit COMMIT or ROLLBACK, too"


class Consumed(NamedTuple):
    """The result of a batch: the first `done_count` messages succeeded (None: all), the rest is sent back."""

    done_count: int | None = None
    delay_level: int = 0
    """0: the broker decides by the count of failures; above 0: that level; -1: to the dead letters."""


class OrderlyStatus(Enum):
    """The next step of a queue consumed in order; COMMIT and ROLLBACK matter without auto-commit only."""

    SUCCESS = "SUCCESS"
    COMMIT = "COMMIT"
    ROLLBACK = "ROLLBACK"
    SUSPEND = "SUSPEND_CURRENT_QUEUE_A_MOMENT"


class Ordered(NamedTuple):
    """The result of a batch consumed in order."""

    status: OrderlyStatus
    suspend_s: float | None = None
    """The rest of the queue, if not as the settings say; RocketMQ allows 10 ms to 30 s."""


SUCCESS = Consumed()
RECONSUME_LATER = Consumed(0)
COMMIT = Ordered(OrderlyStatus.COMMIT)
ROLLBACK = Ordered(OrderlyStatus.ROLLBACK)
SUSPEND = Ordered(OrderlyStatus.SUSPEND)

ConcurrentListener = Callable[[Sequence[ReceivedMessage]], Consumed]
OrderlyListener = Callable[[Sequence[ReceivedMessage]], Ordered | Consumed]
"""`SUCCESS` and `RECONSUME_LATER` are accepted here, too: they mean success and suspend."""


def success_of_first(count: int, delay_level: int = 0) -> Consumed:
    """Return the result that the first `count` messages succeeded and the others are sent back."""
    return Consumed(count, delay_level)


def later(delay_level: int) -> Consumed:
    """Return the result that all messages are sent back with this delay level."""
    return Consumed(0, delay_level)


def suspend(seconds: float) -> Ordered:
    """Return the result that the queue rests for so many seconds."""
    return Ordered(OrderlyStatus.SUSPEND, seconds)
