"""Fail a reader whose messages are gone, or warn.

The rules are those of `offsets.loss`; here they meet Spark's two processes. What does not fail the query is warned
about, with the queue and both offsets, and counted. Gaps within ranges are merged, so that their warnings stay few.
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
    """Fails or warns, and counts what it warned about; serves the pull engine as its policy."""

    def __init__(self, fail_on_data_loss: bool) -> None:
        self._fail_on_data_loss = fail_on_data_loss
        self.counts: Counter[Finding] = Counter()
        self._gaps = GapLog()

    def note(self, warnings: Iterable[LossWarning]) -> None:
        """Warn about findings that have been judged."""
        for warning in warnings:
            self.counts[warning.finding] += 1
            _log.warning("%s", warning)

    def begins_later(self, queue: MessageQueue, planned: int, minimum: int) -> None:
        """Messages from `planned` to `minimum` are gone."""
        self._judge(Finding.BELOW_MIN, queue, planned, minimum)

    def ends_earlier(self, queue: MessageQueue, planned_end: int, maximum: int) -> None:
        """The queue ends at `maximum`, before the end of the range."""
        self._judge(Finding.WENT_BACK, queue, planned_end, maximum)

    def vanished(self, rest: QueueRange) -> None:
        """The queue is not in the route any more."""
        self._judge(Finding.VANISHED, rest.queue, rest.start, rest.end)

    def was_reset(self, queue: MessageQueue, planned: int, reset_to: int) -> None:
        """An admin moved the group; reading stays where it was planned."""
        self._judge(Finding.RESET_BY_ADMIN, queue, planned, reset_to)

    def gap(self, queue: MessageQueue, start: int, end: int, missing_count: int | None = None) -> None:
        """Messages within [start, end) are gone, so many if that is known; the bounds are no finer."""
        fails = self._fail_on_data_loss
        gap = judge(Finding.GAP, queue, start, end, fail_on_data_loss=fails, missing_count=missing_count)
        self.counts[Finding.GAP] += 1
        if told := self._gaps.add(gap):
            _log.warning("%s", told)

    def finish(self) -> None:
        """Warn of the gaps of which nobody was told yet, and of how much is missing in total."""
        for told in (*self._gaps.rest(), *self._gaps.totals()):
            _log.warning("%s", told)

    def _judge(self, finding: Finding, queue: MessageQueue, planned: int, found: int) -> None:
        self.note([judge(finding, queue, planned, found, fail_on_data_loss=self._fail_on_data_loss)])
