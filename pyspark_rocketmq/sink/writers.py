"""Answer the calls that Spark makes on a writer.

For each batch Spark makes a writer on the driver, pickles it for the tasks, and calls `write` of the copies. Then it
calls `commit`, or `abort` if a task failed: of a batch on the same writer, of a stream on a new one in another process.
A writer for a stream therefore lists queues when it is pickled, so that one that only commits connects to no server.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from ..boundary.arrival import travel, travel_whole
from ..boundary.calls import spark_call
from ..errors import shown
from .identity import running_batch
from .plan import WritePlan, freeze
from .report import WriteReport, describe_abort, describe_commit
from .task import write_task

if TYPE_CHECKING:
    from ..decode.decoder import RecordBatch

__all__ = ["BatchWriter", "StreamWriter"]

_log = logging.getLogger(__name__)


class BatchWriter(DataSourceArrowWriter):
    """The writer of `df.write`."""

    def __init__(self, plan: WritePlan) -> None:
        self._plan = plan

    def __reduce__(self) -> tuple[Any, ...]:
        return travel_whole(self)

    def place(self) -> str:
        """Return the topic that log lines name."""
        return _describe_work(self._plan)

    @spark_call
    def write(self, iterator: Iterator[RecordBatch]) -> WriteReport:
        """Write the rows of one task, and return its report."""
        return _write(iterator, self._plan)

    @spark_call
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Log what was written: the rows landed before."""
        _log_commit(messages, self._plan)

    @spark_call
    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Log what was written; rows that landed stay."""
        _log_abort(messages, self._plan, repeats_ids=self._plan.options.batch is not None)


class StreamWriter(DataSourceStreamArrowWriter):
    """The writer of one batch of `df.writeStream`."""

    def __init__(self, plan: WritePlan, *, is_frozen: bool = False) -> None:
        self._plan = plan
        self._is_frozen = is_frozen

    def place(self) -> str:
        """Return the topic that log lines name."""
        return _describe_work(self._plan)

    @spark_call
    def __reduce__(self) -> tuple[Any, ...]:
        if not self._is_frozen:
            self._plan, self._is_frozen = freeze(self._plan), True
        return travel(_frozen_writer, self._plan)

    @spark_call
    def write(self, iterator: Iterator[RecordBatch]) -> WriteReport:
        """Write the rows of one task, and return its report."""
        return _write(iterator, self._plan)

    @spark_call
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Log what was written: the rows landed before."""
        _log_commit(messages, self._plan)

    @spark_call
    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Log what was written; rows that landed stay, and a replay repeats them with their message ids."""
        _log_abort(messages, self._plan, repeats_ids=True)


def _describe_work(plan: WritePlan) -> str:
    """Return the topic that is written, as the place of log lines."""
    topic = plan.options.encode.topic
    return f"to {shown(topic)}" if topic else "to topics of rows"


def _frozen_writer(plan: WritePlan) -> StreamWriter:
    return StreamWriter(plan, is_frozen=True)


def _write(batches: Iterator[RecordBatch], plan: WritePlan) -> WriteReport:
    context = cast(TaskContext, TaskContext.get())
    return write_task(batches, plan, plan.batch or running_batch(context), context.partitionId())


def _log_commit(messages: Sequence[WriterCommitMessage | None], plan: WritePlan) -> None:
    """Log one line about a batch; a warning if it had rows that could not be sent."""
    reports = [message for message in messages if isinstance(message, WriteReport)]
    had_bad_rows = any(report.dropped or report.dead_letters for report in reports)
    level = logging.WARNING if had_bad_rows else logging.INFO
    _log.log(level, "%s", describe_commit(reports, plan.options.sink_name))


def _log_abort(messages: Sequence[WriterCommitMessage | None], plan: WritePlan, *, repeats_ids: bool) -> None:
    known = [cast(WriteReport | None, message) for message in messages]
    _log.warning("%s", describe_abort(known, plan.options.sink_name, repeats_ids=repeats_ids))
