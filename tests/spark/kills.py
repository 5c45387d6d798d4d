"""The flow of a driver that is killed at some point of a micro-batch, for every cluster."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark_rocketmq.cluster.cluster import open_cluster
from pyspark_rocketmq.model import MessageQueue
from pyspark_rocketmq.progress import commit_offsets
from tests.flows.world import World, until
from tests.spark.fixtures import ROOT, spark_environment
from tests.spark.killed_driver import BATCH, write_batch
from tests.spark.queries import finished

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

FIRST, LATER = [f"{number:03}" for number in range(30)], [f"{number:03}" for number in range(30, 35)]
WATCH_S = 0.02


def a_killed_driver_loses_and_repeats_nothing(spark: SparkSession, world: World, folder: Path, point: str) -> None:
    """Kill a driver at this point and run its query again.

    Check that each row is written once, and that the group's offset is never higher than what is written.
    """
    queues, group = world.make_topic(4), world.make_group()
    options = reader_options(world, queues[0].topic, group)
    checkpoint, sink = folder / "checkpoint", folder / "sink"
    sink.mkdir()
    put(world, queues, FIRST)
    with never_ahead(world, group, queues, checkpoint):
        run_until_killed(point, options, checkpoint, sink)
        assert (checkpoint / "offsets" / str(BATCH)).exists() == (point != "latestOffset")
        assert (checkpoint / "commits" / str(BATCH)).exists() == (point == "commits")
        put(world, queues, LATER)
        query = run_again(spark, options, checkpoint, sink, once=point == "read")
        if point == "read":
            query = run_again(spark, options, checkpoint, sink, once=True)
            commit_offsets(query, options)
    written = [body for path in sink.glob("*.json") for body in json.loads(path.read_text())]
    assert sorted(written) == FIRST + LATER
    assert finished(checkpoint) == world.cluster.offsets.fetch_max(queues)
    until(lambda: world.cluster.offsets.fetch_committed(group, queues) == finished(checkpoint), "all is committed")


def reader_options(world: World, topic: str, group: str) -> dict[str, str]:
    """Return reader options with batches of at most ten messages and commits for this group."""
    return {
        "nameServer": world.name_server,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "consumerGroup": group,
        "maxOffsetsPerTrigger": "10",
    }


def put(world: World, queues: Sequence[MessageQueue], bodies: Sequence[str]) -> None:
    """Send one message for each body, to the queues in turn."""
    for queue, body in zip(cycle(queues), bodies, strict=False):
        world.send(queue, body.encode())


@contextmanager
def never_ahead(world: World, group: str, queues: Sequence[MessageQueue], checkpoint: Path) -> Iterator[None]:
    """Check during the `with` block that the group's offsets never exceed the last finished batch's end."""
    over = threading.Event()
    cluster = open_cluster(world.settings)

    def watch() -> list[MessageQueue]:
        ahead: list[MessageQueue] = []
        while not over.wait(WATCH_S):
            committed = cluster.offsets.fetch_committed(group, queues)
            done = finished(checkpoint)  # Read last: every offset committed by then must be in it.
            ahead.extend(queue for queue, offset in committed.items() if offset > done.get(queue, 0))
        return ahead

    with ThreadPoolExecutor(1) as thread:
        watching = thread.submit(watch)
        try:
            yield
        finally:
            over.set()
    assert not watching.result()


def run_until_killed(point: str, options: dict[str, str], checkpoint: Path, sink: Path) -> None:
    """Run `killed_driver` in a process of its own; fail unless it is killed by SIGKILL."""
    command = [sys.executable, "-m", "tests.spark.killed_driver", point, str(checkpoint), str(sink)]
    environment = {**os.environ, **spark_environment(), "READER_OPTIONS": json.dumps(options)}
    ended = subprocess.run(command, cwd=ROOT, env=environment, timeout=180, capture_output=True, text=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr[-4000:]


def run_again(spark: SparkSession, options: dict[str, str], checkpoint: Path, sink: Path, once: bool) -> StreamingQuery:
    """Run the query on the same checkpoint until it ends; return it."""
    frame = spark.readStream.format("rocketmq").options(**options).load()
    writer = frame.writeStream.foreachBatch(partial(write_batch, sink)).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(once=True).start() if once else writer.trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    return query
