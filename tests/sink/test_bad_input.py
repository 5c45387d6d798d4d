"""Input that cannot be written has a named error with place, advice and counts, or goes the way that `onBadRow` says.

`test_bad_rows` has the rows that each way was made for, `test_queues` topics and servers that are away, `test_outgoing`
the counts of batches that are taken apart, and `test_schema` the columns. Here is what these leave out.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from pyspark_rocketmq.errors import BadRow, ColumnError, WriteError, shown
from pyspark_rocketmq.wire.bodies import TopicConfig
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from tests.sink.fixtures import TOPIC, MakeTarget, Target, frame, rows, schema_of
from tests.sink.test_bad_rows import DEAD, DROP, SINGLE, no_utf8
from tests.sink.test_queues import create
from tests.sink.test_writers import source

SENDS = RequestCode.SEND_BATCH_MESSAGE
WAYS: tuple[dict[str, str], ...] = ({}, DROP, DEAD)
PAIRS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
Counts = tuple[int, int, int]


class Bad(NamedTuple):
    """Columns of two rows, of which the second cannot be sent; the column at fault, and a part of the reason."""

    column: str
    reason: str
    columns: dict[str, Any]

    @property
    def frame(self) -> pa.RecordBatch:
        """The record batch of both rows."""
        return frame(**self.columns)


def numbers(*values: int | None, kind: Any = None) -> pa.Array:
    """Return a column of numbers; by default of 32 bits."""
    return pa.array(values, kind or pa.int32())


def with_property(name: str | None, value: bytes) -> dict[str, Any]:
    """Return the columns of two rows, of which the second has this property; Spark's texts may hold any bytes."""
    return {"properties": pa.array([[], [{"key": name, "value": value}]], PAIRS)}


def counts(error: WriteError) -> Counts:
    """Return how many rows landed, did not, and may have."""
    return error.landed, error.failed, error.unknown


CONTROL, BLANK, LONG = "control character 1 or 2", "null or blank", "longer than 32767 bytes"
TIMES = {"deliverTimeMs": numbers(None, 1, kind=pa.int64())}
AT_BROKER_A = {"brokerName": ["broker-a"] * 2}
ROWS = {
    "tags with a control character": Bad("tags", CONTROL, {"tags": ["a", "a\x01b"]}),
    "tags that are no UTF-8": Bad("tags", "no UTF-8", {"tags": no_utf8(b"a", b"\xff")}),
    "keys with a control character": Bad("keys", CONTROL, {"keys": pa.array([["a"], ["b", "\x02"]])}),
    "a sharding key with a control character": Bad("shardingKey", CONTROL, {"shardingKey": ["a", "\x01"]}),
    "a property without a name": Bad("properties", BLANK, with_property(None, b"v")),
    "a property with a blank name": Bad("properties", BLANK, with_property("\u3000 ", b"v")),
    "a property with an empty value": Bad("properties", "value of a property is blank", with_property("n", b"")),
    "a property with a blank value": Bad("properties", "value of a property is blank", with_property("n", b" \t")),
    "a name with a control character": Bad("properties", CONTROL, with_property("n\x01", b"v")),
    "a value with a control character": Bad("properties", CONTROL, with_property("n", b"a\x02")),
    "a value that is no UTF-8": Bad("properties", "no UTF-8", with_property("n", b"\xff")),
    "the message id as a property": Bad("properties", "RocketMQ's own", with_property("UNIQ_KEY", b"A" * 32)),
    "a property that is too long": Bad("properties", LONG, with_property("n", b"x" * 32_767)),
    "keys that are too long": Bad("properties", LONG, {"keys": ["a", "x" * 32_767]}),
    "a negative level": Bad("delayTimeLevel", "not in 0..18", {"delayTimeLevel": numbers(None, -1)}),
    "a negative time": Bad("deliverTimeMs", "negative", {"deliverTimeMs": numbers(None, -1, kind=pa.int64())}),
    "level and time together": Bad("deliverTimeMs", "both given", {**TIMES, "delayTimeLevel": numbers(None, 1)}),
    "a negative queue": Bad("queueId", "negative", {"queueId": numbers(0, -2)}),
    "a broker without a queue": Bad("brokerName", "without a queueId", {"queueId": numbers(0, None), **AT_BROKER_A}),
}

each_row = pytest.mark.parametrize("bad", ROWS.values(), ids=ROWS)


# --- rows -------------------------------------------------------------------------------------------------------------


@each_row
def test_a_bad_row_fails_the_task(target: Target, bad: Bad) -> None:
    """The error has code, partition, row, column, reason, counts, topic and advice, and the row's batch is not sent."""
    with pytest.raises(BadRow) as caught:
        target.write([rows(40), bad.frame], partition=2)
    text = str(caught.value)
    assert text.startswith(f"[SINK_ROW] partition 2: row 41 cannot be sent, because of its column {bad.column}: ")
    assert bad.reason in text and "40 rows of the task landed, 2 did not, 0 may have (topic orders); correct" in text
    assert text.endswith("set onBadRow to deadLetter or drop") and len(target.bodies()) == 40


@each_row
def test_a_bad_row_is_dropped(target: Target, bad: Bad, caplog: pytest.LogCaptureFixture) -> None:
    """With `drop` all other rows land, and a warning has partition, row, column and reason."""
    report = target.write([rows(40), bad.frame], DROP, partition=2)
    assert (report.rows, report.dropped, report.dead_letters) == (42, 1, 0) and len(target.bodies()) == 41
    [warning] = [line for line in caplog.messages if "dropped" in line]
    assert "row 41 of partition 2 is dropped (onBadRow=drop)" in warning
    assert f"column {bad.column}: " in warning and bad.reason in warning


@each_row
def test_a_bad_row_becomes_a_dead_letter(target: Target, bad: Bad) -> None:
    """With `deadLetter` all other rows land, and the dead letter has the body, cause and origin of its row."""
    report = target.write([rows(40), bad.frame], DEAD)
    assert (report.rows, report.dropped, report.dead_letters) == (42, 0, 1) and len(target.bodies()) == 41
    [letter] = target.records("dead")
    assert letter.body == b"1" and letter.properties["ORIGIN_TOPIC"] == TOPIC
    assert letter.properties["CAUSE"].startswith(f"{bad.column}: ") and bad.reason in letter.properties["CAUSE"]


NAMES = (None, "", " ", "a b", "a\x01b", "größe", "x" * 128, "y" * 40_000, "%RETRY%group", "%DLQ%group")


@pytest.mark.parametrize("name", NAMES, ids=lambda name: repr(name)[:20])
def test_a_text_that_is_no_topic(target: Target, name: str | None) -> None:
    """A row whose topic no broker would take fails the task with its topic, or becomes a dead letter that shows it."""
    named, text = frame(topic=[TOPIC, name]), shown(name or "")
    with pytest.raises(BadRow, match="row 1 cannot be sent, because of its column topic: ") as caught:
        target.write(named, {"topic": ""})
    assert counts(caught.value) == (0, 2, 0) and f"(topic {'null' if name is None else text}); " in str(caught.value)

    report = target.write(named, {"topic": "", **DEAD})
    [letter] = target.records("dead")
    assert (report.dead_letters, target.bodies()) == (1, [b"0"]) and letter.properties["CAUSE"].startswith("topic: ")
    assert letter.properties.get("ORIGIN_TOPIC", "") == text.strip()


# --- queues -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_a_queue_that_is_only_read(target: Target, way: dict[str, str]) -> None:
    """A queue beyond the topic's write queues, which readers still have, makes its row bad; the last one does not."""
    create(target, TopicConfig(topic_name=TOPIC, read_queue_nums=4, write_queue_nums=2))
    check_queue(target, {"queueId": numbers(1, 2)}, way, r"queue 2 does not exist or is not writable; .* at broker-a")


@pytest.mark.parametrize("way", WAYS)
def test_a_queue_of_a_broker_where_the_topic_is_only_read(make_target: MakeTarget, way: dict[str, str]) -> None:
    """A queue of a broker at which the topic has no write permission makes its row bad; the other broker is named."""
    target = make_target(2)
    create(target, TopicConfig(topic_name=TOPIC, read_queue_nums=4, write_queue_nums=4, perm=4), ("broker-b",))
    columns = {"queueId": numbers(1, 1), "brokerName": ["broker-a", "broker-b"]}
    check_queue(target, columns, way, r"queue 1 of 'broker-b' does not exist or is not writable; .* at broker-a")


@pytest.mark.parametrize("way", WAYS)
def test_a_broker_that_is_away_is_no_fault_of_a_row(make_target: MakeTarget, way: dict[str, str]) -> None:
    """If a row names a broker that is away when the batch is planned, the task fails; no row is dropped because of it.

    It cannot be told from a broker that does not exist. A broker that has come back since then is no fault, either.
    """
    target = make_target(2)
    named = frame(queueId=numbers(1, 1), brokerName=["broker-a", "broker-b"])
    target.stub.faults.broker_down("broker-b")
    plan = target.plan(way)
    with pytest.raises(
        WriteError, match=r"\[SINK_WRITE\] .*no name server lists now.*broker broker-b, queue 1\); bring"
    ):
        target.write(named, plan=plan)
    target.stub.faults.broker_up("broker-b")
    with pytest.raises(WriteError, match=r"\[SINK_WRITE\] .*row 1 .* was not writable yet .*; write the batch again$"):
        target.write(named, plan=plan)
    assert target.bodies() == target.bodies("dead") == []
    assert target.write(named, way).rows == len(target.bodies()) == 2


def check_queue(target: Target, columns: dict[str, Any], way: dict[str, str], reason: str) -> None:
    """Check that the second row goes the way of bad rows, and that the first one lands unless the task fails."""
    if not way:
        match = rf"\[SINK_ROW\] .*row 1 .* column queueId: {reason}.*\(topic orders\)"
        with pytest.raises(BadRow, match=match) as caught:
            target.write(frame(**columns))
        assert counts(caught.value) == (0, 2, 0) and target.bodies() == []
        return
    report = target.write(frame(**columns), way)
    assert target.bodies() == [b"0"] and report.dropped + report.dead_letters == 1
    assert len(target.records("dead")) == report.dead_letters


@pytest.mark.parametrize(("release", "code"), [("5.3.3", "INVALID_PARAMETER"), ("4.9.7", "REQUEST_REFUSED")])
def test_a_queue_that_went_away_is_no_fault_of_a_row(make_target: MakeTarget, release: str, code: str) -> None:
    """If a queue is removed after the batch was planned, the task fails: the next plan may have another queue."""
    target = make_target(emulate=release)
    plan = target.plan(DROP)
    create(target, TopicConfig(topic_name=TOPIC, read_queue_nums=2, write_queue_nums=2))
    match = rf"\[SINK_WRITE\].*BROKER_{code}, .*topic orders, broker broker-a, queue 3\); .+"
    with pytest.raises(WriteError, match=match) as caught:
        target.write(frame(queueId=numbers(1, 3)), plan=plan)
    assert caught.value.code == "SINK_WRITE" and (caught.value.landed, caught.value.failed) == (1, 1)


# --- columns ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "what"),
    [
        ("tags STRING", r"no column body; name the column with the messages' bodies `body`"),
        ("body INT", r"column body has the type int32; cast it to BINARY or STRING"),
        ("body STRING, queueId BIGINT", r"column queueId has the type int64; cast it to INT"),
        ("body STRING, queueOffset BIGINT", r"no column 'queueOffset' can be written; drop or rename it"),
    ],
)
def test_wrong_columns_fail_before_any_server_is_asked(target: Target, columns: str, what: str) -> None:
    """A DataFrame with wrong columns fails on the driver, as a batch and as a stream, also while no server is there."""
    target.stub.close()
    for make in (source(target).writer, source(target).streamWriter):
        with pytest.raises(ColumnError, match=rf"\[SINK_COLUMN\] .*{what}"):
            make(schema_of(columns), overwrite=False)


@pytest.mark.parametrize("way", WAYS)
def test_a_record_batch_with_another_type_fails_the_task(target: Target, way: dict[str, str]) -> None:
    """A wrong type that only shows in a task is no fault of its rows, and nothing of its record batch is sent."""
    with pytest.raises(ColumnError, match="column flag has the type int64; cast it to INT"):
        target.write(frame(flag=[1, 2]), way)
    assert target.bodies() == target.bodies("dead") == []


# --- brokers that take nothing ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "code", "advice", "way"),
    [
        ("busy", "BROKER_SYSTEM_BUSY", "lower the load, or add brokers", DROP),
        ("flow_control", "BROKER_FLOW_CONTROL", "lower the rate", DEAD),
    ],
)
def test_a_broker_that_stays_busy(target: Target, fault: str, code: str, advice: str, way: dict[str, str]) -> None:
    """After `sendTimeoutMs` the task fails, whatever `onBadRow` says; no row is stored, and none may be."""
    getattr(target.stub.faults, fault)(on=SENDS, times=None)
    with pytest.raises(WriteError, match=rf"\[SINK_WRITE\] .*{code}, .*not stored within 1 s.*; {advice}$") as caught:
        target.write(rows(5), {"sendTimeoutMs": "1000", **way})
    assert counts(caught.value) == (0, 5, 0) and "topic orders, broker broker-a" in str(caught.value)
    assert target.bodies() == target.bodies("dead") == []


FULL = ResponseCode.SERVICE_NOT_AVAILABLE


@pytest.mark.parametrize("way", WAYS)
def test_a_full_disk_fails_the_task(target: Target, way: dict[str, str]) -> None:
    """A broker whose disk is full is tried `retryTimesWhenSendFailed` times more; no row is bad because of it."""
    target.stub.faults.answer(FULL, "the broker's disk is full [CL: 0.96]", on=SENDS, times=None)
    with pytest.raises(WriteError, match=r"BROKER_SERVICE_NOT_AVAILABLE.*disk is full.*\(3 attempts\)") as caught:
        target.write(rows(5), way)
    assert caught.value.code == "SINK_WRITE" and counts(caught.value) == (0, 5, 0)
    assert "topic orders, broker broker-a" in str(caught.value) and "free its disk" in caught.value.advice


def test_a_full_disk_at_one_of_two_brokers(make_target: MakeTarget) -> None:
    """Rows without a key or queue land at the other broker; a row that names a queue of the full one fails the task."""
    target = make_target(2)
    for code in (SENDS, SINGLE):
        target.stub.faults.answer(FULL, "disk is full", on=code, at="broker-a", times=None)
    report = target.write(rows(640))
    assert (report.rows, report.brokers) == (640, ("broker-b",)) and len(target.bodies()) == 640
    with pytest.raises(WriteError, match=r"row 0 .*SERVICE_NOT_AVAILABLE.*broker broker-a, queue 1") as caught:
        target.write(frame(queueId=numbers(1), brokerName=["broker-a"]), DROP)
    assert counts(caught.value) == (0, 1, 0)


# --- outcomes that are open -------------------------------------------------------------------------------------------

STATUSES = (ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.FLUSH_SLAVE_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("status", STATUSES)
def test_a_status_that_is_not_accepted(target: Target, status: ResponseCode, way: dict[str, str]) -> None:
    """The task fails, and its rows may have landed: the master has stored them. None is sent again or dropped."""
    target.stub.faults.status(status, on=SENDS)
    match = rf"\[SINK_WRITE\] .*BROKER_{status.name}, .*stored.*acceptSendStatus$"
    with pytest.raises(WriteError, match=match) as caught:
        target.write(rows(64), {"maxInFlight": "1", **way})
    assert "32 rows from row 0 to 31 could not be sent" in str(caught.value) and caught.value.unknown == 32
    assert "topic orders, broker broker-a" in str(caught.value) and target.bodies("dead") == []
    assert len(target.bodies()) == 32 + caught.value.landed and caught.value.failed + caught.value.landed == 32


@pytest.mark.parametrize("status", STATUSES)
def test_a_status_that_is_accepted(target: Target, status: ResponseCode) -> None:
    """With `acceptSendStatus` rows with that status count as written, and are sent once."""
    fault = target.stub.faults.status(status, on=SENDS, times=None)
    report = target.write(rows(64), {"acceptSendStatus": f"SEND_OK, {status.name}"})
    assert (report.rows, report.retries, fault.fired) == (64, 0, 2) and len(target.bodies()) == 64


QUICK = {"sendMsgTimeout": "300", "retryTimesWhenSendFailed": "0", "maxInFlight": "8"}


@pytest.mark.parametrize("way", [DROP, DEAD])
def test_a_lost_response_is_no_fault_of_a_row(target: Target, way: dict[str, str]) -> None:
    """A row that may be stored fails the task, whatever `onBadRow` says: a dead letter of it could be a second copy."""
    target.stub.faults.drop_reply(on=SENDS, times=None)
    match = r"\[SINK_WRITE\] .*5 rows from row 0 to 4 .*REQUEST_TIMEOUT, .*; it may be stored; .* raise sendTimeoutMs$"
    with pytest.raises(WriteError, match=match) as caught:
        target.write(rows(5), QUICK | way | {"sendTimeoutMs": "1000"})
    assert counts(caught.value) == (0, 0, 5) and "topic orders, broker broker-a" in str(caught.value)
    assert len(set(target.bodies())) == 5 and target.bodies("dead") == []


def test_counts_beside_dead_letters(target: Target) -> None:
    """Rows that landed, failed or may be stored are counted beside dead letters and add up to all others.

    Forty rows land, three are dead letters, one is refused, and the response for one is lost.
    """
    target.stub.faults.drop_reply(on=SINGLE)
    target.stub.faults.answer(ResponseCode.NO_PERMISSION, on=SINGLE)
    delayed = frame(delayTimeLevel=numbers(9, 9))
    with pytest.raises(WriteError, match="40 rows of the task landed, 1 did not, 1 may have") as caught:
        target.write([rows(40), frame(body=pa.array([None] * 3, pa.binary())), delayed], QUICK | DEAD)
    assert counts(caught.value) == (40, 1, 1)
    assert (len(target.bodies()), len(target.bodies("dead"))) == (40, 3)


def test_counts_beside_dropped_rows(target: Target) -> None:
    """It is the same with dropped rows."""
    target.stub.faults.cut_reply(on=SINGLE)
    frames = [rows(40), frame(body=[b"", b"", b"good"]), frame(delayTimeLevel=numbers(9, 9))]
    with pytest.raises(WriteError) as caught:
        target.write(frames, QUICK | DROP)
    assert counts(caught.value) == (41, 0, 2)


def test_a_dead_letter_whose_response_is_lost(target: Target) -> None:
    """If a dead letter may be stored, its row has failed: the task is repeated, and the dead letter has its id then."""
    empty = frame(body=pa.array([None] * 3, pa.binary()))
    target.stub.faults.cut_reply(on=SENDS)
    match = r"3 dead letters from dead letter 0 to 2 .*CONNECTION_LOST.*topic dead"
    with pytest.raises(WriteError, match=match) as caught:
        target.write(empty, QUICK | DEAD)
    assert counts(caught.value) == (0, 3, 0)
    assert target.write(empty, QUICK | DEAD).dead_letters == 3
    letters = [letter.properties["UNIQ_KEY"] for letter in target.records("dead")]
    assert len(letters) == 6 and len(set(letters)) == 3
