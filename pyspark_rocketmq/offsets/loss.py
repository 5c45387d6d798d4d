"""Is this loss, and may the query go on?

What a reader planned can differ from what brokers still hold. Every such finding stands in one table with the error
it is and how reading goes on if the user allows it; one function, `judge`, decides between failing and warning.
Bounds that a replica told are never a finding: it may be behind its master.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from ..errors import (
    DataLossError,
    MessagesMissing,
    OffsetBeforeEarliest,
    OffsetBeyondEnd,
    OffsetWentBack,
    QueueVanished,
)
from ..model import MessageQueue, QueueRange
from .position import Positions

__all__ = [
    "RULES",
    "Bounds",
    "Finding",
    "LossWarning",
    "Rule",
    "Settled",
    "judge",
    "settle_ranges",
    "settle_starts",
]


class Bounds(NamedTuple):
    """Offsets a broker holds of a queue, `[min_offset, max_offset)`."""

    min_offset: int
    max_offset: int
    from_replica: bool = False


class Finding(Enum):
    """How what was planned can differ from what is there."""

    BELOW_MIN = auto()
    ABOVE_MAX = auto()
    WENT_BACK = auto()
    VANISHED = auto()
    NOT_IN_ROUTE = auto()
    RESET_BY_ADMIN = auto()
    GAP = auto()


class Rule(NamedTuple):
    """Meaning and consequence of a finding; without an error it never fails a query."""

    what: str
    going_on: str
    error: type[DataLossError] | None = None


RULES: Mapping[Finding, Rule] = {
    Finding.BELOW_MIN: Rule(
        "offset {planned} is gone, the queue starts at {found} now (retention)",
        "continue at {found}",
        OffsetBeforeEarliest,
    ),
    Finding.ABOVE_MAX: Rule(
        "offset {planned} lies beyond the queue's end {found} (topic made anew, or broker restored)",
        "continue at {found}",
        OffsetBeyondEnd,
    ),
    Finding.WENT_BACK: Rule(
        "the queue ends at {found} now, before the planned end {planned}",
        "stop at {found}",
        OffsetWentBack,
    ),
    Finding.VANISHED: Rule(
        "the queue left the route with offsets {planned} to {found} unread",
        "skip them",
        QueueVanished,
    ),
    Finding.NOT_IN_ROUTE: Rule(
        "the queue is missing from the route",
        "it keeps its position {planned} and is read again when it returns",
    ),
    Finding.RESET_BY_ADMIN: Rule(
        "an admin reset the group to {found} while {planned} was read",
        "reading stays at {planned}; a new checkpoint moves the query",
    ),
    Finding.GAP: Rule(
        "messages within offsets {planned} to {found} are gone (retention has deleted them and the broker has not yet "
        "raised the queue's minimum offset)",
        "go on without them",
        MessagesMissing,
    ),
}


@dataclass(frozen=True, slots=True)
class LossWarning:
    """A finding the query lives with."""

    finding: Finding
    queue: MessageQueue
    planned: int
    found: int

    @property
    def offset_count(self) -> int:
        """How many offsets lie between what was planned and what was found."""
        return abs(self.found - self.planned)

    def __str__(self) -> str:
        rule = RULES[self.finding]
        count = f" ({self.offset_count} offsets)" if self.offset_count else ""
        return f"{self.queue}: {rule.what}; {rule.going_on}".format(planned=self.planned, found=self.found) + count


def judge(finding: Finding, queue: MessageQueue, planned: int, found: int, *, fail_on_data_loss: bool) -> LossWarning:
    """Fail if the table calls it a loss and the user wants that; else say what goes on."""
    rule = RULES[finding]
    if rule.error is None or not fail_on_data_loss:
        return LossWarning(finding, queue, planned, found)
    raise rule.error(
        rule.what.format(planned=planned, found=found),
        advice=f"set failOnDataLoss=false to {rule.going_on.format(planned=planned, found=found)} with a warning",
        topic=queue.topic,
        broker=queue.broker_name,
        queue_id=queue.queue_id,
        offset=planned,
    )


class Settled(NamedTuple):
    """Positions that brokers can serve, and what was found on the way."""

    positions: dict[MessageQueue, int]
    warnings: list[LossWarning]


def settle_starts(
    positions: Positions,
    bounds: Mapping[MessageQueue, Bounds],
    *,
    fail_on_data_loss: bool,
    opened: Collection[MessageQueue] = (),
) -> Settled:
    """Move positions into what brokers hold; a queue without bounds is missing from the route and keeps its own.

    What retention takes from the front of `opened` queues, of which nothing is read yet, is no finding.
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


def _compare_start(planned: int, bounds: Bounds | None) -> tuple[Finding, int] | None:
    """The finding at a start, and where to go on."""
    if bounds is None:
        return Finding.NOT_IN_ROUTE, planned
    if bounds.from_replica or bounds.min_offset <= planned <= bounds.max_offset:
        return None
    if planned < bounds.min_offset:
        return Finding.BELOW_MIN, bounds.min_offset
    return Finding.ABOVE_MAX, bounds.max_offset


def settle_ranges(
    ranges: Iterable[QueueRange], bounds: Mapping[MessageQueue, Bounds], *, fail_on_data_loss: bool
) -> tuple[list[QueueRange], list[LossWarning]]:
    """Cut planned ranges to what brokers hold; a queue without bounds vanished, and its range is skipped."""
    settled = []
    warnings = []
    for planned in ranges:
        kept, findings = _compare_range(planned, bounds.get(planned.queue))
        settled.append(kept)
        for finding, expected, found in findings:
            warnings.append(judge(finding, planned.queue, expected, found, fail_on_data_loss=fail_on_data_loss))
    return [each for each in settled if each.offset_count > 0], warnings


def _compare_range(planned: QueueRange, bounds: Bounds | None) -> tuple[QueueRange, list[tuple[Finding, int, int]]]:
    """What remains of a range, and each finding with what was planned and what is there."""
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
