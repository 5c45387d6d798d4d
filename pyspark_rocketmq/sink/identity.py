"""Find out which batch of which query is written: in a task, and on the driver in a function for `foreachBatch`."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, NamedTuple

from pyspark import TaskContext

from ..errors import RocketMQError
from ..options.writer_options import GivenBatch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["DriverQuery", "find_query", "new_batch", "running_batch"]

_QUERY_ID, _BATCH_ID, _RUN_ID = "sql.streaming.queryId", "streaming.sql.batchId", "spark.jobGroup.id"
"""The names under which Spark tells what a streaming query's threads and tasks work for."""


class DriverQuery(NamedTuple):
    """The query for which a function for `foreachBatch` runs."""

    query_id: str
    """The same in every run of the query."""
    run_id: str
    batch_id: int


def new_batch() -> GivenBatch:
    """Return the identity of a batch write, which no other one has; its tasks share it."""
    return GivenBatch(uuid.uuid4().hex, 0)


def running_batch(context: TaskContext) -> GivenBatch:
    """Return the query and batch that a task of a streaming query works for; both are the same in a replay."""
    query_id, batch_id = context.getLocalProperty(_QUERY_ID), context.getLocalProperty(_BATCH_ID)
    if not query_id or not batch_id:
        what = f"Spark does not tell the task its query and batch ({_QUERY_ID} = {query_id}, {_BATCH_ID} = {batch_id})"
        raise RocketMQError(what, advice="write with foreachBatch and writing.send, which names them")
    return GivenBatch(query_id, int(batch_id))


def find_query(session: SparkSession) -> DriverQuery | None:
    """Return the query whose thread this is; None in other threads, and over Spark Connect."""
    try:
        context = session.sparkContext
    except AttributeError:  # A session of Spark Connect has none.
        return None
    query_id, run_id, batch_id = map(context.getLocalProperty, (_QUERY_ID, _RUN_ID, _BATCH_ID))
    if not query_id or not run_id or not batch_id:
        return None
    return DriverQuery(query_id, run_id, int(batch_id))
