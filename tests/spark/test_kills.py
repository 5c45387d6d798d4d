"""A driver that dies at any point of a micro-batch loses nothing, repeats nothing, and never publishes too much."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from broker_stub import StubBroker
from pyspark_rocketmq.model import MessageQueue
from pyspark_rocketmq.progress import commit_offsets
from tests.spark.fixtures import ROOT, spark_environment
from tests.spark.killed_driver import BATCH, POINTS, write_batch
from tests.spark.queries import GROUP, TOPIC, ends, finished

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.spark

OPTIONS = {"subscribe": TOPIC, "startingOffsets": "earliest", "consumerGroup": GROUP, "maxOffsetsPerTrigger": "10"}
FIRST, LATER = [f"{number:03}" for number in range(30)], [f"{number:03}" for number in range(30, 35)]


@pytest.fixture
def stub() -> Iterator[StubBroker]:
    """One broker with a topic of four queues, and thirty messages in it."""
    with StubBroker({TOPIC: 4}) as broker:
        put(broker, FIRST)
        yield broker


def put(stub: StubBroker, bodies: list[str]) -> None:
    """Messages on the queues in turn."""
    for body in bodies:
        stub.put(TOPIC, body.encode())


@contextmanager
def never_ahead(stub: StubBroker, checkpoint: Path) -> Iterator[None]:
    """At no moment does the group stand beyond the batches in the commit log."""
    over = threading.Event()
    ahead: list[MessageQueue] = []

    def watch() -> None:
        while not over.wait(0.002):
            published = stub.offsets(GROUP)  # Asked first: what was published by now must be finished by now.
            done = finished(checkpoint)
            ahead.extend(queue for queue, offset in published.items() if offset > done.get(queue, 0))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
    assert not ahead


def run_until_killed(point: str, stub: StubBroker, checkpoint: Path, sink: Path) -> None:
    """Run the driver program; it has to die of its own knife."""
    command = [sys.executable, "-m", "tests.spark.killed_driver", point, stub.name_server, str(checkpoint), str(sink)]
    environment = {**os.environ, **spark_environment(), "READER_OPTIONS": json.dumps(OPTIONS)}
    ended = subprocess.run(command, cwd=ROOT, env=environment, timeout=180, capture_output=True, text=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr[-4000:]


def go_on(spark: SparkSession, stub: StubBroker, checkpoint: Path, sink: Path, once: bool) -> StreamingQuery:
    """The next run of the query, to its end."""
    frame = spark.readStream.format("rocketmq").options(**OPTIONS, nameServer=stub.name_server).load()
    writer = frame.writeStream.foreachBatch(partial(write_batch, sink)).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(once=True).start() if once else writer.trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    return query


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_driver_loses_and_repeats_nothing(
    spark: SparkSession, stub: StubBroker, tmp_path: Path, point: str
) -> None:
    """Nor is the group ever ahead; in the end it stands where the query does."""
    checkpoint, sink = tmp_path / "checkpoint", tmp_path / "sink"
    sink.mkdir()
    with never_ahead(stub, checkpoint):
        run_until_killed(point, stub, checkpoint, sink)
        assert (checkpoint / "offsets" / str(BATCH)).exists() == (point != "latestOffset")
        assert (checkpoint / "commits" / str(BATCH)).exists() == (point == "commits")
        put(stub, LATER)
        query = go_on(spark, stub, checkpoint, sink, once=point == "read")
        if point == "read":
            query = go_on(spark, stub, checkpoint, sink, once=True)
            commit_offsets(query, {**OPTIONS, "nameServer": stub.name_server})
    written = [body for path in sink.glob("*.json") for body in json.loads(path.read_text())]
    assert sorted(written) == FIRST + LATER
    assert stub.offsets(GROUP) == ends(stub) == finished(checkpoint)
