"""Define how the pull engine reports missing messages to its caller."""

from __future__ import annotations

from typing import Protocol

from ..model import MessageQueue, QueueRange

__all__ = ["IgnoreLosses", "LossPolicy"]


class LossPolicy(Protocol):
    """Gets reports of missing messages and of offsets that were reset; each method may raise to end the reading."""

    def begins_later(self, queue: MessageQueue, planned: int, minimum: int) -> None:
        """Handle the report that messages from `planned` to `minimum` are gone: the queue now begins at `minimum`."""

    def ends_earlier(self, queue: MessageQueue, planned_end: int, maximum: int) -> None:
        """Handle the report that the queue ends at `maximum`, before the range ends."""

    def vanished(self, rest: QueueRange) -> None:
        """Handle the report that the queue is not in the route any more; `rest` is the range not read yet."""

    def was_reset(self, queue: MessageQueue, planned: int, reset_to: int) -> None:
        """Handle the report that an administrator has set the group's offset from `planned` to `reset_to`.

        No message is lost by that.
        """

    def lacks_messages(self, queue: MessageQueue, start: int, end: int, missing_count: int | None = None) -> None:
        """Handle the report that messages within `[start, end)` are gone; `missing_count` is their number, if known."""


class IgnoreLosses:
    """A loss policy that ignores all reports, for reads that produce no rows."""

    def begins_later(self, queue: MessageQueue, planned: int, minimum: int) -> None:
        """Do nothing."""

    def ends_earlier(self, queue: MessageQueue, planned_end: int, maximum: int) -> None:
        """Do nothing."""

    def vanished(self, rest: QueueRange) -> None:
        """Do nothing."""

    def was_reset(self, queue: MessageQueue, planned: int, reset_to: int) -> None:
        """Do nothing."""

    def lacks_messages(self, queue: MessageQueue, start: int, end: int, missing_count: int | None = None) -> None:
        """Do nothing."""
