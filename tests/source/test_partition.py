"""Check that a task reads exactly the range that was planned for it."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Iterator

import pyarrow as pa
import pytest

from broker_stub import PullLimits, Settings, StubBroker
from broker_stub.store import InnerMessage
from pyspark_rocketmq.errors import DecodeError, OffsetBeforeEarliest, OffsetWentBack
from pyspark_rocketmq.model import QueueRange
from pyspark_rocketmq.options import ReaderOptions
from pyspark_rocketmq.source.partition import RangePartition, read_partition
from pyspark_rocketmq.wire.codes import RequestCode, SysFlag
from tests.source.driving import TOPIC, Run, admin_of, options_for, queue_of, rows_of

MIB = 2**20


@pytest.fixture
def stub() -> Iterator[StubBroker]:
    """One broker with a topic of one queue."""
    with StubBroker({TOPIC: 1}) as broker:
        yield broker


def batches(options: ReaderOptions, end: int, start: int = 0) -> list[pa.RecordBatch]:
    """Read queue 0 from `start` to `end` as a task does, and return the record batches."""
    return list(read_partition(RangePartition((QueueRange(queue_of(0), start, end),)), options))


def offsets(options: ReaderOptions, end: int, start: int = 0) -> list[int]:
    """Read queue 0 from `start` to `end` as a task does, and return the offsets of the rows."""
    return [row.offset for batch in batches(options, end, start) for row in rows_of(batch)]


def test_a_range_read_twice_gives_the_same_rows(stub: StubBroker) -> None:
    """If a range is read twice, the rows are the same, though messages were added after the end meanwhile."""
    stub.fill(TOPIC, 100, 10)
    first = offsets(options_for(stub), 60, start=7)
    stub.fill(TOPIC, 100, 10)
    assert first == offsets(options_for(stub), 60, start=7) == list(range(7, 60))


def test_batches_have_at_most_the_rows_asked_for(stub: StubBroker) -> None:
    """With `arrowBatchSize=10` no record batch has more than ten rows, though a pull brings more."""
    stub.fill(TOPIC, 100, 10)
    sizes = [batch.num_rows for batch in batches(options_for(stub, arrowBatchSize="10"), 100)]
    assert sum(sizes) == 100 and max(sizes) == 10


def test_batches_are_closed_at_eight_mebibytes(stub: StubBroker) -> None:
    """A record batch is closed at eight mebibytes, and exceeds them by one pull at most."""
    stub.fill(TOPIC, 200, 100_000)
    sizes = [batch.nbytes for batch in batches(options_for(stub), 200)]
    assert len(sizes) > 1 and max(sizes) < 8.5 * MIB


def test_a_message_above_four_mebibytes_is_a_batch_of_one_row() -> None:
    """A message above four mebibytes is a record batch of its own, though one pull brings others with it."""
    limits = PullLimits(memory_bytes=64 * MIB)
    with StubBroker({TOPIC: 1}, settings=Settings(limits=limits)) as stub:
        for size in (1, 5 * MIB, 1, 1, 6 * MIB, 1):
            stub.put(TOPIC, b"." * size)
        options = options_for(stub)
        assert [batch.num_rows for batch in batches(options, 6)] == [1, 1, 2, 1, 1]
        assert offsets(options, 6) == list(range(6))


def test_a_frame_above_the_limit_names_the_option(stub: StubBroker) -> None:
    """If a response exceeds `maxFrameSize`, the error names that option."""
    stub.put(TOPIC, b"." * MIB)
    with pytest.raises(Exception, match=r"FRAME_TOO_LARGE.*maxFrameSize"):
        offsets(options_for(stub, maxFrameSize="64k"), 1)


def test_what_retention_took_meanwhile_is_loss(stub: StubBroker, caplog: pytest.LogCaptureFixture) -> None:
    """If messages expire after planning, the task fails; with `failOnDataLoss=false` it reads the others and warns."""
    stub.fill(TOPIC, 100, 10)
    stub.expire(TOPIC, 0, 40)
    with pytest.raises(OffsetBeforeEarliest, match=r"offset 0 is gone.*at 40.*queue 0.*failOnDataLoss=false"):
        offsets(options_for(stub), 100)
    assert offsets(options_for(stub, failOnDataLoss="false"), 100) == list(range(40, 100))
    assert "(40 offsets)" in caplog.text


def test_a_queue_that_ends_before_the_range_is_loss(stub: StubBroker) -> None:
    """If a queue ends before the planned end, the task fails; with `failOnDataLoss=false` it reads up to there."""
    stub.fill(TOPIC, 10, 10)
    with pytest.raises(OffsetWentBack, match="the queue ends at 10 now, before the planned end 20"):
        offsets(options_for(stub), 20)
    assert offsets(options_for(stub, failOnDataLoss="false"), 20) == list(range(10))


def test_an_admin_reset_of_the_group_moves_nothing(stub: StubBroker, caplog: pytest.LogCaptureFixture) -> None:
    """If an administrator resets the group, the task reads its range as planned, and warns."""
    stub.fill(TOPIC, 10, 10)
    admin_of(stub).admin.fetch_group_config("g", "broker-a")
    stub.faults.reset_offset("g", queue_of(0), 7)
    assert offsets(options_for(stub, consumerGroup="g"), 10) == list(range(10))
    assert "an admin reset the group to 7" in caplog.text


def put_unreadable(stub: StubBroker) -> None:
    """Put three messages; the second says that its body is compressed, which it is not."""
    stub.put(TOPIC, b"a")
    broken = InnerMessage(TOPIC, 0, b"no zlib", sys_flag=int(SysFlag.COMPRESSED))
    stub.run(lambda: stub.state.brokers[0].put(broken))
    stub.put(TOPIC, b"c")


def test_an_unreadable_body_follows_the_mode(stub: StubBroker, caplog: pytest.LogCaptureFixture) -> None:
    """An unreadable body fails the task, is null in mode PERMISSIVE, and is left out in mode DROPMALFORMED."""
    put_unreadable(stub)
    with pytest.raises(DecodeError, match=r"topic orders, broker broker-a, queue 0, offset 1.*mode"):
        offsets(options_for(stub), 3)
    [permissive] = batches(options_for(stub, mode="PERMISSIVE"), 3)
    assert permissive.column("body").to_pylist() == [b"a", None, b"c"]
    assert offsets(options_for(stub, mode="DROPMALFORMED"), 3) == [0, 2]
    assert "1 messages were left out" in caplog.text


def test_rows_bear_names_without_the_namespace(stub: StubBroker) -> None:
    """With `namespace=NS` rows and checkpoint name the topic without the prefix `NS%`, which brokers see."""
    stub.put(f"NS%{TOPIC}", b"a", queue_id=0)
    with Run(options_for(stub, namespace="NS", consumerGroup="g")) as run:
        [row] = run.drain()
        assert row.queue == queue_of(0)
        assert list(run.checkpoint.last["next"]) == [TOPIC]
    assert [queue.topic for queue in stub.offsets("NS%g")] == [f"NS%{TOPIC}"] * len(stub.offsets("NS%g"))
    assert stub.offsets("NS%g")


def test_what_travels_shows_no_secret(stub: StubBroker) -> None:
    """Pickled tasks, and the texts of tasks and reader, do not contain the secret key."""
    stub.put(TOPIC, b"a")
    with Run(options_for(stub, accessKey="ak", secretKey="hush-hush")) as run:
        run.plan()
        tasks, reader = run.partitions(), run.reader
        assert b"hush" not in pickle.dumps(tasks)
        assert "hush" not in f"{tasks} {reader.options!r} {reader.__dict__}"


def test_a_worker_keeps_its_connections_for_the_next_task(stub: StubBroker) -> None:
    """Five tasks in one process use the same connection, and do not request the route again."""
    stub.fill(TOPIC, 10, 10)
    options = options_for(stub)
    before = len(stub.connections())
    for _ in range(5):
        offsets(options, 10)
    gc.unfreeze()
    assert len(stub.connections()) == before + 1


def test_a_busy_broker_is_asked_again(stub: StubBroker) -> None:
    """If a broker asks for fewer requests for some pulls, the task repeats them and reads everything."""
    stub.fill(TOPIC, 100, 10)
    stub.faults.flow_control(on=RequestCode.PULL_MESSAGE, times=3)
    assert offsets(options_for(stub), 100) == list(range(100))
