"""Hold what a monitor knows of a query: its lag, its batches, and what its planner reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..lag.figures import Figure, Lag, QueueLag, TotalLag
from ..model import MessageQueue, sort_queues
from ..source.reports import PlannerStatus

__all__ = ["Activity", "ProgressEvent", "QueryReport", "unknown_lag"]

_BATCH = "addBatch"
"""The phase that Spark measures only in triggers that run a batch."""
_TRIGGER = "triggerExecution"


@dataclass(frozen=True, slots=True)
class ProgressEvent:
    """The part of Spark's progress event that a monitor needs."""

    query_id: str
    run_id: str
    name: str | None
    rows: int
    durations_ms: Mapping[str, int]
    json: str

    @property
    def query(self) -> str:
        """The name of the query; without a name, its id."""
        return self.name or self.query_id


@dataclass(frozen=True, slots=True)
class Activity:
    """The batches of one run of a query since the monitor has heard of it."""

    seen_at_s: float
    """The time of the last event of Spark about the query, in seconds since 1970."""
    batches: int = 0
    rows: int = 0
    """Number of rows that Spark has read from all sources of the query, repeated ones included."""
    seconds: float = 0.0
    """Duration of all batches together."""
    last_rows: int = 0
    last_seconds: float = 0.0

    def seen(self, now_s: float) -> Activity:
        """Return the activity after a sign of life."""
        return replace(self, seen_at_s=now_s)

    def after(self, event: ProgressEvent, now_s: float) -> Activity:
        """Return the activity after this event; one without a batch is only a sign of life."""
        if _BATCH not in event.durations_ms:
            return self.seen(now_s)
        seconds = event.durations_ms.get(_TRIGGER, 0) / 1000
        return Activity(now_s, self.batches + 1, self.rows + event.rows, self.seconds + seconds, event.rows, seconds)


@dataclass(frozen=True, slots=True)
class QueryReport:
    """A query at one moment."""

    query: str
    """The name of the query; without a name, its id."""
    query_id: str
    run_id: str
    lag: Lag
    """Messages that brokers held after the last batch that Spark had reported, queue by queue and in total."""
    measured_at_s: float
    """The time of the measurement, in seconds since 1970."""
    activity: Activity
    statuses: tuple[PlannerStatus, ...] = ()
    """The planner's status of each source; none before PySpark 4.2."""


def unknown_lag(positions: Mapping[MessageQueue, int], why: str) -> Lag:
    """Return the lag of positions of which nothing could be measured."""
    unknown = Figure(unknown=why)
    queues = tuple(
        QueueLag(
            topic=queue.topic,
            broker=queue.broker_name,
            queue_id=queue.queue_id,
            position=Figure(positions[queue]),
            end=unknown,
            messages=unknown,
            gone=unknown,
            bytes=unknown,
            seconds=unknown,
            retention_seconds=unknown,
        )
        for queue in sort_queues(positions)
    )
    return Lag(queues, TotalLag.of(queues, why))
