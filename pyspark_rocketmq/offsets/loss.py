"""Detect lost messages, and decide whether they fail the query or only cause a warning.

Brokers may no longer hold what a reader planned to read; each such difference is a *finding*. The table `LOSS_RULES`
gives each finding its text, its error, and how reading continues if the user allows it; `judge` raises the error or
returns a warning. Bounds reported by a replica never cause a finding, since it may lag behind its master.

A queue can have thousands of gaps. A `GapLog` merges them into a few warnings that cover all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from ..errors import (
    DataLossError,
    MessagesMissing,
    OffsetBeforeEarliest,
    OffsetBeyondEnd,
    OffsetWentBack,
    QueueVanished,
)
from ..model import Finding, MessageQueue, QueueBounds, QueueRange
from .position import Positions

__all__ = [
    "LOSS_RULES",
    "GapLog",
    "GapTotal",
    "LossRule",
    "LossWarning",
    "Settled",
    "judge",
    "settle_ranges",
    "settle_starts",
]


class LossRule(NamedTuple):
    """The text and the error of one kind of `Finding`; a finding without an error only causes a warning."""

    what: str
    going_on: str
    error: type[DataLossError] | None = None
    causes: str = ""
    """Likely causes of the loss, appended to the advice."""


LOSS_RULES: Mapping[Finding, LossRule] = {
    Finding.BELOW_MIN: LossRule(
        "offset {planned} is gone, the queue starts at {found} now (retention)",
        "continue at {found}",
        OffsetBeforeEarliest,
    ),
    Finding.ABOVE_MAX: LossRule(
        "offset {planned} lies beyond the queue's end {found} (topic made anew, or broker restored)",
        "continue at {found}",
        OffsetBeyondEnd,
    ),
    Finding.WENT_BACK: LossRule(
        "the queue ends at {found} now, before the planned end {planned}",
        "stop at {found}",
        OffsetWentBack,
    ),
    Finding.VANISHED: LossRule(
        "the queue left the route with offsets {planned} to {found} unread",
        "skip them",
        QueueVanished,
    ),
    Finding.NOT_IN_ROUTE: LossRule(
        "the queue is missing from the route",
        "it keeps its position {planned} and is read again when it returns",
    ),
    Finding.RESET_BY_ADMIN: LossRule(
        "an admin reset the group to {found} while {planned} was read",
        "reading stays at {planned}; a new checkpoint moves the query",
    ),
    Finding.MESSAGES_MISSING: LossRule(
        "messages within [{planned}, {found}) are gone",
        "go on without them",
        MessagesMissing,
        "; likely causes: retention that overtakes the reader and has not yet raised the queue's minimum offset, a "
        "batch consume queue with holes, or a broker process that went away before its answers were confirmed",
    ),
}


@dataclass(frozen=True, slots=True)
class LossWarning:
    """A finding that does not fail the query: brokers do not hold what was planned."""

    finding: Finding
    queue: MessageQueue
    planned: int
    found: int
    missing_count: int | None = None
    """Number of messages missing between `planned` and `found`, if known."""

    @property
    def offset_count(self) -> int:
        """Number of offsets from the planned one to the one that brokers hold instead."""
        return abs(self.found - self.planned)

    def __str__(self) -> str:
        rule = LOSS_RULES[self.finding]
        known = "" if self.missing_count is None else f"{self.missing_count} of "
        count = f" ({known}{self.offset_count} offsets)" if self.offset_count else ""
        text = f"{rule.what}; {rule.going_on}".format(planned=self.planned, found=self.found)
        return f"{self.queue}: {text}{count}"

    def joined(self, other: LossWarning) -> LossWarning:
        """Return one warning that spans this gap and another gap of the same queue."""
        counts = (self.missing_count, other.missing_count)
        return replace(
            self,
            planned=min(self.planned, other.planned),
            found=max(self.found, other.found),
            missing_count=None if None in counts else sum(count or 0 for count in counts),
        )


def judge(
    finding: Finding,
    queue: MessageQueue,
    planned: int,
    found: int,
    *,
    fail_on_data_loss: bool,
    missing_count: int | None = None,
) -> LossWarning:
    """Return the warning about a finding; raise its error instead if it is a loss and `fail_on_data_loss` is set."""
    rule = LOSS_RULES[finding]
    if rule.error is None or not fail_on_data_loss:
        return LossWarning(finding, queue, planned, found, missing_count)
    going_on = rule.going_on.format(planned=planned, found=found)
    raise rule.error(
        rule.what.format(planned=planned, found=found)
        + (f" ({missing_count} of {abs(found - planned)})" if missing_count is not None else ""),
        advice=f"set failOnDataLoss=false to {going_on} with a warning{rule.causes}",
        topic=queue.topic,
        broker=queue.broker_name,
        queue_id=queue.queue_id,
        offset=planned,
    )


class GapTotal(NamedTuple):
    """The gaps of one queue, merged into one warning."""

    gap_count: int
    whole: LossWarning
    """A warning that spans all these gaps and adds up their missing messages."""

    def __str__(self) -> str:
        whole, gaps = self.whole, self.gap_count
        messages = "messages" if whole.missing_count is None else f"{whole.missing_count} messages"
        return f"{whole.queue}: in total {messages} are gone, in {gaps} gaps of [{whole.planned}, {whole.found})"


class GapLog:
    """Merges the gaps of each queue: one warning for the first gap, one for the next two, one for the next four, ..."""

    def __init__(self) -> None:
        self._totals: dict[MessageQueue, GapTotal] = {}
        self._held: dict[MessageQueue, GapTotal] = {}
        """Gaps that no warning has covered yet."""

    def add(self, gap: LossWarning) -> LossWarning | None:
        """Add a gap; return one warning for all gaps of its queue since the last warning, or None while they are few.

        They are few while they do not outnumber the queue's earlier gaps.
        """
        queue = gap.queue
        total = self._totals[queue] = _added(self._totals.get(queue), gap)
        held = self._held[queue] = _added(self._held.get(queue), gap)
        if 2 * held.gap_count <= total.gap_count:
            return None
        del self._held[queue]
        return held.whole

    def rest(self) -> Iterator[LossWarning]:
        """Yield, for each queue, one warning for the gaps that no earlier warning covered."""
        while self._held:
            yield self._held.popitem()[1].whole

    def totals(self) -> list[GapTotal]:
        """Return, for each queue with more than one gap, all its gaps merged into one."""
        return [total for total in self._totals.values() if total.gap_count > 1]


def _added(total: GapTotal | None, gap: LossWarning) -> GapTotal:
    return GapTotal(total.gap_count + 1, total.whole.joined(gap)) if total else GapTotal(1, gap)


class Settled(NamedTuple):
    """Start positions, checked against bounds, and warnings about moved starts and queues that left the route."""

    positions: dict[MessageQueue, int]
    warnings: list[LossWarning]


def settle_starts(
    positions: Positions,
    bounds: Mapping[MessageQueue, QueueBounds],
    *,
    fail_on_data_loss: bool,
    opened: Collection[MessageQueue] = (),
) -> Settled:
    """Return start positions, moved into the bounds of their queues, with warnings; raise if a loss fails the query.

    A queue without bounds has left the route: it keeps its position, with a warning. For the `opened` queues, of which
    nothing has been read yet, messages deleted at the front are no loss: the start moves without a warning.
    """
    settled = dict(positions)
    warnings = []
    for queue, planned in positions.items():
        if discrepancy := _compare_start(planned, bounds.get(queue)):
            finding, settled[queue] = discrepancy
            if finding is Finding.BELOW_MIN and queue in opened:
                continue
            warnings.append(judge(finding, queue, planned, settled[queue], fail_on_data_loss=fail_on_data_loss))
    return Settled(settled, warnings)


def _compare_start(planned: int, bounds: QueueBounds | None) -> tuple[Finding, int] | None:
    """Return the finding about a start outside the queue's bounds, and where to continue; None if it lies within them.

    Also return None for bounds that a replica reports, since it may lag behind its master.
    """
    if bounds is None:
        return Finding.NOT_IN_ROUTE, planned
    if bounds.from_replica or bounds.min_offset <= planned <= bounds.max_offset:
        return None
    if planned < bounds.min_offset:
        return Finding.BELOW_MIN, bounds.min_offset
    return Finding.ABOVE_MAX, bounds.max_offset


def settle_ranges(
    ranges: Iterable[QueueRange], bounds: Mapping[MessageQueue, QueueBounds], *, fail_on_data_loss: bool
) -> tuple[list[QueueRange], list[LossWarning]]:
    """Return planned ranges, cut to the bounds of their queues, with a warning for each loss.

    Leave out ranges of which nothing is left. A queue without bounds has left the route: its whole range is lost.
    Raise an error for a loss if `fail_on_data_loss` is set.
    """
    settled = []
    warnings = []
    for planned in ranges:
        kept, findings = _compare_range(planned, bounds.get(planned.queue))
        settled.append(kept)
        for finding, expected, found in findings:
            warnings.append(judge(finding, planned.queue, expected, found, fail_on_data_loss=fail_on_data_loss))
    return [each for each in settled if each.offset_count > 0], warnings


def _compare_range(
    planned: QueueRange, bounds: QueueBounds | None
) -> tuple[QueueRange, list[tuple[Finding, int, int]]]:
    """Return the part of a range that brokers still hold, and (finding, planned offset, found offset) for each loss."""
    _, start, end, is_open = planned
    if bounds is None:
        return planned._replace(end=start), [(Finding.VANISHED, start, end)]
    if bounds.from_replica:
        return planned, []
    findings = []
    if end > bounds.max_offset:
        findings.append((Finding.WENT_BACK, end, bounds.max_offset))
    if start < bounds.min_offset and not is_open:
        findings.append((Finding.BELOW_MIN, start, bounds.min_offset))
    kept = planned._replace(start=max(start, bounds.min_offset), end=min(end, bounds.max_offset))
    return kept, findings
