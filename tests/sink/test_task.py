"""A task writes each of its rows, and reports success only after all of them are acknowledged."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from pyspark_rocketmq.errors import WriteError
from pyspark_rocketmq.send.outcome import Outcome
from pyspark_rocketmq.send.pipeline import SendPipeline
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from tests.sink.fixtures import BATCH, TOPIC, MakeTarget, Target, frame, rows

SENDS = RequestCode.SEND_BATCH_MESSAGE


def test_every_row_is_stored_and_counted(target: Target) -> None:
    """The rows of all record batches are stored once each, and the report has their number."""
    report = target.write([rows(300), rows(0), rows(200, 300)])
    assert target.bodies() == sorted(b"%d" % row for row in range(500))
    assert (report.rows, report.dead_letters, report.dropped) == (500, 0, 0)
    assert report.batch == BATCH and report.brokers == ("broker-a",)
    assert report.requests == 10 + 7 and report.byte_count > 500


def test_no_rows_are_written_without_a_word(target: Target) -> None:
    """A task without rows sends nothing, and reports none."""
    assert target.write([]).rows == target.write([rows(0)]).rows == 0
    assert target.bodies() == []


def test_all_columns_arrive(target: Target) -> None:
    """Tags, keys, properties, sharding key, flag and queue of a row are those of its message."""
    target.write(
        frame(
            body=["ü"],
            tags=["new"],
            keys=pa.array([["k1", "k2"]]),
            properties=pa.array([[("vip", "yes"), ("gone", None)]], pa.map_(pa.string(), pa.string())),
            shardingKey=["s"],
            flag=pa.array([-3], pa.int32()),
            queueId=pa.array([2], pa.int32()),
        )
    )
    [record] = target.records()
    assert (record.body.decode(), record.queue_id, record.flag) == ("ü", 2, -3)
    own = {name: record.properties.get(name) for name in ("TAGS", "KEYS", "vip", "gone", "__SHARDINGKEY")}
    assert own == {"TAGS": "new", "KEYS": "k1 k2", "vip": "yes", "gone": None, "__SHARDINGKEY": "s"}


def test_a_column_names_the_topics(make_target: MakeTarget) -> None:
    """Without the option, each row goes to the topic that its column names; the option outranks the column."""
    target = make_target(topics={TOPIC: 2, "refunds": 1})
    both = frame(topic=[TOPIC, "refunds", TOPIC])
    target.write(both, {"topic": ""})
    assert (target.bodies(), target.bodies("refunds")) == ([b"0", b"2"], [b"1"])
    target.write(both, {"topic": "refunds"})
    assert target.bodies("refunds") == [b"0", b"1", b"1", b"2"]


def test_large_record_batches_are_sent_in_pieces(target: Target) -> None:
    """A record batch of 12 MiB is written whole, although at most 4 MiB are encoded at once."""
    bodies = [bytes([65 + row % 26]) * 100_000 for row in range(120)]
    report = target.write(frame(body=bodies))
    assert report.rows == 120 and target.bodies() == sorted(bodies)


@pytest.mark.parametrize("fault", ["drop_reply", "cut_reply", "busy", "flow_control"])
def test_what_passes_is_waited_for(target: Target, fault: str) -> None:
    """Lost responses and busy brokers fail no task; a row that is sent again has the message id of its first copy."""
    getattr(target.stub.faults, fault)(on=SENDS, times=2)
    report = target.write(rows(200), {"sendMsgTimeout": "200"})
    assert report.rows == 200 and set(target.bodies()) == {b"%d" % row for row in range(200)}
    assert len({record.properties["UNIQ_KEY"] for record in target.records()}) == 200


def test_a_task_fails_unless_every_row_is_acknowledged(target: Target) -> None:
    """If sends fail for good, the task fails; the error has place, cause, and what became of the rows."""
    target.stub.faults.answer(ResponseCode.NO_PERMISSION, "not you", on=SENDS, times=3)
    with pytest.raises(WriteError) as caught:
        target.write(rows(320), {"retryTimesWhenSendFailed": "0"}, partition=3)
    error = caught.value
    assert str(error).startswith("[SINK_WRITE] partition 3: 32 rows from row ") and "not you" in str(error)
    assert f"topic {TOPIC}" in str(error) and "broker broker-a" in str(error) and "permissions of user" in str(error)
    assert error.landed == len(target.bodies()) and (error.failed, error.unknown) == (320 - error.landed, 0)


def test_rows_without_an_answer_are_unknown(target: Target) -> None:
    """If responses stay away until the deadline, the task fails, and its rows count as unknown: they may be stored."""
    target.stub.faults.drop_reply(on=SENDS, times=None)
    with pytest.raises(WriteError, match="32 may have") as caught:
        target.write(rows(32), {"sendMsgTimeout": "100", "sendTimeoutMs": "1000", "retryTimesWhenSendFailed": "1"})
    assert (caught.value.landed, caught.value.failed, caught.value.unknown) == (0, 0, 32)


def test_a_broker_that_goes_away_is_survived(make_target: MakeTarget) -> None:
    """If one of two brokers stops within a batch, all rows land at the other one."""
    target = make_target(2)

    def batches() -> Iterator[pa.RecordBatch]:
        yield rows(500)
        target.stub.faults.broker_down("broker-b")
        yield rows(500, 500)

    assert target.write(batches()).rows == 1000
    assert set(target.bodies()) >= {b"%d" % row for row in range(500, 1000)}


def test_an_error_of_spark_ends_the_task(target: Target) -> None:
    """If Spark's rows end with an error, the task raises it and writes no more."""

    def broken() -> Iterator[pa.RecordBatch]:
        yield rows(10)
        raise OSError("upstream")

    with pytest.raises(OSError, match="upstream"):
        target.write(broken())


def test_a_rate_limit_holds(target: Target) -> None:
    """With `maxRowsPerSecond` a task takes as long as its rows need, and reports the time that it waited."""
    report = target.write(rows(300), {"maxRowsPerSecond": "1000"})
    assert report.seconds["limited"] > 0.1


def test_a_row_without_an_outcome_is_no_success(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """If an outcome went missing by a mistake of the pipeline, the task would fail: rows are counted, not trusted."""

    class Forgetful(SendPipeline):
        def take_outcomes(self) -> list[Outcome]:
            return super().take_outcomes()[1:]

    monkeypatch.setattr("pyspark_rocketmq.sink.task.SendPipeline", Forgetful)
    with pytest.raises(WriteError, match="32 rows are unaccounted for"):
        target.write(rows(32))
