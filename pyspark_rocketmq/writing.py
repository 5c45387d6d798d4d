"""Write DataFrames to topics within a function for `foreachBatch`, beside other sinks.

    def handle(batch, batch_id):
        writing.send(batch, batch_id, {"nameServer": "localhost:9876", "topic": "orders"})
        batch.write.mode("append").parquet("/data/orders")

`df.write` would give each write new message ids. `send` gives rows the ids that `df.writeStream` gives them: a replay
of the batch repeats them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from .errors import OptionError
from .options import batch_keys, parse_writer_options
from .sink.identity import DriverQuery, find_query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["send"]

_MOST_SINKS = 1000
"""The most sinks of runs whose last batch is remembered."""
_sent: dict[tuple[str, str], int] = {}
"""{(run of a query, sink): the last batch that was sent}, oldest first."""


def send(batch: DataFrame, batch_id: int, options: Mapping[str, str], *, query_id: str | None = None) -> None:
    """Write a batch of a streaming query, and return when every row is acknowledged; raise if one is not.

    Args:
        batch: The rows, or those of them that go to this sink, with the columns of writes.
        batch_id: The number of the batch, as the function for `foreachBatch` gets it.
        options: The options of a write. Several sends of one batch need different `sinkName`s.
        query_id: A text that is the same in every run of the query and that no other query has. Required over Spark
            Connect; otherwise Spark's own id is used.
    """
    sink_name = parse_writer_options(options).sink_name
    found = find_query(batch.sparkSession)
    known_id = query_id or (found.query_id if found else None)
    if known_id is None:
        advice = "call send in a function for foreachBatch; over Spark Connect, give query_id"
        raise OptionError("query_id", None, "Spark does not tell it", advice=advice, code="OPTION_MISSING")
    _require_first(found, sink_name, batch_id)
    keys = batch_keys(known_id, batch_id)
    batch.write.format("rocketmq").options(**{**options, **keys}).mode("append").save()
    _note(found, sink_name, batch_id)


def _require_first(found: DriverQuery | None, sink_name: str, batch_id: int) -> None:
    """Raise if this run has sent the batch to a sink of this name: equal rows of both would share message ids."""
    if found and _sent.get((found.run_id, sink_name)) == batch_id:
        what = f"a second send of batch {batch_id} with this name"
        advice = "give each send of a batch a sinkName of its own"
        raise OptionError("sinkName", sink_name or None, what, advice=advice, code="OPTION_CONFLICT")


def _note(found: DriverQuery | None, sink_name: str, batch_id: int) -> None:
    if found is None:
        return
    _sent.pop((found.run_id, sink_name), None)
    _sent[found.run_id, sink_name] = batch_id
    while len(_sent) > _MOST_SINKS:
        del _sent[next(iter(_sent))]
