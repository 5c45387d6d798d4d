"""Queries as users write them, a sink that keeps rows in memory, and readers of checkpoints."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from broker_stub import StubCluster
from pyspark_rocketmq.model import MessageQueue
from pyspark_rocketmq.offsets.position import Positions, parse_position

TOPIC, GROUP = "orders", "spark-orders"
WAIT_TIMEOUT_S = 90.0
ID = ("topic", "brokerName", "queueId", "queueOffset")


def given(stub: StubCluster, **options: str) -> dict[str, str]:
    """Return options to read `TOPIC` from this stub, with routes refreshed every second and these further options."""
    return {"nameServer": stub.name_server, "subscribe": TOPIC, "pollNameServerInterval": "1s", **options}


def batch(spark: SparkSession, stub: StubCluster, **options: str) -> DataFrame:
    """Return a batch read of `TOPIC` from this stub."""
    return spark.read.format("rocketmq").options(**given(stub, **options)).load()


def stream(spark: SparkSession, stub: StubCluster, **options: str) -> DataFrame:
    """Return a streaming read of `TOPIC` from this stub, from the beginning by default."""
    start = {"startingOffsets": "earliest", **options}
    return spark.readStream.format("rocketmq").options(**given(stub, **start)).load()


class Sink:
    """A `foreachBatch` function that keeps the rows of each batch by batch id, so a repeated batch replaces itself."""

    def __init__(self) -> None:
        self.batches: dict[int, list[Row]] = {}

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        self.batches[batch_id] = frame.collect()

    @property
    def rows(self) -> list[Row]:
        """The rows of all batches in the order of batch ids."""
        return [row for _, rows in sorted(self.batches.items()) for row in rows]

    @property
    def bodies(self) -> list[str]:
        """The bodies of all rows as sorted texts."""
        return sorted(row.body.decode() for row in self.rows)

    @property
    def ids(self) -> list[tuple[Any, ...]]:
        """Topic, broker, queue id and offset of each row, in the order of `rows`."""
        return [tuple(row[name] for name in ID) for row in self.rows]


@contextmanager
def running(frame: DataFrame, sink: Sink, checkpoint: Path, **trigger: Any) -> Iterator[StreamingQuery]:
    """Start a query that writes to the sink, yield it, and stop it after the `with` block."""
    writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))
    query = (writer.trigger(**trigger) if trigger else writer).start()
    try:
        yield query
    finally:
        query.stop()


def run_to_end(frame: DataFrame, sink: Sink, checkpoint: Path, **trigger: Any) -> StreamingQuery:
    """Run a query until it ends by itself, by default with the trigger `availableNow`; return it."""
    with running(frame, sink, checkpoint, **trigger or {"availableNow": True}) as query:
        assert query.awaitTermination(int(WAIT_TIMEOUT_S)), "the query should have ended"
    return query


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Wait until the condition returns true; fail with `what` as text after the timeout."""
    deadline = time.monotonic() + WAIT_TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {WAIT_TIMEOUT_S:g} s: {what}"
        time.sleep(0.02)


def finished(checkpoint: Path) -> Positions:
    """Return the position at the end of the last batch in the checkpoint's commit log; empty if there is none."""
    done = [int(path.name) for path in (checkpoint / "commits").glob("[0-9]*")]
    if not done:
        return {}
    lines = (checkpoint / "offsets" / str(max(done))).read_text().splitlines()
    position = parse_position(json.loads(lines[2]))
    assert position is not None
    return position.next


def ends(stub: StubCluster, queues: int = 4) -> dict[MessageQueue, int]:
    """Return the end offset of each queue of `TOPIC`."""
    numbers = [record.queue_id for record in stub.messages(TOPIC)]
    return {MessageQueue(TOPIC, "broker-a", number): numbers.count(number) for number in range(queues)}
