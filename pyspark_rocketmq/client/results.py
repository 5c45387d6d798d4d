"""The results that a listener returns.

A concurrent listener's result says how many messages of the batch succeeded, counted from the first. If the listener
raises, or returns any other value (None, too), the whole batch counts as failed, so that a mistake loses no message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from operator import index
from typing import NamedTuple

from ..errors import OptionError
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
    "to_ordered",
    "with_auto_commit",
]

DEAD_LETTER = -1
"""The delay level that turns a message into a dead letter instead of delivering it again."""

CONCURRENT_ADVICE = "return SUCCESS, RECONSUME_LATER, later(delay_level) or success_of_first(count)"
ORDERLY_ADVICE = "return SUCCESS, SUSPEND or suspend(seconds); without auto_commit COMMIT or ROLLBACK, too"


class Consumed(NamedTuple):
    """The result of a batch: the first `done_count` messages succeeded (None: all), the others are sent back."""

    done_count: int | None = None
    delay_level: int = 0
    """0: the broker chooses by the number of failures; above 0: this level; -1: the messages become dead letters."""

    @property
    def is_success(self) -> bool:
        """Whether at least one message of the batch succeeded; if none did, hooks get the status RECONSUME_LATER."""
        return self.done_count is None or self.done_count > 0


class OrderlyStatus(Enum):
    """The results of a batch consumed in order. COMMIT and ROLLBACK are for listeners without auto-commit."""

    SUCCESS = "SUCCESS"
    COMMIT = "COMMIT"
    ROLLBACK = "ROLLBACK"
    SUSPEND = "SUSPEND_CURRENT_QUEUE_A_MOMENT"


class Ordered(NamedTuple):
    """An orderly listener's result for a batch: a status, and a pause and auto-commit in place of the settings'."""

    status: OrderlyStatus
    suspend_s: float | None = None
    """The pause before the batch is tried again; None takes the settings' pause. It is kept between 10 ms and 30 s."""
    auto_commit: bool | None = None
    """Whether success of this batch commits at once; None takes the setting `auto_commit`."""


SUCCESS = Consumed()
RECONSUME_LATER = Consumed(0)
COMMIT = Ordered(OrderlyStatus.COMMIT)
ROLLBACK = Ordered(OrderlyStatus.ROLLBACK)
SUSPEND = Ordered(OrderlyStatus.SUSPEND)

ConcurrentListener = Callable[[Sequence[ReceivedMessage]], Consumed]
OrderlyListener = Callable[[Sequence[ReceivedMessage]], Ordered | Consumed]
"""May also return `SUCCESS`, or `RECONSUME_LATER`, which means `SUSPEND` here."""


def success_of_first(count: int, delay_level: int = 0) -> Consumed:
    """Return the result for a batch whose first `count` messages succeeded; the others are sent back.

    Raise `TypeError` for a value that is no integer; if the listener does not catch it, the whole batch fails.
    """
    return Consumed(index(count), index(delay_level))


def later(delay_level: int) -> Consumed:
    """Return the result for a failed batch: all messages are sent back and come again after this level's delay.

    Raise `TypeError` for a value that is no integer.
    """
    return Consumed(0, index(delay_level))


def suspend(seconds: float) -> Ordered:
    """Return an orderly listener's result for a failed batch: it gets the same messages again after this pause.

    Raise `ValueError` or `TypeError` for a value that is no number.
    """
    return Ordered(OrderlyStatus.SUSPEND, float(seconds))


def with_auto_commit(result: Ordered | Consumed, auto_commit: bool) -> Ordered:
    """Return an orderly listener's result with its own `auto_commit`, which replaces the setting of that name.

    With True, success commits this batch and all before it. With False only COMMIT commits, and ROLLBACK makes all
    messages since the last commit come again.
    """
    ordered = to_ordered(result)
    if ordered is None:
        raise OptionError("result", repr(result), "not the result of a batch in order", advice=ORDERLY_ADVICE)
    return ordered._replace(auto_commit=auto_commit)


def to_ordered(result: object) -> Ordered | None:
    """Convert what an orderly listener returned to an `Ordered` and return it; None if it is no result."""
    if isinstance(result, Ordered):
        return result
    if not isinstance(result, Consumed):
        return None
    if result == SUCCESS:
        return Ordered(OrderlyStatus.SUCCESS)
    return SUSPEND if result == RECONSUME_LATER else None
