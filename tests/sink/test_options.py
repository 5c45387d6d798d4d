"""Options change what brokers get."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest

from pyspark_rocketmq.broker_errors import NoPermission, SlaveNotAvailable
from pyspark_rocketmq.cluster.messages import Receipt
from pyspark_rocketmq.errors import BadRow, RocketMQError
from pyspark_rocketmq.model import MessageQueue, SendRequest
from pyspark_rocketmq.send.outcome import Outcome, SendStatistics
from pyspark_rocketmq.sink.outgoing import Outgoing, Unsendable
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode, SysFlag
from pyspark_rocketmq.wire.compression import Compression, compression_of, decompress
from tests.sink.fixtures import Target, frame, rows

LARGE = b"abcd" * 2000


@pytest.mark.parametrize("name", ["ZLIB", "LZ4", "ZSTD"])
def test_large_bodies_are_compressed(target: Target, name: str) -> None:
    """A large body of a single message is stored compressed in the chosen format, and read back as it was."""
    report = target.write(frame(body=[LARGE]), {"compressType": name, "sendBatchSize": "1"})
    [record] = target.records()
    packing = compression_of(record.sys_flag)
    assert packing is Compression[name] and decompress(record.body, packing) == LARGE
    assert report.byte_count < len(LARGE) / 10


def test_small_bodies_and_batches_are_not_compressed(target: Target) -> None:
    """Bodies below the limit, and all that are in batch messages, are stored as they are."""
    target.write(frame(body=[LARGE]), {"sendBatchSize": "1", "compressMsgBodyOverHowmuch": "8001"})
    target.write(frame(body=[LARGE, LARGE]))
    assert [record.sys_flag & SysFlag.COMPRESSED for record in target.records()] == [0, 0, 0]


@pytest.mark.parametrize(("size", "sends"), [("1", 100), ("10", 10), ("1024", 1)])
def test_the_size_of_batches(target: Target, size: str, sends: int) -> None:
    """`sendBatchSize` is the number of rows in a send."""
    assert target.write(rows(100), {"sendBatchSize": size}).requests == sends


@pytest.mark.parametrize(
    "delayed",
    [
        frame(delayTimeLevel=pa.array([3], pa.int32())),
        frame(deliverTimeMs=pa.array([int(time.time() * 1000) + 3_600_000], pa.int64())),
    ],
)
def test_delayed_rows_are_sent_alone(target: Target, delayed: pa.RecordBatch) -> None:
    """A delayed row is a single send, as brokers refuse delays in batches, and is not delivered yet."""
    report = target.write([delayed, rows(32)])
    assert report.requests == 2 and len(target.bodies()) == 32


def test_a_time_that_is_too_far_is_a_bad_row(target: Target) -> None:
    """A row whose time the broker refuses follows `onBadRow`."""
    far = frame(deliverTimeMs=pa.array([None, 2_000_000_000_000], pa.int64()))
    with pytest.raises(BadRow, match=r"row 1 .*bigger than the max delay"):
        target.write(far)
    assert target.write(far, {"onBadRow": "drop"}).dropped == 1


def test_a_row_that_takes_too_long_fails(target: Target) -> None:
    """`sendTimeoutMs` bounds the time for a row while a broker asks to slow down."""
    target.stub.faults.flow_control(on=RequestCode.SEND_BATCH_MESSAGE, times=None)
    with pytest.raises(RocketMQError, match="not stored within 1 s"):
        target.write(rows(5), {"sendTimeoutMs": "1000"})


def test_retries_are_counted(target: Target) -> None:
    """`retryTimesWhenSendFailed` is the number of further attempts."""
    target.stub.faults.answer(ResponseCode.SYSTEM_ERROR, on=RequestCode.SEND_BATCH_MESSAGE, times=2)
    with pytest.raises(RocketMQError, match="2 attempts"):
        target.write(rows(5), {"retryTimesWhenSendFailed": "1"})
    target.stub.faults.answer(ResponseCode.SYSTEM_ERROR, on=RequestCode.SEND_BATCH_MESSAGE)
    assert target.write(rows(5), {"retryTimesWhenSendFailed": "1"}).retries == 1


# --- statuses ---------------------------------------------------------------------------------------------------------


class ScriptedPipeline:
    """A pipeline whose requests all end with the same receipt and error."""

    def __init__(self, receipt: Receipt | None, error: RocketMQError | None, *, is_unknown: bool = False) -> None:
        self._end = receipt, error, is_unknown
        self._outcomes: list[Outcome] = []
        self.statistics = SendStatistics()

    def submit(self, request: SendRequest) -> None:
        """Note the request's outcome."""
        self._outcomes.append(Outcome(request, *self._end))

    def take_outcomes(self) -> list[Outcome]:
        """Return the outcomes that were not taken yet."""
        outcomes, self._outcomes = self._outcomes, []
        return outcomes

    def flush(self) -> None:
        """Do nothing: every request has ended."""

    def pass_over(self, is_passed_over: object) -> None:
        """Do nothing: no order is kept."""


RECEIPT = Receipt(ResponseCode.SLAVE_NOT_AVAILABLE, "id", MessageQueue("orders", "broker-a", 0), 0)


@pytest.mark.parametrize(
    ("receipt", "error", "is_unknown", "counts"),
    [
        (RECEIPT, None, False, (2, 0)),
        (RECEIPT, SlaveNotAvailable("no slave"), False, (0, 2)),
        (None, NoPermission("no"), True, (0, 2)),
        (None, NoPermission("no"), False, (0, 0)),
    ],
)
def test_only_accepted_acknowledgements_count(
    receipt: Receipt | None, error: RocketMQError | None, is_unknown: bool, counts: tuple[int, int]
) -> None:
    """A row whose status is not accepted fails the task, and may be stored: the master has it."""
    pipeline = ScriptedPipeline(receipt, error, is_unknown=is_unknown)
    outgoing = Outgoing(pipeline, None)  # type: ignore[arg-type]
    request = SendRequest("orders", None, b"", "", [4, 5], is_batch=True)
    if error is None:
        outgoing.send([request])
    else:
        with pytest.raises(Unsendable, match="2 rows from row 4 to 5 could not be sent"):
            outgoing.send([request])
    assert (outgoing.landed, outgoing.unknown) == counts
