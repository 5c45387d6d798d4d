"""Fail a reader whose messages are gone, or warn and count.

The rules are those of `offsets.loss`; planners and tasks apply them here. A loss that does not fail the query is a
warning that names the queue and both offsets. Gaps within ranges are merged, so that their warnings stay few.
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
    """Fails or warns, and counts warnings; the loss policy of the pull engine."""

    def __init__(self, fail_on_data_loss: bool) -> None:
        self._fail_on_data_loss = fail_on_data_loss
        self.counts: Counter[Finding] = Counter()
        self._gaps = GapLog()

    def note(self, warnings: Iterable[LossWarning]) -> None:
        """Warn about findings that were judged already."""
        for warning in warnings:
            self.counts[warning.finding] += 1
            _log.warning("%s", warning)

    def begins_later(self, queue: MessageQueue, planned: int, minimum: int) -> None:
        """Judge that messages from `planned` to `minimum` are gone."""
        self._judge(Finding.BELOW_MIN, queue, planned, minimum)

    def ends_earlier(self, queue: MessageQueue, planned_end: int, maximum: int) -> None:
        """Judge that the queue ends at `maximum`, before the end of the range."""
        self._judge(Finding.WENT_BACK, queue, planned_end, maximum)

    def vanished(self, rest: QueueRange) -> None:
        """Judge that the queue is not in the route any more."""
        self._judge(Finding.VANISHED, rest.queue, rest.start, rest.end)

    def was_reset(self, queue: MessageQueue, planned: int, reset_to: int) -> None:
        """Warn that an administrator moved the group; the range is read as planned."""
        self._judge(Finding.RESET_BY_ADMIN, queue, planned, reset_to)

    def gap(self, queue: MessageQueue, start: int, end: int, missing_count: int | None = None) -> None:
        """Judge that messages within [start, end) are gone, `missing_count` of them if that is known."""
        fails = self._fail_on_data_loss
        gap = judge(Finding.GAP, queue, start, end, fail_on_data_loss=fails, missing_count=missing_count)
        self.counts[Finding.GAP] += 1
        if warning := self._gaps.add(gap):
            _log.warning("%s", warning)

    def finish(self) -> None:
        """Warn of the remaining gaps and of the total that is missing."""
        for warning in (*self._gaps.rest(), *self._gaps.totals()):
            _log.warning("%s", warning)

    def _judge(self, finding: Finding, queue: MessageQueue, planned: int, found: int) -> None:
        self.note([judge(finding, queue, planned, found, fail_on_data_loss=self._fail_on_data_loss)])
