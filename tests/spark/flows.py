"""Flows of a Spark query that must pass on every cluster, stub or real.

A flow is a public function that takes a session, a `World` and a folder. Flows whose names begin with `two_brokers_` or
`master_slave_` need a cluster of that kind; all others need one broker.
"""

from __future__ import annotations

from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING

from chispa import assert_df_equality

from pyspark_rocketmq import read_where
from pyspark_rocketmq.net.deadline import Deadline
from tests.flows.world import World, until
from tests.spark.queries import Sink, run_to_end, running, wait_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_SCHEMA = (
    "topic string NOT NULL, brokerName string NOT NULL, queueId int NOT NULL, queueOffset bigint NOT NULL, "
    "tags string, keys string, body binary, properties map<string,string>, reconsumeTimes int, flag int"
)


def a_batch_shows_messages_as_they_were_sent(spark: SparkSession, world: World, _: Path) -> None:
    """Check that a batch read returns schema, order and values of all messages as they were sent."""
    queue = world.make_queue()
    world.send(queue, b"one", TAGS="new", KEYS="k1 k2", vip="yes")
    world.send(queue, "ü".encode())
    place = (queue.topic, queue.broker_name, 0)
    wanted = spark.createDataFrame(
        [
            (*place, 0, "new", "k1 k2", bytearray(b"one"), {"vip": "yes"}, 0, 0),
            (*place, 1, None, None, bytearray("ü".encode()), {}, 0, 0),
        ],
        _SCHEMA,
    )
    frame = spark.read.format("rocketmq").options(nameServer=world.name_server, subscribe=queue.topic).load()
    assert_df_equality(frame.select(wanted.columns), wanted)


def a_where_narrows_and_keeps_all_rows(spark: SparkSession, world: World, _: Path) -> None:
    """Check that `read_where` gives the same rows as `where`, for each kind of condition."""
    queues = world.make_topic(2)
    for number in range(40):
        world.send(queues[number % 2], b"%d" % number, TAGS="ABC"[number % 3])
    plain = {"nameServer": world.name_server, "subscribe": queues[0].topic}
    frame = spark.read.format("rocketmq").options(**plain).load().cache()
    at, before = (
        frame.selectExpr(f"max(storeTimestamp) - INTERVAL {minutes} MINUTES AS at").collect()[0].at.astimezone(UTC)
        for minutes in (0, 2)
    )
    wheres = (
        "tags = 'A'",
        "tags IN ('A', 'C') AND queueId = 1",
        "queueOffset >= 5 AND queueOffset < 9",
        f"topic = '{queues[0].topic}' AND storeTimestamp >= TIMESTAMP '{at:%Y-%m-%d %H:%M:%S.%f}Z'",
        f"storeTimestamp < TIMESTAMP '{before:%Y-%m-%d %H:%M:%S.%f}Z'",
    )
    for where in wheres:
        assert_df_equality(
            read_where(spark, plain, where).select("queueId", "queueOffset", "tags", "body"),
            frame.where(where).select("queueId", "queueOffset", "tags", "body"),
            ignore_row_order=True,
        )
    frame.unpersist()


def a_stream_stops_goes_on_and_commits(spark: SparkSession, world: World, folder: Path) -> None:
    """Check that two `availableNow` runs with capped batches read each message once and commit all offsets."""
    queues, group = world.make_topic(2), world.make_group()
    frame = _stream(spark, world, queues[0].topic, consumerGroup=group, maxOffsetsPerTrigger="30")
    for queue in queues:
        world.fill(queue, 50)
    sink = Sink()
    run_to_end(frame, sink, folder)
    world.fill(queues[0], 5)
    run_to_end(frame, sink, folder)
    assert [len(rows) for rows in sink.batches.values()] == [30, 30, 30, 10, 5]
    assert sorted(sink.ids) == sorted(
        (*queue, at) for queue, end in zip(queues, (55, 50), strict=True) for at in range(end)
    )
    wanted = {queues[0]: 55, queues[1]: 50}
    until(lambda: world.cluster.offsets.fetch_committed(group, queues) == wanted, "positions are committed")


def every_run_commits_its_last_batch_and_frees_its_locks(spark: SparkSession, world: World, folder: Path) -> None:
    """Check that each of six `availableNow` runs commits its last batch and releases its queue locks at once."""
    queue, group = world.make_queue(), world.make_group()
    frame = _stream(spark, world, queue.topic, consumerGroup=group, ordering="queue", lockQueues="true")
    for end in range(3, 21, 3):
        world.fill(queue, 3)
        run_to_end(frame, Sink(), folder)
        in_time = Deadline.after(30)
        while not world.cluster.groups.lock(group, "other", [queue]).granted:
            assert not in_time.expired, f"the lock of the run to {end} is left"
        world.cluster.groups.unlock(group, "other", [queue])
        assert world.cluster.offsets.fetch_committed(group, [queue]) == {queue: end}


def two_brokers_outlive_the_absence_of_one(spark: SparkSession, world: World, folder: Path) -> None:
    """Check that a query reads from one broker while the other is down, and from both after its return."""
    stays, leaves = world.make_topic(1)
    sink = Sink()
    with running(_stream(spark, world, stays.topic), sink, folder, processingTime="200 milliseconds") as query:
        for queue in (stays, leaves):
            world.fill(queue, 3)
        _await_rows(query, sink, 6)
        world.servers.stop(leaves.broker_name)
        try:
            world.fill(stays, 2)
            _await_rows(query, sink, 8)
        finally:
            world.servers.start(leaves.broker_name)
        until(lambda: len(world.route_names(stays.topic)) == 2, "the broker is routed again")
        world.cluster.routes.expire(stays.topic)
        world.fill(leaves, 2)
        _await_rows(query, sink, 10)
    assert sorted(sink.ids) == sorted((*queue, at) for queue in (stays, leaves) for at in range(5))


def master_slave_reads_go_on_at_the_slave(spark: SparkSession, world: World, folder: Path) -> None:
    """Check that a query reads each message once although the master stops, because the slave serves reads."""
    queue, sink = world.make_queue(), Sink()
    world.fill(queue, 300)
    world.servers.replicate([queue])
    frame = _stream(spark, world, queue.topic, maxOffsetsPerTrigger="20")
    with running(frame, sink, folder, processingTime="0 seconds") as query:
        _await_rows(query, sink, 20)
        world.servers.stop(queue.broker_name)
        try:
            read_from_master = len(sink.rows)
            _await_rows(query, sink, 300)
        finally:
            world.servers.start(queue.broker_name)
    assert read_from_master < 300
    assert sink.ids == [(*queue, at) for at in range(300)]


def _stream(spark: SparkSession, world: World, topic: str, **options: str) -> DataFrame:
    """Return a streaming read of the topic from its beginning; it refreshes routes every second."""
    reader = spark.readStream.format("rocketmq").options(nameServer=world.name_server, subscribe=topic)
    return reader.options(startingOffsets="earliest", pollNameServerInterval="1s", **options).load()


def _await_rows(query: StreamingQuery, sink: Sink, count: int) -> None:
    """Wait until the query has written `count` rows; fail if the query ends with an error."""
    wait_for(lambda: len(sink.rows) >= count or not query.isActive, f"{count} rows")
    assert query.exception() is None
