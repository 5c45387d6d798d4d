"""Report the figures of a task that wrote rows, and sum them up for a batch.

A task returns its report to the driver as Spark's commit message, so its size is limited.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pyspark.sql.datasource import WriterCommitMessage

from ..errors import shown
from ..options.writer_options import GivenBatch
from ..send.outcome import SendStatistics

__all__ = ["WriteReport", "describe_abort", "describe_commit"]

_MOST_BROKERS = 16
"""The most brokers that a report names."""


@dataclass(slots=True)
class WriteReport(WriterCommitMessage):
    """The figures of one task that wrote all its rows."""

    batch: GivenBatch
    partition: int
    rows: int = 0
    """The rows that the task got; each is stored, a dead letter, or dropped."""
    dead_letters: int = 0
    dropped: int = 0
    requests: int = 0
    """Sends that were stored, dead letters included, as in all that follows."""
    byte_count: int = 0
    """Bytes of the bodies that were sent, as they were sent."""
    retries: int = 0
    pauses: int = 0
    brokers: tuple[str, ...] = ()
    """The brokers that stored rows, at most 16 of them."""
    seconds: dict[str, float] = field(default_factory=dict)
    """{step: seconds that the task spent on it}."""

    def add_sends(self, statistics: SendStatistics) -> None:
        """Add the figures of a pipeline to those of the task."""
        self.requests += statistics.requests
        self.byte_count += statistics.bytes
        self.retries += statistics.retries
        self.pauses += statistics.pauses
        self.name_brokers({*self.brokers, *statistics.rows_by_broker})
        spent = statistics.connecting_s, statistics.waiting_s, statistics.limited_s
        for step, seconds in zip(("connecting", "waiting", "limited"), spent, strict=True):
            self.seconds[step] = self.seconds.get(step, 0.0) + seconds

    def name_brokers(self, names: Iterable[str]) -> None:
        """Note the brokers that stored rows."""
        self.brokers = tuple(sorted(names)[:_MOST_BROKERS])


def describe_commit(reports: Sequence[WriteReport], sink_name: str) -> str:
    """Return one line about a batch that was written by these tasks."""
    seconds = Counter[str]()
    for report in reports:
        seconds.update(report.seconds)
    steps = ", ".join(f"{step} {spent:.3f} s" for step, spent in seconds.items())
    return (
        f"{_describe_batch(reports, sink_name)}: {_describe_rows(reports)}; "
        f"{sum(report.byte_count for report in reports)} bytes in {sum(report.requests for report in reports)} sends "
        f"to {_describe_brokers(reports)}; {sum(report.retries for report in reports)} retries, "
        f"{sum(report.pauses for report in reports)} pauses; {len(reports)} tasks, together {steps or 'no time'}"
    )


def describe_abort(messages: Sequence[WriteReport | None], sink_name: str, *, repeats_ids: bool) -> str:
    """Return one line about a batch that failed, given the reports of its tasks; None for a task that failed.

    `repeats_ids` says whether the batch, when it is written again, has the same message ids.
    """
    reports = [message for message in messages if message is not None]
    ids = "the same message ids, where rows are at the same places" if repeats_ids else "other message ids"
    return (
        f"{_describe_batch(reports, sink_name)} failed: {len(reports)} of {len(messages)} tasks had written all their "
        f"rows, {_describe_rows(reports)}; other tasks may have stored some; writing the batch again repeats all rows "
        f"with {ids}"
    )


def _describe_batch(reports: Sequence[WriteReport], sink_name: str) -> str:
    sink = f" of sink {sink_name}" if sink_name else ""
    if not reports:
        return f"a batch{sink}"
    batch = reports[0].batch
    return f"batch {batch.batch_id} of query {shown(batch.query_id)}{sink}"


def _describe_rows(reports: Sequence[WriteReport]) -> str:
    rows, letters, dropped = (
        sum(getattr(report, name) for report in reports) for name in ("rows", "dead_letters", "dropped")
    )
    return f"{rows} rows, of which {letters} are dead letters and {dropped} were dropped"


def _describe_brokers(reports: Sequence[WriteReport]) -> str:
    names = sorted({name for report in reports for name in report.brokers})
    more = f" and {len(names) - _MOST_BROKERS} more" if len(names) > _MOST_BROKERS else ""
    return ", ".join(map(shown, names[:_MOST_BROKERS])) + more or "no broker"
