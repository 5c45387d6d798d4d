"""How does a reader learn of messages that are gone?

The rules are those of `offsets.loss`; here they meet Spark's two processes. What does not fail the query is warned
about, with the queue and both offsets, and counted.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable

from ..model import MessageQueue, QueueRange
from ..offsets.loss import Finding, LossWarning, judge

__all__ = ["LossJournal"]

_log = logging.getLogger(__name__)


class LossJournal:
    """Fails or warns, and counts what it warned about; serves the pull engine as its policy."""

    def __init__(self, fail_on_data_loss: bool) -> None:
        self._fail_on_data_loss = fail_on_data_loss
        self.counts: Counter[Finding] = Counter()

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

    def gap(self, queue: MessageQueue, start: int, end: int) -> None:
        """Messages within [start, end) are gone; the bounds are no finer."""
        self._judge(Finding.GAP, queue, start, end)

    def _judge(self, finding: Finding, queue: MessageQueue, planned: int, found: int) -> None:
        self.note([judge(finding, queue, planned, found, fail_on_data_loss=self._fail_on_data_loss)])
