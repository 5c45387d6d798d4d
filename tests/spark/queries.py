"""Queries as a user writes them, a sink that can be asked, and what stands in a checkpoint."""

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
PATIENCE_S = 90.0
ID = ("topic", "brokerName", "queueId", "queueOffset")


def given(stub: StubCluster, **options: str) -> dict[str, str]:
    """Options of a reader of `TOPIC`; new queues show soon."""
    return {"nameServer": stub.name_server, "subscribe": TOPIC, "pollNameServerInterval": "1s", **options}


def batch(spark: SparkSession, stub: StubCluster, **options: str) -> DataFrame:
    """A batch read."""
    return spark.read.format("rocketmq").options(**given(stub, **options)).load()


def stream(spark: SparkSession, stub: StubCluster, **options: str) -> DataFrame:
    """A streaming read from the beginning."""
    start = {"startingOffsets": "earliest", **options}
    return spark.readStream.format("rocketmq").options(**given(stub, **start)).load()


class Sink:
    """Keeps the rows of each micro-batch; a batch that is written again replaces itself."""

    def __init__(self) -> None:
        self.batches: dict[int, list[Row]] = {}

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        self.batches[batch_id] = frame.collect()

    @property
    def rows(self) -> list[Row]:
        """Of all batches, in order."""
        return [row for _, rows in sorted(self.batches.items()) for row in rows]

    @property
    def bodies(self) -> list[str]:
        """Of all rows, sorted."""
        return sorted(row.body.decode() for row in self.rows)

    @property
    def ids(self) -> list[tuple[Any, ...]]:
        """What identifies each row."""
        return [tuple(row[name] for name in ID) for row in self.rows]


@contextmanager
def running(frame: DataFrame, sink: Sink, checkpoint: Path, **trigger: Any) -> Iterator[StreamingQuery]:
    """A query that writes into the sink; stopped at the end."""
    writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))
    query = (writer.trigger(**trigger) if trigger else writer).start()
    try:
        yield query
    finally:
        query.stop()


def run_to_end(frame: DataFrame, sink: Sink, checkpoint: Path, **trigger: Any) -> StreamingQuery:
    """Run a query whose trigger ends by itself, `availableNow` if not said otherwise."""
    with running(frame, sink, checkpoint, **trigger or {"availableNow": True}) as query:
        assert query.awaitTermination(int(PATIENCE_S)), "the query should have ended"
    return query


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Until the condition holds, or fail."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S:g} s: {what}"
        time.sleep(0.02)


def finished(checkpoint: Path) -> Positions:
    """How far the batches in the commit log go."""
    done = [int(path.name) for path in (checkpoint / "commits").glob("[0-9]*")]
    if not done:
        return {}
    lines = (checkpoint / "offsets" / str(max(done))).read_text().splitlines()
    position = parse_position(json.loads(lines[2]))
    assert position is not None
    return position.next


def ends(stub: StubCluster, queues: int = 4) -> dict[MessageQueue, int]:
    """How far the topic's queues go."""
    numbers = [record.queue_id for record in stub.messages(TOPIC)]
    return {MessageQueue(TOPIC, "broker-a", number): numbers.count(number) for number in range(queues)}
