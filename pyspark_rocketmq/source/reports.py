"""Report the figures of a task, and the position and lag of a query, as plain values.

A `TaskReport` is made in the task that it describes, and is its log line. A `PlannerStatus` is made in the planner. It
reaches the query's progress in the JSON of `reportLatestOffset`, the only way that Spark offers to Python sources. The
JSON of `latestOffset` must not have it: Spark writes that to the checkpoint and compares its text, so every change of a
counter would start a batch. Logs, `progress` and tests read the same values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from heapq import nlargest
from typing import Any

from ..model import MessageQueue
from ..offsets.position import Positions

__all__ = ["PlannerStatus", "TaskReport"]

_MOST_QUEUES, _MOST_CHARACTERS = 3, 120
"""The largest number of queues in `most_behind`, and of characters in each name, because names come from brokers."""
_FIGURES = ("queues", "without_position", "position", "end", "lag", "failed_commits", "is_commit_refused")


@dataclass(slots=True)
class TaskReport:
    """The figures of one task."""

    ranges: int
    rows: int = 0
    pulls: int = 0
    """The number of responses handed to the decoder; those that rechecks read in addition are not counted."""
    byte_count: int = 0
    """The number of bytes of stored records in these responses."""
    waited_s: float = 0.0
    """Seconds for which the task waited while it fetched: elapsed time less processor time."""
    irregular_count: int = 0
    """The number of irregular records, which are decoded one by one and therefore more slowly."""
    dropped: int = 0
    """The number of messages that were left out because they cannot be decoded (mode=DROPMALFORMED)."""
    losses: Mapping[str, int] = field(default_factory=dict)
    """The number of losses that the task found, by the name of the `Finding`.

    `MESSAGES_MISSING` counts losses within ranges.
    """

    def __str__(self) -> str:
        return (
            f"{self.rows} rows of {self.ranges} ranges; {self.irregular_count} records were read one by one, as packed "
            "bodies, IPv6 hosts, inner batches and broken properties are; "
            f"{self.pulls} pulls, {self.byte_count} bytes, {self.waited_s:.3f} s waited, {self.dropped} dropped, "
            f"losses {dict(self.losses)}"
        )


@dataclass(frozen=True, slots=True)
class PlannerStatus:
    """The position, lag and failures of a query after its last planning."""

    role: str
    """`solo`, or `member` of its group."""
    queues: int
    """The number of queues that the query reads now and in which it has a position."""
    without_position: int
    """The number of queues without a position yet, because they wait for a lock, their last owner, or their master."""
    position: int
    """The sum of the positions of these queues, after the planned batch."""
    end: int
    """The sum of the ends of these queues, as brokers reported them last."""
    lag: int
    """The number of offsets from the positions of these queues to their ends; a position beyond its end counts 0."""
    most_behind: Mapping[str, int]
    """The lag of the queues with the largest lag, at most three."""
    group: str | None
    """The group for which the query commits positions at brokers; None if it commits none there."""
    failed_commits: int
    """The number of commits that failed and are repeated."""
    is_commit_refused: bool
    """Whether the query has stopped committing because its group has live members."""
    losses: Mapping[str, int]
    """The number of losses that planning found, by the name of the `Finding`."""

    def __str__(self) -> str:
        text = ", ".join(f"{name} {value}" for name, value in self.as_json().items())
        return f"status: {text}"

    def as_json(self) -> dict[str, Any]:
        """Return the status as a JSON object of at most 4 KiB."""
        return asdict(self)


def measure_lag(positions: Positions, ends: Positions) -> dict[str, Any]:
    """Return the fields of a `PlannerStatus` that tell positions, ends and lag of the queues."""
    known = {queue: end for queue, end in ends.items() if queue in positions}
    lags = {queue: max(0, end - positions[queue]) for queue, end in known.items()}
    behind = nlargest(
        _MOST_QUEUES, (queue for queue, lag in lags.items() if lag), key=lambda queue: (lags[queue], queue)
    )
    return {
        "queues": len(known),
        "without_position": len(ends) - len(known),
        "position": sum(positions[queue] for queue in known),
        "end": sum(known.values()),
        "lag": sum(lags.values()),
        "most_behind": {_shorten(queue): lags[queue] for queue in behind},
    }


def _shorten(queue: MessageQueue) -> str:
    return str(queue)[-_MOST_CHARACTERS:]


def parse_status(reported: str | Mapping[str, Any]) -> PlannerStatus | None:
    """Return the status in a result of `reportLatestOffset`; None if it has no status that this release can read."""
    try:
        value = json.loads(reported) if isinstance(reported, str) else reported
        status = PlannerStatus(**value["status"])
    except (KeyError, TypeError, ValueError, RecursionError):
        return None
    return status if _is_sound(status) else None


def _is_sound(status: PlannerStatus) -> bool:
    """Return whether all figures are numbers."""
    tables = (status.losses, status.most_behind)
    if not all(isinstance(table, Mapping) for table in tables):
        return False
    figures = (getattr(status, name) for name in _FIGURES)
    counts = (count for table in tables for count in table.values())
    return all(isinstance(figure, int) for figure in (*figures, *counts))
