"""Test which messages a batch read returns."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from broker_stub import StubBroker, StubCluster
from pyspark_rocketmq.errors import OffsetBeforeEarliest, OptionError, TopicNotFound
from tests.source.driving import TOPIC, batch_options_for, queue_of, read_batch


@pytest.fixture
def stub() -> Iterator[StubBroker]:
    """One broker with a topic of two queues, five messages in each, stored at 1000, 2000 … 10000 ms."""
    with StubBroker({TOPIC: 2}) as broker:
        for number in range(10):
            broker.put(TOPIC, b"%d" % number, queue_id=number % 2, store_timestamp=1000 * (number + 1))
        yield broker


def read(stub: StubBroker, **given: str) -> list[int]:
    """Run a batch read, and return the numbers in the bodies, sorted."""
    return sorted(int(row.body) for row in read_batch(batch_options_for(stub, **given)))


def test_all_there_is_comes_by_default(stub: StubBroker) -> None:
    """By default a batch read returns all messages, from the earliest offset to the latest."""
    assert read(stub) == list(range(10))


def test_both_ends_may_be_given(stub: StubBroker) -> None:
    """If start and end offsets are given, the end is exclusive, and a queue without an end is read completely."""
    start = '{"orders": {"broker-a": {"0": 1, "*": -2}}}'
    end = '{"orders": {"broker-a": {"0": 3}}}'
    assert read(stub, startingOffsets=start, endingOffsets=end) == [1, 2, 3, 4, 5, 7, 9]


def test_both_ends_may_be_times(stub: StubBroker) -> None:
    """With a start and an end time, messages stored from the start (inclusive) to the end (exclusive) are read."""
    assert read(stub, startingTimestamp="3000", endingTimestamp="6000") == [2, 3, 4]


def test_an_end_below_its_start_is_refused(stub: StubBroker) -> None:
    """If a queue's end offset is below its start, the read fails with an error that names the queue."""
    given = {"startingOffsets": '{"orders": {"*": {"*": 4}}}', "endingOffsets": '{"orders": {"*": {"*": 2}}}'}
    with pytest.raises(OptionError, match="endingOffsets: the end 2 of orders/broker-a/0 lies below its start 4"):
        read(stub, **given)


def test_what_retention_took_is_loss_only_if_it_was_asked_for(stub: StubBroker) -> None:
    """If messages have expired, `earliest` reads the others without a loss; a given start that is gone is a loss."""
    stub.expire(TOPIC, 0, 3)
    assert read(stub) == [1, 3, 5, 6, 7, 8, 9]
    start = '{"orders": {"*": {"*": 0}}}'
    with pytest.raises(OffsetBeforeEarliest, match="offset 0 is gone, the queue starts at 3"):
        read(stub, startingOffsets=start)
    assert read(stub, startingOffsets=start, failOnDataLoss="false") == [1, 3, 5, 6, 7, 8, 9]


def test_a_replica_that_ends_a_batch_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """If only a lagging replica is up, the batch ends at the replica's end, with a warning, unless an end is given."""
    with StubCluster(1, slaves=1, topics={TOPIC: 1}) as stub, caplog.at_level(logging.WARNING):
        for number in range(10):
            stub.put(TOPIC, b"%d" % number, queue_id=0)
        assert len(read_batch(batch_options_for(stub))) == 10 and not caplog.text
        stub.faults.slave_lag(4)
        stub.faults.broker_down(broker_id=0)
        assert len(read_batch(batch_options_for(stub))) == 6
        assert "1 queues end where their replicas end" in caplog.text and str(queue_of(0)) in caplog.text
        caplog.clear()
        end = '{"orders": {"*": {"*": 3}}}'
        assert len(read_batch(batch_options_for(stub, endingOffsets=end))) == 3 and not caplog.text


def test_a_pattern_may_not_match_nothing(stub: StubBroker) -> None:
    """If no topic matches the pattern, or a named topic does not exist, the read fails."""
    with pytest.raises(OptionError, match=r"subscribePattern = 'x.': no topic matches"):
        read(stub, subscribePattern="x.")
    with pytest.raises(TopicNotFound, match="topic nowhere"):
        read(stub, subscribe="nowhere")


def test_wrong_offsets_name_what_is_unknown(stub: StubBroker) -> None:
    """If `startingOffsets` names an unknown topic, broker or queue, the error names it."""
    for tree, said in (
        ('{"bills": {"*": {"*": 1}}}', "topic bills is not read"),
        ('{"orders": {"broker-x": {"*": 1}, "broker-a": {"*": 1}}}', "no queue on broker broker-x"),
        ('{"orders": {"broker-a": {"7": 1, "*": 1}}}', "there is no queue 7"),
    ):
        with pytest.raises(OptionError, match=f"startingOffsets.*{said}"):
            read(stub, startingOffsets=tree)


def test_tags_choose_at_the_broker_and_by_text(stub: StubBroker) -> None:
    """If two tags have the same hash code, the tag filter still tells them apart."""
    for body, tag in ((b"20", "Aa"), (b"21", "BB"), (b"22", "C")):
        stub.put(TOPIC, body, tags=tag, queue_id=0)
    assert read(stub, tags="Aa || C") == [20, 22]


def test_tasks_are_cut_as_wanted(stub: StubBroker) -> None:
    """If a batch is cut into more tasks than it has queues, its rows are the same."""
    options = batch_options_for(stub, minPartitions="4", maxPartitions="4")
    assert len({row.offset for row in read_batch(options) if row.queue == queue_of(0)}) == 5
    assert len(read_batch(options)) == 10
