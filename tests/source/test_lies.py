"""Check that tasks notice pull responses whose records are not the messages that were asked for."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import pytest

from broker_stub import PullLimits, Settings, StubBroker, StubCluster
from broker_stub.queue_scan import GetResult, GetStatus
from broker_stub.store import InnerMessage
from pyspark_rocketmq.errors import AnswerMismatch, MessagesMissing
from pyspark_rocketmq.model import QueueRange
from pyspark_rocketmq.options import ReaderOptions
from pyspark_rocketmq.source.partition import RangePartition, read_partition
from pyspark_rocketmq.wire.codes import SysFlag
from pyspark_rocketmq.wire.record import Record, decode_records, encode_record
from tests.source.driving import TOPIC, options_for, queue_of, rows_of

Records = Sequence[Record]
Change = Callable[[Records], Records]
MIB = 2**20


@pytest.fixture
def stub() -> Iterator[StubBroker]:
    """One broker with a topic of one queue that holds 100 messages; the body of each is its offset."""
    with StubBroker({TOPIC: 1}) as broker:
        fill(broker)
        yield broker


def fill(stub: StubCluster) -> None:
    """Put 100 messages, whose bodies are their offsets, with the tags "even" and "odd" in turn."""
    for number in range(100):
        stub.put(TOPIC, b"%d" % number, tags="even" if number % 2 == 0 else "odd", queue_id=0)


def offsets(options: ReaderOptions, start: int = 0, end: int = 100, *, is_front_open: bool = False) -> list[int]:
    """Read a range of queue 0 as a task does, check that each row's body is its offset, and return the offsets."""
    task = RangePartition((QueueRange(queue_of(0), start, end, is_front_open),))
    rows = [row for batch in read_partition(task, options) for row in rows_of(batch)]
    assert [row.body for row in rows] == [b"%d" % row.offset for row in rows]
    return [row.offset for row in rows]


def lie(
    stub: StubCluster, change: Change, *, times: int = 2**31, broker: int = 0, status: GetStatus | None = None
) -> list[GetResult]:
    """Replace the records that the broker finds for `times` pulls by `change(records)`, but not the response header.

    Return a list to which the true result of each changed pull is appended.
    """
    store = stub.state.brokers[broker].store
    honest, told = partial(type(store).get_message, store), list[GetResult]()

    def get_message(*asked: Any) -> GetResult:
        got = honest(*asked)
        records = decode_records(b"".join(got.records))
        if len(records) < 4 or len(told) == times:
            return got
        told.append(got)
        found = tuple(memoryview(encode_record(record)) for record in change(records))
        return got._replace(records=found, status=status or got.status)

    stub.run(lambda: setattr(store, "get_message", get_message))
    return told


def put(stub: StubCluster, body: bytes, sys_flag: int = 0) -> None:
    """Put a message into queue 0; with BORN_HOST_V6 as `sys_flag`, later records show an offset one too large."""
    message = InnerMessage(TOPIC, 0, body, sys_flag=sys_flag)
    stub.run(lambda: stub.state.brokers[0].put(message))


def first_ten(records: Records) -> Records:
    """Return the first ten of the records."""
    return records[:10]


def none(records: Records) -> Records:
    """Return no record."""
    return ()


def without_23(records: Records) -> Records:
    """Return all records but the one of offset 23."""
    return [record for record in records if record.queue_offset != 23]


def repeated(records: Records) -> Records:
    """Replace the fourth record by the third."""
    return [*records[:3], records[2], *records[4:]]


def a_later_one(records: Records) -> Records:
    """Replace the fourth record by the last one."""
    return [*records[:3], records[-1], *records[4:]]


def repeated_number(records: Records) -> Records:
    """Give the fourth record the offset of the third."""
    return [*records[:3], replace(records[3], queue_offset=records[2].queue_offset), *records[4:]]


def backwards(records: Records) -> Records:
    """Return the records in reverse order."""
    return records[::-1]


def of_another_queue(records: Records) -> Records:
    """Give the last record the id of another queue."""
    return [*records[:-1], replace(records[-1], queue_id=7)]


def of_another_topic(records: Records) -> Records:
    """Give all records another topic, with a name of the same length."""
    return [replace(record, topic="ordert") for record in records]


def odd_one_of_another_topic(records: Records) -> Records:
    """Give the last record another topic and a sysFlag for which it is decoded by itself."""
    return [*records[:-1], replace(records[-1], topic="ordert", sys_flag=int(SysFlag.NEED_UNWRAP))]


def one_too_many(records: Records) -> Records:
    """Append a record whose offset lies beyond the response's last offset."""
    return [*records, replace(records[-1], queue_offset=records[-1].queue_offset + 1)]


@pytest.mark.parametrize(
    ("change", "status"),
    [
        (first_ten, GetStatus.FOUND),
        (without_23, GetStatus.FOUND),
        (none, GetStatus.FOUND),
        (none, GetStatus.NO_MATCHED_MESSAGE),
    ],
)
def test_missing_messages_are_a_loss(
    stub: StubBroker, change: Change, status: GetStatus, caplog: pytest.LogCaptureFixture
) -> None:
    """Missing messages fail the task, or with `failOnDataLoss=false` are skipped with a warning."""
    kept = change(stub.messages(TOPIC, 0)[:32])
    lie(stub, change, status=status)

    with pytest.raises(MessagesMissing, match=r"topic orders, broker broker-a, queue 0, offset \d+.*failOnDataLoss"):
        offsets(options_for(stub))
    found = offsets(options_for(stub, failOnDataLoss="false"))

    assert [offset for offset in found if offset < 32] == [record.queue_offset for record in kept]
    assert "are gone" in caplog.text


def test_many_short_answers_are_told_in_few_warnings(stub: StubBroker, caplog: pytest.LogCaptureFixture) -> None:
    """If many messages are missing, a few warnings name the ranges of all, and the last has the total count."""
    for number in range(100, 3200):
        put(stub, b"%d" % number)
    lie(stub, lambda records: records[::2])
    found = set(offsets(options_for(stub, failOnDataLoss="false"), end=3200))

    texts = [record.getMessage() for record in caplog.records]
    told = [range(*map(int, pair)) for text in texts for pair in re.findall(r"within \[(\d+), (\d+)\) are gone", text)]
    missing = set(range(3200)) - found
    assert len(missing) > 1000 and all(any(offset in each for each in told) for offset in missing)
    assert len(texts) < 12 and f"{len(missing)} messages" in texts[-1]


@pytest.mark.parametrize("change", [first_ten, none, without_23])
def test_a_short_answer_is_asked_for_again(stub: StubBroker, change: Change) -> None:
    """If one response lacks messages, the pull is repeated, and messages of the second response are no loss."""
    lie(stub, change, times=1)
    assert offsets(options_for(stub)) == list(range(100))


def test_a_replica_that_is_short_is_no_loss() -> None:
    """If a replica's responses lack messages, they are read from the master, without a loss."""
    with StubCluster(1, 1, topics={TOPIC: 1}, settings=Settings(limits=PullLimits(warm_bytes=0))) as stub:
        fill(stub)
        told = lie(stub, none, broker=1)
        assert offsets(options_for(stub, pullPipelineDepth="1")) == list(range(100)) and told


@pytest.mark.parametrize("odd_one", [None, 11])
def test_a_filtered_range_is_read_from_a_replica(odd_one: int | None) -> None:
    """While the master is away, a replica serves all messages of a filtered range, and no later ones become rows."""
    with StubCluster(1, 1, topics={TOPIC: 1}) as stub:
        for number in range(100):
            if number == odd_one:
                put(stub, b"odd", SysFlag.BORN_HOST_V6)  # Later records show an offset that is one too large.
            stub.put(TOPIC, b"%d" % number, tags="even" if number % 2 == 0 else "odd", queue_id=0)
        stub.faults.broker_down(broker_id=0)
        assert offsets(options_for(stub, tags="even"), end=51) == list(range(0, 51, 2))


COUNTED: tuple[dict[str, str], ...] = ({}, {"ordering": "queue"}, {"failOnDataLoss": "false"})
"""Options without a filter: each offset must have a message. A filtered response may hold any number of messages."""
LIES = (
    repeated,
    a_later_one,
    repeated_number,
    backwards,
    of_another_queue,
    of_another_topic,
    odd_one_of_another_topic,
)


@pytest.mark.parametrize(
    ("change", "given"),
    [*product(LIES, (*COUNTED, {"tags": "even"})), *product([one_too_many], COUNTED)],
)
def test_other_messages_than_asked_for_are_refused(stub: StubBroker, change: Change, given: dict[str, str]) -> None:
    """Records of other queues or topics, doubled, or out of order fail the task, with and without a filter."""
    lie(stub, change)
    with pytest.raises(AnswerMismatch, match=r"ANSWER_MISMATCH.*pull from \d+ holds.*topic orders, broker broker-a"):
        offsets(options_for(stub, **given))


def test_what_is_gone_at_an_open_front_is_no_loss(stub: StubBroker, caplog: pytest.LogCaptureFixture) -> None:
    """If a range has an open front, messages missing at its start are no loss; messages missing later are."""
    caplog.set_level(logging.INFO)
    lie(stub, lambda records: [record for record in records if record.queue_offset >= 40])
    assert offsets(options_for(stub), is_front_open=True) == list(range(40, 100))
    assert "from 0 to 32 are gone at the front" in caplog.text
    with pytest.raises(MessagesMissing):
        offsets(options_for(stub))
    lie(stub, without_23)
    with pytest.raises(MessagesMissing):
        offsets(options_for(stub), start=20, is_front_open=True)


def test_large_messages_of_a_shifted_queue_keep_their_positions() -> None:
    """After a record that shifts offsets by one, large messages keep their offsets, and a missing one is a loss."""
    limits = PullLimits(memory_bytes=64 * MIB)
    with StubBroker({TOPIC: 1}, settings=Settings(limits=limits)) as stub:
        for number, size in enumerate((1, 1, 5 * MIB, 1, 6 * MIB, 1)):
            put(stub, b"." * size, SysFlag.BORN_HOST_V6 if number == 1 else 0)
        task = RangePartition((QueueRange(queue_of(0), 0, 5),))
        rows = [row for batch in read_partition(task, options_for(stub)) for row in rows_of(batch)]
        assert [(row.offset, len(row.body)) for row in rows] == list(enumerate((1, 5 * MIB, 1, 6 * MIB, 1)))
        lie(stub, lambda records: [record for record in records if record.queue_offset != 3])
        with pytest.raises(MessagesMissing):
            list(read_partition(task, options_for(stub)))
