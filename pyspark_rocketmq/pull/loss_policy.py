"""Define how the pull engine reports missing messages to its caller."""

from __future__ import annotations

from typing import Protocol

from ..model import MessageQueue, QueueRange

__all__ = ["IgnoreLosses", "LossPolicy"]


class LossPolicy(Protocol):
    """Decides what to do about messages that should be there and are not; each method may raise to end the reading."""

    def begins_later(self, queue: MessageQueue, planned: int, minimum: int) -> None:
        """Take note that messages from `planned` to `minimum` are gone."""

    def ends_earlier(self, queue: MessageQueue, planned_end: int, maximum: int) -> None:
        """Take note that the queue ends at `maximum`, before the end of the range."""

    def vanished(self, rest: QueueRange) -> None:
        """Take note that the queue is not in the route any more."""

    def was_reset(self, queue: MessageQueue, planned: int, reset_to: int) -> None:
        """Take note that an administrator moved the group; never a loss for a reader of ranges."""

    def gap(self, queue: MessageQueue, start: int, end: int, missing_count: int | None = None) -> None:
        """Take note that messages within `[start, end)` are gone; `missing_count` is their number, if known."""


class IgnoreLosses:
    """A loss policy for reads on which no row depends."""

    def begins_later(self, queue: MessageQueue, planned: int, minimum: int) -> None:
        """Do nothing."""

    def ends_earlier(self, queue: MessageQueue, planned_end: int, maximum: int) -> None:
        """Do nothing."""

    def vanished(self, rest: QueueRange) -> None:
        """Do nothing."""

    def was_reset(self, queue: MessageQueue, planned: int, reset_to: int) -> None:
        """Do nothing."""

    def gap(self, queue: MessageQueue, start: int, end: int, missing_count: int | None = None) -> None:
        """Do nothing."""
