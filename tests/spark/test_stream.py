"""Test streaming reads through Spark: triggers, restarts and commits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from broker_stub import StubBroker
from pyspark_rocketmq.progress import CommitListener, commit_offsets, lag
from pyspark_rocketmq.source.stream import HAS_ADMISSION
from pyspark_rocketmq.wire.codes import RequestCode
from tests.source.driving import join
from tests.spark.queries import GROUP, TOPIC, Sink, ends, given, run_to_end, running, stream, wait_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


RUNS_WITH_CAPS = 1 if HAS_ADMISSION else 3
"""The number of `availableNow` runs that read three capped batches: before PySpark 4.2 a run reads only one."""


@pytest.fixture
def stub() -> Iterator[StubBroker]:
    """A stub with one broker and a topic of four queues."""
    with StubBroker({TOPIC: 4}) as broker:
        yield broker


def await_committed(stub: StubBroker) -> None:
    """Wait until the last batch is committed; do nothing before PySpark 4.2, where the next batch commits it."""
    if HAS_ADMISSION:
        wait_for(lambda: stub.offsets(GROUP) == ends(stub), "the last batch is committed")


def put(stub: StubBroker, *bodies: str) -> None:
    """Send one message for each body, to the queues in turn."""
    for body in bodies:
        stub.put(TOPIC, body.encode())


@pytest.mark.skipif(not HAS_ADMISSION, reason="before PySpark 4.2 the last batch is committed by the next run")
def test_runs_to_an_end_commit_it_at_slow_brokers(spark: SparkSession, stub: StubBroker, tmp_path: Path) -> None:
    """If brokers are slow, the commit of the last batch still reaches them when Spark ends the query."""
    stub.faults.delay(60, times=None)
    frame = stream(spark, stub, consumerGroup=GROUP)
    for bodies in ("abcd", "efgh", "ijkl"):
        put(stub, *bodies)
        run_to_end(frame, Sink(), tmp_path)
        wait_for(lambda: stub.offsets(GROUP) == ends(stub), "the run's last batch is committed")


# --- triggers --------------------------------------------------------------------------------------------------------


def test_rows_come_while_the_query_runs(spark: SparkSession, stub: StubBroker, tmp_path: Path) -> None:
    """A running query reads new messages in the order of their queues, and commits also the last batch."""
    sink = Sink()
    frame = stream(spark, stub, consumerGroup=GROUP, maxPartitions="2")
    with running(frame, sink, tmp_path, processingTime="200 milliseconds") as query:
        for burst in ("abcdefgh", "ijkl"):
            put(stub, *burst)
            wait_for(lambda: len(sink.rows) == len(stub.messages(TOPIC)), "all rows")
        await_committed(stub)
        wait_for(lambda: bool(query.lastProgress and query.lastProgress.numInputRows == 0), "an idle trigger")
        latest = query.lastProgress.sources[0].latestOffset if query.lastProgress else ""
    if HAS_ADMISSION:
        assert json.loads(latest)["next"] == {TOPIC: {"broker-a": dict.fromkeys("0123", 3)}}
    assert sink.bodies == list("abcdefghijkl")
    for queue_id in range(4):
        assert [row.queueOffset for row in sink.rows if row.queueId == queue_id] == [0, 1, 2]


def test_available_now_keeps_its_caps_and_ends(spark: SparkSession, stub: StubBroker, tmp_path: Path) -> None:
    """An `availableNow` run reads capped batches and commits them; the next run reads only later messages."""
    sink, frame = Sink(), stream(spark, stub, consumerGroup=GROUP, maxOffsetsPerTrigger="5")
    put(stub, *"abcdefghijkl")
    for _ in range(RUNS_WITH_CAPS):
        run_to_end(frame, sink, tmp_path)
    assert [len(rows) for rows in sink.batches.values()] == [5, 5, 2]
    await_committed(stub)
    put(stub, *"mn")
    run_to_end(frame, sink, tmp_path)
    assert sink.bodies == list("abcdefghijklmn")


def test_once_reads_everything_and_is_committed_when_asked_for(
    spark: SparkSession, stub: StubBroker, tmp_path: Path
) -> None:
    """A batch of the trigger `once` is committed by `commit_offsets`, since Spark does not report it to the reader."""
    caps = {"maxOffsetsPerTrigger": "5"} if HAS_ADMISSION else {}
    sink, frame = Sink(), stream(spark, stub, consumerGroup=GROUP, **caps)
    put(stub, *"abcdefghijkl")
    query = run_to_end(frame, sink, tmp_path, once=True)
    assert (sink.bodies, stub.offsets(GROUP)) == (list("abcdefghijkl"), {})
    commit_offsets(query, given(stub, consumerGroup=GROUP))
    assert stub.offsets(GROUP) == ends(stub)


def test_the_lag_of_a_finished_query_is_what_came_since(spark: SparkSession, stub: StubBroker, tmp_path: Path) -> None:
    """`lag` counts the messages that brokers hold after the last finished batch, also when the query has ended."""
    put(stub, *"abcd")
    query = run_to_end(stream(spark, stub), Sink(), tmp_path)
    put(stub, *"efg")

    found = lag(query, given(stub))

    assert (found.total.queues, found.total.messages.value, found.total.unknown_queues) == (4, 3, 0)


def test_the_default_trigger_idles_without_batches_and_without_hammering(
    spark: SparkSession, stub: StubBroker, tmp_path: Path
) -> None:
    """An idle query with the default trigger runs no batch, and sends brokers at most ten requests a second."""
    sink = Sink()
    put(stub, "a")
    with running(stream(spark, stub), sink, tmp_path) as query:
        wait_for(lambda: sink.bodies == ["a"], "the first row")
        asked = stub.faults.delay(1, on=RequestCode.GET_TOPIC_STATS_INFO, times=None)
        wait_for(lambda: asked.fired >= 10, "ten questions")
        began = stub.clock.now_ms()
        first = asked.fired
        wait_for(lambda: asked.fired >= first + 20, "twenty more")
        assert stub.clock.now_ms() - began > 1800
        put(stub, "b")
        wait_for(lambda: sink.bodies == ["a", "b"], "the next row")
        assert query.lastProgress and len(sink.batches) == 2


# --- stopping and going on -------------------------------------------------------------------------------------------


def test_a_query_goes_on_where_its_checkpoint_ends(spark: SparkSession, stub: StubBroker, tmp_path: Path) -> None:
    """A restarted query reads from its checkpoint on, although its option says `latest`."""
    sink, frame = Sink(), stream(spark, stub, startingOffsets="latest", consumerGroup=GROUP)
    put(stub, "old")
    with running(frame, sink, tmp_path, processingTime="100 milliseconds"):
        wait_for(lambda: 0 in sink.batches, "the empty first batch")
    put(stub, "a")
    with running(frame, sink, tmp_path, processingTime="100 milliseconds"):
        wait_for(lambda: sink.bodies == ["a"], "what came meanwhile")
        await_committed(stub)


def test_a_listener_commits_every_batch(spark: SparkSession, stub: StubBroker, tmp_path: Path) -> None:
    """A `CommitListener` commits the batches of a query, also with the trigger `once`."""
    listener = CommitListener(given(stub, consumerGroup=GROUP))
    spark.streams.addListener(listener)
    try:
        put(stub, *"abcdef")
        run_to_end(stream(spark, stub, consumerGroup=GROUP), Sink(), tmp_path, once=True)
        wait_for(lambda: stub.offsets(GROUP) == ends(stub), "the batch is committed")
    finally:
        spark.streams.removeListener(listener)


def test_a_sink_that_reads_twice_gets_the_same_rows(spark: SparkSession, stub: StubBroker, tmp_path: Path) -> None:
    """If a sink reads a batch twice, or through a union, it gets the same rows each time."""
    seen: list[list[str]] = []

    def write(frame: DataFrame, _: int) -> None:
        for _ in range(2):
            seen.append(sorted(row.body.decode() for row in frame.collect()))
            put(stub, "late")

    put(stub, "a", "b")
    frame = stream(spark, stub)
    writer = frame.union(frame).writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path))
    assert writer.trigger(once=True).start().awaitTermination(90)
    assert seen == [["a", "a", "b", "b"]] * 2


# --- refusals --------------------------------------------------------------------------------------------------------


def failure(frame: DataFrame, checkpoint: Path) -> str:
    """Run a query that must fail; return the text of its error."""
    with pytest.raises(Exception) as ended:
        run_to_end(frame, Sink(), checkpoint)
    return str(ended.value)


def test_a_group_with_members_ends_the_query_at_once(spark: SparkSession, stub: StubBroker, tmp_path: Path) -> None:
    """If the group has live members, the query fails with GROUP_IN_USE and advice."""
    join(stub)
    text = failure(stream(spark, stub, consumerGroup=GROUP), tmp_path)
    assert "[GROUP_IN_USE]" in text and "commitOffsets=none" in text


def test_loss_ends_the_query_with_queue_and_offset(spark: SparkSession, stub: StubBroker, tmp_path: Path) -> None:
    """If messages expired before the query read them, it fails; with `failOnDataLoss=false` it goes on."""
    put(stub, "a")
    run_to_end(stream(spark, stub), Sink(), tmp_path)
    for _ in range(3):
        stub.put(TOPIC, b"x", queue_id=0)
    stub.expire(TOPIC, 0, 3)
    text = failure(stream(spark, stub), tmp_path)
    assert "[OFFSET_BEFORE_EARLIEST]" in text and "queue 0, offset 1)" in text and "failOnDataLoss=false" in text
    sink = Sink()
    run_to_end(stream(spark, stub, failOnDataLoss="false"), sink, tmp_path)
    assert sink.ids == [(TOPIC, "broker-a", 0, 3)]


def test_batch_options_are_refused_by_a_stream(spark: SparkSession, stub: StubBroker, tmp_path: Path) -> None:
    """If a stream gets an option of batch reads, the error names the trigger to use instead."""
    text = failure(stream(spark, stub, endingOffsets="latest"), tmp_path)
    assert "[OPTION_SCOPE] endingOffsets" in text and "availableNow" in text


# --- PySpark 4.1 -----------------------------------------------------------------------------------------------------


def test_readers_without_admission_control_keep_their_place(
    spark: SparkSession, stub: StubBroker, tmp_path: Path
) -> None:
    """With the reader for PySpark 4.1 batches are capped, restarts continue, and the next batch commits the last."""
    from pyspark.sql.types import StructType

    from pyspark_rocketmq.datasource import RocketMQDataSource

    class OldSource(RocketMQDataSource):
        @classmethod
        def name(cls) -> str:
            return "rocketmq-4.1"

        def streamReader(self, schema: StructType) -> Any:
            from pyspark_rocketmq.source.stream import PlainStreamReader

            return PlainStreamReader(self._options(schema, stream=True))

    spark.dataSource.register(OldSource)
    options = given(stub, startingOffsets="earliest", consumerGroup=GROUP, maxOffsetsPerTrigger="4")
    frame = spark.readStream.format("rocketmq-4.1").options(**options).load()
    sink = Sink()
    put(stub, *"abcdefgh")
    run_to_end(frame, sink, tmp_path)
    assert sink.bodies == list("abcd")
    put(stub, *"ijkl")
    with running(frame, sink, tmp_path, processingTime="100 milliseconds"):
        wait_for(lambda: sink.bodies == list("abcdefghijkl"), "the rest")
        wait_for(lambda: stub.offsets(GROUP) == dict.fromkeys(ends(stub), 2), "all but the last batch is committed")
    assert [len(rows) for rows in sink.batches.values()] == [4, 4, 4]


@pytest.mark.parametrize("count", [100_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_every_message_arrives_once(spark: SparkSession, tmp_path: Path, count: int) -> None:
    """A stream with capped batches reads each of many numbered messages once."""
    seen: dict[int, set[int]] = {}

    def write(frame: DataFrame, batch_id: int) -> None:
        numbers = frame.selectExpr("cast(substring(cast(body AS string), 1, 10) AS int) AS n").toArrow()
        seen[batch_id] = set(numbers.column("n").to_pylist())
        assert len(seen[batch_id]) == numbers.num_rows

    with StubBroker({TOPIC: 8}) as stub:
        stub.fill(TOPIC, count, 100)
        frame = stream(spark, stub, columns="queueId,body", maxOffsetsPerTrigger=str(count // 4), maxPartitions="4")
        writer = frame.writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path))
        for _ in range(1 if HAS_ADMISSION else 4):
            assert writer.trigger(availableNow=True).start().awaitTermination(300)
    assert [len(numbers) for numbers in seen.values()] == [count // 4] * 4
    assert set.union(*seen.values()) == set(range(count))
