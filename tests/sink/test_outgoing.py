"""Rows count once, as what became of them, also those of refused batches and beside errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from traceback import walk_stack

import pyarrow as pa
import pytest

from pyspark_rocketmq.cluster.cluster import worker_cluster
from pyspark_rocketmq.encode.ids import BatchIdentity
from pyspark_rocketmq.encode.requests import Encoder
from pyspark_rocketmq.encode.settings import EncodeSettings
from pyspark_rocketmq.errors import RocketMQError, WriteError
from pyspark_rocketmq.model import SendRequest
from pyspark_rocketmq.send.pipeline import SendPipeline
from pyspark_rocketmq.sink.outgoing import Outgoing, SetAside, Unsendable
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from tests.send.fixtures import single
from tests.sink.fixtures import TOPIC, Target, frame, rows

BATCHES, SINGLES = RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_MESSAGE_V2
DROP = {"onBadRow": "drop"}
DEAD = {"onBadRow": "deadLetter", "deadLetterTopic": "dead"}
OpenOutgoing = Callable[[SetAside], tuple[Outgoing, SendPipeline]]


@pytest.fixture
def open_outgoing(target: Target) -> Iterator[OpenOutgoing]:
    """Return a function that makes an outgoing and its pipeline; it takes what is done with refused rows."""
    opened: list[Outgoing] = []

    def make(set_aside: SetAside) -> tuple[Outgoing, SendPipeline]:
        options = target.plan().options
        cluster = worker_cluster(options.cluster)
        pipeline = SendPipeline(cluster, options.send, cluster.writable.queues)
        opened.append(Outgoing(pipeline, set_aside))
        return opened[-1], pipeline

    yield make
    for outgoing in opened:
        outgoing.close()


def fail(request: SendRequest, error: RocketMQError) -> None:
    """Raise as an earlier dead letter does that has failed."""
    raise Unsendable("a dead letter failed", advice="", where={}, is_bad_row=False)


def test_rows_that_landed_count_although_a_dead_letter_fails(target: Target, open_outgoing: OpenOutgoing) -> None:
    """If setting a row aside raises, the rows that ended with it still count."""
    outgoing, pipeline = open_outgoing(fail)
    target.stub.faults.answer(ResponseCode.MESSAGE_ILLEGAL, on=SINGLES)
    for number in range(15):
        pipeline.submit(single(number))
    with pytest.raises(Unsendable):
        outgoing.finish()
    outgoing.stop()
    assert (outgoing.landed, outgoing.unknown) == (len(target.records()), 0) == (14, 0)


def test_a_row_that_cannot_be_set_aside_may_be_stored(target: Target, open_outgoing: OpenOutgoing) -> None:
    """A refused row with a lost response before it counts as unknown if setting it aside raises."""
    outgoing, pipeline = open_outgoing(fail)
    target.stub.faults.cut_reply(on=SINGLES)
    target.stub.faults.answer(ResponseCode.MESSAGE_ILLEGAL, on=SINGLES)
    pipeline.submit(single(0))
    with pytest.raises(Unsendable):
        outgoing.finish()
    outgoing.stop()
    assert (outgoing.landed, outgoing.unknown) == (0, 1)


def test_rows_whose_dead_letters_fail_have_failed(target: Target) -> None:
    """A row is set aside when its dead letter has landed; the numbers of the error add up to all rows."""
    target.stub.faults.answer(ResponseCode.NO_PERMISSION, on=BATCHES, times=None)
    with pytest.raises(WriteError) as caught:
        target.write(frame(body=pa.array([None] * 3, pa.binary())), DEAD)
    error = caught.value
    assert (error.landed, error.failed, error.unknown) == (0, 3, 0)


def test_dead_letters_that_landed_before_an_error_count(target: Target) -> None:
    """Rows whose dead letters have landed are no failed rows, if another row fails the task."""
    target.stub.faults.answer(ResponseCode.NO_PERMISSION, on=SINGLES, times=None)
    batch = frame(
        body=pa.array([None] * 3 + [b"x"], pa.binary()), delayTimeLevel=pa.array([None] * 3 + [1], pa.int32())
    )
    with pytest.raises(WriteError) as caught:
        target.write(batch, DEAD)
    error = caught.value
    assert (error.landed, error.failed, error.unknown, error.dead_letters, error.dropped) == (0, 1, 0, 3, 0)
    assert len(target.records("dead")) == 3
    assert "0 rows of the task landed, 1 did not, 0 may have, 3 became dead letters" in str(error)


def test_rows_that_were_dropped_before_an_error_count(target: Target) -> None:
    """The numbers of an error add up to all rows: it tells of dropped ones, too."""
    target.stub.faults.answer(ResponseCode.NO_PERMISSION, on=BATCHES, times=None)
    with pytest.raises(WriteError, match=r"0 rows of the task landed, 2 did not, 0 may have, 1 were dropped") as caught:
        target.write(frame(body=[b"", b"x", b"y"]), DROP)
    assert (caught.value.failed, caught.value.dropped) == (2, 1)


def test_a_row_whose_dead_letter_lands_beside_an_error_counts_once(target: Target) -> None:
    """A refused row that may be stored, and whose dead letter lands, is a dead letter only, if another one fails."""
    target.stub.faults.busy(on=BATCHES)  # So a dead letter fails only after the row is refused and has its own.
    target.stub.faults.answer(ResponseCode.NO_PERMISSION, on=BATCHES)
    target.stub.faults.cut_reply(on=SINGLES)
    target.stub.faults.answer(ResponseCode.MESSAGE_ILLEGAL, on=SINGLES)
    with pytest.raises(WriteError, match=r"dead letter [01] could not be sent") as caught:
        target.write(frame(body=[None, b"x"]), {**DEAD, "sendBatchSize": "1"})
    error = caught.value
    assert (error.landed, error.failed, error.unknown, error.dead_letters) == (0, 1, 0, 1)
    assert len(target.records("dead")) == 1


def test_rows_of_a_batch_that_is_taken_apart_count_once(target: Target) -> None:
    """No answer, then a refusal of the batch: its rows count as what becomes of them when they are sent alone.

    A row that fails then may be stored by the first attempt.
    """
    faults = target.stub.faults
    faults.drop_reply(on=BATCHES)
    faults.answer(ResponseCode.MESSAGE_ILLEGAL, on=BATCHES)
    faults.answer(ResponseCode.INVALID_PARAMETER, on=SINGLES, times=None)
    with pytest.raises(WriteError) as caught:
        target.write(rows(10), {"sendMsgTimeout": "300", **DROP})
    assert (caught.value.landed, caught.value.failed, caught.value.unknown) == (0, 0, 10)


def test_rows_of_such_a_batch_that_are_set_aside_are_not_unknown(target: Target, open_outgoing: OpenOutgoing) -> None:
    """Rows that are set aside, or land, after their batch was refused, are not unknown, although it may be stored."""
    aside: list[int] = []
    outgoing, pipeline = open_outgoing(lambda request, error: aside.extend(request.rows))
    target.stub.faults.cut_reply(on=BATCHES)
    target.stub.faults.answer(ResponseCode.MESSAGE_ILLEGAL, on=BATCHES)
    target.stub.faults.answer(ResponseCode.MESSAGE_ILLEGAL, on=SINGLES)
    encoder = Encoder(EncodeSettings(topic=TOPIC), BatchIdentity("q", "", 0), 0, lambda topic: target.plan().queues)
    outgoing.send(encoder.encode(rows(10)).requests)
    outgoing.finish()
    outgoing.stop()
    assert (len(aside), outgoing.landed, outgoing.unknown) == (1, 9, 0) and pipeline.count == 0


def test_many_refused_batches_are_treated_without_nesting(target: Target, open_outgoing: OpenOutgoing) -> None:
    """Refused batches are taken apart one after the other, not each within the treatment of the one before."""
    depths: list[int] = []
    outgoing, _ = open_outgoing(lambda request, error: depths.append(len(list(walk_stack(None)))))
    for code in (BATCHES, SINGLES):
        target.stub.faults.answer(ResponseCode.MESSAGE_ILLEGAL, on=code, times=None)
    settings = EncodeSettings(topic=TOPIC, batch_rows=2)
    encoder = Encoder(settings, BatchIdentity("q", "", 0), 0, lambda topic: target.plan().queues)
    outgoing.send(encoder.encode(rows(6000)).requests)
    outgoing.finish()
    assert len(depths) == 6000 and max(depths) - min(depths) < 5
