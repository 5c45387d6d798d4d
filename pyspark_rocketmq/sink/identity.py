"""Find out which batch of which query a task writes."""

from __future__ import annotations

import uuid

from pyspark import TaskContext

from ..errors import RocketMQError
from ..options.writer_options import GivenBatch

__all__ = ["new_batch", "running_batch"]

_QUERY_ID, _BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"
"""The names under which Spark tells the tasks of a streaming query what they work for."""


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
