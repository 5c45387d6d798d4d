"""Raise an error if messages are lost, or log and count a warning, as the user has chosen.

Planners and tasks apply the rules of `offsets.loss` here. A loss that does not fail the query is a warning with the
queue, the offset that was planned, and the offset at which reading goes on or stops. Losses within ranges can be many;
they are merged into a few warnings.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable

from ..model import Finding, MessageQueue, QueueRange
from ..offsets.loss import GapLog, LossWarning, judge

__all__ = ["LossJournal"]

_log = logging.getLogger(__name__)


class LossJournal:
    """Raises an error for a loss if losses fail the query, else logs and counts a warning.

    Planners and the pull engine report to it what they find.
    """

    def __init__(self, fail_on_data_loss: bool) -> None:
        self._fail_on_data_loss = fail_on_data_loss
        self.counts: Counter[Finding] = Counter()
        self._gaps = GapLog()

    def note(self, warnings: Iterable[LossWarning]) -> None:
        """Log and count warnings about losses that are already known not to fail the query."""
        for warning in warnings:
            self.counts[warning.finding] += 1
            _log.warning("%s", warning)

    def begins_later(self, queue: MessageQueue, planned: int, minimum: int) -> None:
        """Raise or warn, because messages from offset `planned` to the queue's minimum offset are gone."""
        self._judge(Finding.BELOW_MIN, queue, planned, minimum)

    def ends_earlier(self, queue: MessageQueue, planned_end: int, maximum: int) -> None:
        """Raise or warn, because the queue ends at `maximum`, before the end of the planned range."""
        self._judge(Finding.WENT_BACK, queue, planned_end, maximum)

    def vanished(self, rest: QueueRange) -> None:
        """Raise or warn, because the queue is no longer in the route and the range `rest` was not read."""
        self._judge(Finding.VANISHED, rest.queue, rest.start, rest.end)

    def was_reset(self, queue: MessageQueue, planned: int, reset_to: int) -> None:
        """Warn that an administrator moved the group's position to `reset_to`; the task reads its range as planned."""
        self._judge(Finding.RESET_BY_ADMIN, queue, planned, reset_to)

    def lacks_messages(self, queue: MessageQueue, start: int, end: int, missing_count: int | None = None) -> None:
        """Raise or warn, because messages within [start, end) are gone; `missing_count` is their number, if known."""
        fails = self._fail_on_data_loss
        gap = judge(Finding.MESSAGES_MISSING, queue, start, end, fail_on_data_loss=fails, missing_count=missing_count)
        self.counts[Finding.MESSAGES_MISSING] += 1
        if warning := self._gaps.add(gap):
            _log.warning("%s", warning)

    def finish(self) -> None:
        """Log the gaps that no warning has covered yet, and the total of each queue that has several gaps."""
        for warning in (*self._gaps.rest(), *self._gaps.totals()):
            _log.warning("%s", warning)

    def _judge(self, finding: Finding, queue: MessageQueue, planned: int, found: int) -> None:
        self.note([judge(finding, queue, planned, found, fail_on_data_loss=self._fail_on_data_loss)])
