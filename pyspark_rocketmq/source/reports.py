"""Report what a task has read, and how far a query is, as plain values.

A `TaskReport` is made in the task that it describes and is its log line. A `PlannerStatus` is made in the planner and
travels to the driver's progress in the JSON of `reportLatestOffset`, the only channel that Python sources have. It does
not travel in the JSON of `latestOffset`: Spark logs that as the checkpoint and compares its text, so every change of a
counter would start a batch, and replays would differ. Logs, `progress` and tests read these same values.
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
"""Limits of the entries that name queues, whose names come from the network."""


@dataclass(slots=True)
class TaskReport:
    """The figures of one task."""

    ranges: int
    rows: int = 0
    pulls: int = 0
    """Responses that brought records."""
    byte_count: int = 0
    """Bytes of encoded records in these responses."""
    waited_s: float = 0.0
    """Seconds in which the task did not run while it fetched: elapsed time less processor time."""
    handed_over: int = 0
    """Records that were read one by one, which is slower."""
    dropped: int = 0
    """Messages left out because they cannot be read (mode=DROPMALFORMED)."""
    losses: Mapping[str, int] = field(default_factory=dict)
    """The number of losses, by finding; `GAP` counts gaps within ranges."""

    def __str__(self) -> str:
        return (
            f"{self.rows} rows of {self.ranges} ranges; {self.handed_over} records were read one by one, as packed "
            "bodies, IPv6 hosts, inner batches and broken properties are; "
            f"{self.pulls} pulls, {self.byte_count} bytes, {self.waited_s:.3f} s waited, {self.dropped} dropped, "
            f"losses {dict(self.losses)}"
        )


@dataclass(frozen=True, slots=True)
class PlannerStatus:
    """The progress of a query after its last planning."""

    role: str
    """`solo`, or `member` of its group."""
    queues: int
    """The number of queues that the query reads now."""
    position: int
    """The sum of the next offsets of these queues, after the planned batch."""
    end: int
    """The sum of their ends."""
    lag: int
    """The number of offsets between the two."""
    most_behind: Mapping[str, int]
    """The queues with the largest lag, which are at most three."""
    group: str | None
    """The group whose positions the query commits."""
    failed_commits: int
    """The number of commits that failed, to be repeated."""
    is_commit_refused: bool
    """Whether the query commits no more because its group has live members."""
    losses: Mapping[str, int]
    """The number of losses between batches, by finding."""

    def __str__(self) -> str:
        text = ", ".join(f"{name} {value}" for name, value in self.as_json().items())
        return f"status: {text}"

    def as_json(self) -> dict[str, Any]:
        """Return the status as a JSON object of at most 4 KiB."""
        return asdict(self)


def measure_lag(positions: Positions, ends: Positions) -> dict[str, Any]:
    """Return the fields of a status that compare positions with the ends of the queues."""
    lags = {queue: max(0, end - positions.get(queue, end)) for queue, end in ends.items()}
    behind = nlargest(
        _MOST_QUEUES, (queue for queue, lag in lags.items() if lag), key=lambda queue: (lags[queue], queue)
    )
    return {
        "queues": len(ends),
        "position": sum(positions.get(queue, end) for queue, end in ends.items()),
        "end": sum(ends.values()),
        "lag": sum(lags.values()),
        "most_behind": {_shorten(queue): lags[queue] for queue in behind},
    }


def _shorten(queue: MessageQueue) -> str:
    return str(queue)[-_MOST_CHARACTERS:]


def parse_status(reported: str | Mapping[str, Any]) -> PlannerStatus | None:
    """Return the status in what `reportLatestOffset` answered; None if there is none that this release can read."""
    try:
        value = json.loads(reported) if isinstance(reported, str) else reported
        return PlannerStatus(**value["status"])
    except (KeyError, TypeError, ValueError, RecursionError):
        return None
