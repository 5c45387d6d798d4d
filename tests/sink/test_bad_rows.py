"""Rows that cannot be sent fail the task, become dead letters, or are dropped, as `onBadRow` says."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from broker_stub.settings import Settings
from pyspark_rocketmq.cluster.cluster import worker_cluster
from pyspark_rocketmq.encode.faults import Fault
from pyspark_rocketmq.encode.ids import BatchIdentity
from pyspark_rocketmq.encode.settings import EncodeSettings
from pyspark_rocketmq.errors import BadRow, WriteError
from pyspark_rocketmq.send.pipeline import SendPipeline
from pyspark_rocketmq.sink.bad_rows import DeadLetters
from pyspark_rocketmq.sink.outgoing import Outgoing, Unsendable
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from pyspark_rocketmq.wire.compression import compression_of, decompress
from pyspark_rocketmq.wire.record import Record
from tests.sink.fixtures import TOPIC, MakeTarget, Target, frame, rows

DROP = {"onBadRow": "drop"}
DEAD = {"onBadRow": "deadLetter", "deadLetterTopic": "dead"}
SINGLE = RequestCode.SEND_MESSAGE_V2


def levels(*values: int | None) -> pa.RecordBatch:
    """Return a record batch whose rows have these delay levels."""
    return frame(delayTimeLevel=pa.array(values, pa.int32()))


BAD = [
    ("body", frame(body=[b"good", b""]), "null or empty"),
    ("body", frame(body=[b"good", None]), "null or empty"),
    ("body", frame(body=[b"good", b"x" * 2000]), "maxMessageSize"),
    ("tags", frame(tags=["a", "a|b"]), "`|`"),
    ("properties", frame(properties=pa.array([[], [("KEYS", "k")]], pa.map_(pa.string(), pa.string()))), "own"),
    ("delayTimeLevel", levels(None, 19), "0..18"),
    ("queueId", frame(queueId=pa.array([1, 9], pa.int32())), "does not exist or is not writable"),
]
"""The column at fault, rows of which the second has the fault, and a part of the reason."""


@pytest.mark.parametrize(("column", "batch", "reason"), BAD)
def test_a_bad_row_fails_the_task(target: Target, column: str, batch: pa.RecordBatch, reason: str) -> None:
    """By default the error names partition, row, topic, column and reason, and nothing of the record batch is sent."""
    with pytest.raises(BadRow) as caught:
        target.write([rows(40), batch], {"maxMessageSize": "1k"}, partition=2)
    text = str(caught.value)
    assert text.startswith(f"[SINK_ROW] partition 2: row 41 cannot be sent, because of its column {column}: ")
    assert reason in text and f"(topic {TOPIC})" in text and "onBadRow" in caught.value.advice
    assert (caught.value.landed, caught.value.failed, caught.value.unknown) == (40, 2, 0)
    assert target.bodies() == sorted(b"%d" % row for row in range(40))


@pytest.mark.parametrize(("column", "batch", "reason"), BAD)
def test_bad_rows_are_dropped_on_request(
    target: Target, column: str, batch: pa.RecordBatch, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    """With `drop` the other rows are written, the report counts the dropped ones, and one warning names the first."""
    report = target.write([batch, batch], {"maxMessageSize": "1k", **DROP}, partition=2)
    assert (report.rows, report.dropped) == (4, 2) and len(target.bodies()) == 2
    [warning] = [line for line in caplog.messages if "dropped" in line]
    assert "row 1 of partition 2 is dropped (onBadRow=drop)" in warning and column in warning and reason in warning


@pytest.mark.parametrize(("column", "batch", "reason"), BAD)
def test_bad_rows_become_dead_letters(target: Target, column: str, batch: pa.RecordBatch, reason: str) -> None:
    """With `deadLetter` a bad row goes to that topic with its cause and its topic, whatever is wrong with it."""
    report = target.write([rows(40), batch], {"maxMessageSize": "1k", **DEAD})
    assert (report.rows, report.dead_letters) == (42, 1) and len(target.bodies()) == 41
    [letter] = target.records("dead")
    body = batch.column("body")[1].as_py() or b" "
    assert letter.body == body[:960] and letter.properties["ORIGIN_TOPIC"] == TOPIC
    assert letter.properties["CAUSE"].startswith(f"{column}: ") and reason in letter.properties["CAUSE"]


def no_utf8(*texts: bytes) -> pa.Array:
    """Return texts as Spark sends them: its strings may hold any bytes."""
    return pa.array(texts, pa.binary()).view(pa.string())


ODD = [
    ({"topic": no_utf8(TOPIC.encode(), b"\xff")}, r"topic \\xff"),
    (
        {"queueId": pa.array([0, 0], pa.int32()), "brokerName": no_utf8(b"broker-a", b"\xff")},
        r"queue 0 of '\\\\xff' does not exist",
    ),
]
"""Columns whose second row names a topic or a broker that is no UTF-8, and what the error says."""


@pytest.mark.parametrize(("columns", "reason"), ODD)
@pytest.mark.parametrize("way", [{}, DROP, DEAD])
def test_a_name_that_is_no_utf8_is_a_bad_row(
    target: Target, columns: dict[str, pa.Array], reason: str, way: dict[str, str]
) -> None:
    """A topic or broker name of any bytes (`cast(x AS STRING)` keeps them) follows `onBadRow`."""
    options = {**({"topic": ""} if "topic" in columns else {}), **way}
    if not way:
        with pytest.raises(BadRow, match=reason):
            target.write(frame(**columns), options)
        return
    report = target.write(frame(**columns), options)
    assert report.dropped + report.dead_letters == 1 and target.bodies() == [b"0"]
    assert len(target.records("dead")) == report.dead_letters


def test_the_dead_letter_of_a_blank_topic_is_stored(target: Target) -> None:
    """A row whose topic is a space becomes a dead letter, which then has no origin topic: brokers refuse blank ones."""
    report = target.write(frame(topic=[TOPIC, " "]), {"topic": "", **DEAD})
    [letter] = target.records("dead")
    assert report.dead_letters == 1 and "ORIGIN_TOPIC" not in letter.properties


def test_a_dead_letter_that_cannot_be_made_fails(target: Target) -> None:
    """If a dead letter has a fault even without the row's own properties, its row is bad: none is lost silently."""
    settings = EncodeSettings(topic=TOPIC, max_body_bytes=0)
    cluster = worker_cluster(target.plan().options.cluster)

    def open_outgoing() -> Outgoing:
        return Outgoing(SendPipeline(cluster, target.plan().options.send, cluster.writable.queues), None)

    letters = DeadLetters(settings, BatchIdentity("q", "", 7), 2, open_outgoing, cluster.writable.queues, "dead")
    with pytest.raises(Unsendable, match=r"2/41/.*cannot become a dead letter.*body") as caught:
        letters.handle_faults(rows(1), 41, {41: Fault("tags", "odd")})
    letters.finish()
    letters.close()
    assert caught.value.is_bad_row and letters.dead_letters == 0 and not target.records("dead")


def test_dead_letters_are_in_the_figures_of_the_report(target: Target) -> None:
    """The sends, bytes, retries and brokers of dead letters count, as those of rows do."""
    target.stub.faults.cut_reply(on=RequestCode.SEND_BATCH_MESSAGE)
    report = target.write(frame(body=pa.array([None] * 3, pa.binary())), DEAD)
    assert (report.requests, report.retries, report.brokers) == (1, 1, ("broker-a",)) and report.byte_count > 100
    assert report.seconds["waiting"] > 0


def test_a_dead_letter_keeps_what_is_sound(target: Target) -> None:
    """A dead letter has keys, tags and properties of its row, unless these are what no broker would take."""
    kind = pa.map_(pa.string(), pa.string())
    bad = frame(body=[b""], keys=["k1"], tags=["new"], properties=pa.array([[("vip", "yes")]], kind))
    target.write(bad, DEAD)
    [letter] = target.records("dead")
    found = {name: letter.properties[name] for name in ("KEYS", "TAGS", "vip")}
    assert found == {"KEYS": "k1", "TAGS": "new", "vip": "yes"}


def test_dead_letters_have_ids_that_a_replay_repeats(target: Target) -> None:
    """A replay repeats the id of a dead letter; a different row at its place gets another one; no id is a row's."""
    for bodies in ([b"a", b"", None], [b"a", b"", None], [b"a", b"x", b""]):
        target.write(frame(body=bodies, keys=["k1", "k2", "k3"]), DEAD)
    first, second, third, fourth, other = [record.properties["UNIQ_KEY"] for record in in_order(target)]
    assert {first, second} == {third, fourth} and other in {first, second}
    assert len({first, second, *target.ids().values()}) == 4
    target.write(frame(body=[b"a", b""], keys=["k1", "another"]), DEAD)
    assert in_order(target)[-1].properties["UNIQ_KEY"] not in {first, second}


def in_order(target: Target) -> list[Record]:
    """Return the dead letters in the order in which they were stored."""
    return sorted(target.records("dead"), key=lambda record: record.physical_offset)


# --- refusals of brokers ----------------------------------------------------------------------------------------------


def small_broker(make_target: MakeTarget) -> Target:
    """Return a stub whose broker takes bodies of at most 1000 bytes."""
    return make_target(settings=replace(Settings(), max_message_bytes=1000))


LARGE = {"sendBatchSize": "1"}


def test_a_row_that_the_broker_refuses_fails_the_task(make_target: MakeTarget) -> None:
    """By default the error has the row and what the broker said about it."""
    with pytest.raises(
        BadRow, match=r"row 1 could not be sent: BROKER_MESSAGE_ILLEGAL.*limit 1000B.*or drop$"
    ) as caught:
        small_broker(make_target).write(frame(body=[b"a", b"x" * 1001, b"c"]), LARGE)
    assert caught.value.landed + caught.value.failed == 3


def test_a_row_that_the_broker_refuses_is_dropped_or_a_dead_letter(make_target: MakeTarget) -> None:
    """With the other ways a refused row goes the same way as a row that is not sent at all."""
    target = small_broker(make_target)
    mixed = frame(body=[b"a", b"x" * 1001, b"c"], properties=pa.array([[("n", "1")]] * 3, PROPERTIES))
    assert target.write(mixed, LARGE | DROP).dropped == 1
    assert target.write(mixed, LARGE | DEAD | {"maxMessageSize": "1060"}).dead_letters == 1
    assert target.bodies() == [b"a", b"a", b"c", b"c"]
    [letter] = target.records("dead")
    assert letter.body == b"x" * (1060 * 15 // 16) and letter.properties["n"] == "1"
    assert "BROKER_MESSAGE_ILLEGAL" in letter.properties["CAUSE"] and letter.properties["ORIGIN_TOPIC"] == TOPIC
    assert letter.properties["UNIQ_KEY"] not in target.ids().values()


PROPERTIES = pa.map_(pa.string(), pa.string())


def test_the_dead_letter_of_a_compressed_row(target: Target) -> None:
    """The dead letter of a row that was sent compressed has the row's body, and its id is that of no row."""
    packed = {**LARGE, **DEAD, "compressMsgBodyOverHowmuch": "1"}
    target.write(frame(body=[b"abc" * 100], rowId=["first"]), packed)
    [unique] = target.ids().values()
    target.stub.faults.answer(ResponseCode.MESSAGE_ILLEGAL, on=SINGLE)
    target.write(frame(body=[b"abc" * 100, b"x"], rowId=["first", unique]), {**packed, "maxInFlight": "1"})
    [letter] = target.records("dead")
    packing = compression_of(letter.sys_flag)
    assert (decompress(letter.body, packing) if packing else letter.body) == b"abc" * 100
    assert letter.properties["UNIQ_KEY"] not in {record.properties["UNIQ_KEY"] for record in target.records()}


@pytest.mark.parametrize(
    ("code", "remark"),
    [(ResponseCode.MESSAGE_ILLEGAL, "no"), (ResponseCode.SYSTEM_ERROR, "RuntimeException: message body size exceeded")],
)
def test_a_refused_batch_is_taken_apart(target: Target, code: ResponseCode, remark: str) -> None:
    """If a broker refuses a batch message, its rows are sent one by one, with their ids, and only bad ones are lost."""
    target.stub.faults.answer(code, remark, on=RequestCode.SEND_BATCH_MESSAGE)
    target.stub.faults.answer(ResponseCode.MESSAGE_ILLEGAL, on=SINGLE)
    report = target.write(rows(32), DROP)
    assert (report.rows, report.dropped) == (32, 1) and len(target.bodies()) == 31
    found = target.ids()
    target.write(rows(32))
    assert {body: target.ids()[body] for body in found} == found


def test_with_order_a_refused_batch_fails(target: Target) -> None:
    """With `ordering=key` a refused batch is not taken apart, because its rows would come after later ones."""
    target.stub.faults.answer(ResponseCode.MESSAGE_ILLEGAL, on=RequestCode.SEND_BATCH_MESSAGE)
    with pytest.raises(WriteError, match="set sendBatchSize=1"):
        target.write(frame(shardingKey=["k"] * 8), DROP | {"ordering": "key"})


def test_with_order_a_refused_row_does_not_stop_its_key(target: Target) -> None:
    """With `ordering=key`, rows behind one that is set aside are stored, in their order."""
    target.stub.faults.answer(ResponseCode.MESSAGE_ILLEGAL, on=SINGLE)
    batch = frame(shardingKey=["k"] * 30)
    report = target.write(batch, DROP | {"ordering": "key", "sendBatchSize": "1"})

    assert report.dropped == 1
    assert [record.body for record in target.records()] == [b"%d" % row for row in range(1, 30)]


@pytest.mark.parametrize("code", [ResponseCode.NO_PERMISSION, ResponseCode.SYSTEM_ERROR])
def test_with_order_a_failed_row_is_not_overtaken(target: Target, code: ResponseCode) -> None:
    """A row that fails is stored by the task's repetition; the rows of its key behind it are not stored before."""
    batch = frame(shardingKey=["k"] * 30)
    options = DROP | {"ordering": "key", "sendBatchSize": "1", "retryTimesWhenSendFailed": "0"}
    target.stub.faults.answer(code, on=SINGLE)
    with pytest.raises(WriteError) as failed:
        target.write(batch, options)
    assert failed.value.code == "SINK_WRITE" and code.name in str(failed.value) and not target.records()
    target.write(batch, options)
    assert [record.body for record in target.records()] == [b"%d" % row for row in range(30)]


@pytest.mark.parametrize("way", [{}, DROP, DEAD])
def test_rows_that_are_only_too_large_together_land(make_target: MakeTarget, way: dict[str, str]) -> None:
    """A batch above the limit of its broker is taken apart, whatever `onBadRow` says, and all its rows are stored."""
    target = small_broker(make_target)
    report = target.write(frame(body=[b"x" * 100] * 40), way)
    assert (report.rows, report.dropped, report.dead_letters) == (40, 0, 0) and len(target.bodies()) == 40


def test_a_refused_row_of_a_batch_is_named(target: Target) -> None:
    """By default the error names the row of a refused batch that is refused alone, too."""
    target.stub.faults.answer(ResponseCode.MESSAGE_ILLEGAL, on=RequestCode.SEND_BATCH_MESSAGE)
    target.stub.faults.answer(ResponseCode.MESSAGE_ILLEGAL, on=SINGLE)
    with pytest.raises(
        BadRow, match=r"row 0 could not be sent: .*; shorten its body, .*, or set onBadRow to .*"
    ) as caught:
        target.write(rows(32), {"maxInFlight": "1"})
    assert caught.value.landed + caught.value.failed == 32 and len(target.bodies()) == caught.value.landed


def test_a_refused_batch_of_dead_letters_is_taken_apart(make_target: MakeTarget) -> None:
    """Dead letters that are too large together are sent one by one: none of them would stop its query for ever."""
    target = small_broker(make_target)
    report = target.write(frame(body=[b"x" * 2000] * 40), DEAD | {"maxMessageSize": "1k"})
    assert (report.rows, report.dead_letters) == (40, 40) and len(target.records("dead")) == 40


def test_a_dead_letter_that_is_refused_fails_the_task(target: Target) -> None:
    """If the dead letter cannot be sent either, the task fails: no row is lost without a word."""
    target.stub.faults.answer(ResponseCode.MESSAGE_ILLEGAL, on=RequestCode.SEND_BATCH_MESSAGE, times=None)
    target.stub.faults.answer(ResponseCode.MESSAGE_ILLEGAL, on=SINGLE, times=None)
    with pytest.raises(
        WriteError, match=r"dead letter 0 could not be sent.*; set maxMessageSize .*, or set onBadRow=drop$"
    ):
        target.write(frame(body=[b""]), DEAD)


def test_what_concerns_all_rows_is_no_fault_of_a_row(target: Target) -> None:
    """A refusal because of permissions fails the task whatever `onBadRow` says, or all rows would be dropped."""
    target.stub.faults.answer(ResponseCode.NO_PERMISSION, on=RequestCode.SEND_BATCH_MESSAGE, times=None)
    with pytest.raises(WriteError, match="NO_PERMISSION"):
        target.write(rows(5), DROP)


def test_a_topic_that_brokers_do_not_know_is_no_fault_of_a_row(make_target: MakeTarget) -> None:
    """If a broker refuses to create a topic although it has the template, or has lost a topic, the task fails."""
    target = make_target(settings=replace(Settings(), auto_create_topics=False))
    topics = target.stub.state.brokers[0].topics
    target.stub.run(lambda: topics.find_or_create("TBW102", 8, perm=7))  # As if it created topics before its restart.
    for options in ({"topic": ""}, {"topic": "nowhere"}):
        with pytest.raises(
            WriteError, match=r"TOPIC_NOT_EXIST.*may have \(.*\); create it: mqadmin.*-t nowhere, or let.*autoCreate"
        ):
            target.write(frame(topic=["nowhere"] * 3), {**options, **DROP})
    target.stub.faults.answer(ResponseCode.TOPIC_NOT_EXIST, on=RequestCode.SEND_BATCH_MESSAGE, times=3)
    with pytest.raises(WriteError, match=r"\[SINK_WRITE\].*TOPIC_NOT_EXIST.*create it"):
        target.write(frame(topic=[TOPIC]), {"topic": "", **DROP})


def test_with_order_the_error_of_a_lost_topic_says_where_and_what_to_do(target: Target) -> None:
    """If a broker has lost a topic, the error has rows, topic, broker and the command, and no row is dropped for it."""
    target.stub.faults.answer(ResponseCode.TOPIC_NOT_EXIST, on=RequestCode.SEND_BATCH_MESSAGE, times=3)
    with pytest.raises(WriteError, match=r"partition 4: 32 rows from row 0 to 31 .*BROKER_TOPIC_NOT_EXIST") as caught:
        target.write(frame(shardingKey=["k"] * 40), DROP | {"ordering": "key"}, partition=4)
    error = caught.value
    assert error.where["topic"] == TOPIC and error.where["broker"] == "broker-a" and "queue_id" in error.where
    assert f"create it: mqadmin updateTopic -n <name server> -c <cluster> -t {TOPIC}" in error.advice
    assert (error.landed, error.failed, error.unknown, error.dropped) == (0, 40, 0, 0) and not target.bodies()


@pytest.mark.parametrize("topic", [None, "", "a b", "%RETRY%group"])
def test_a_name_that_is_no_topics_is_a_bad_row(target: Target, topic: str | None) -> None:
    """A row without a topic, or with a name that no topic can have, is at fault itself."""
    report = target.write(frame(topic=[TOPIC, topic]), {"topic": "", **DROP})
    assert (report.rows, report.dropped) == (2, 1) and target.bodies() == [b"0"]


def test_a_dead_letter_keeps_its_id_when_the_cluster_changes(make_target: MakeTarget) -> None:
    """The cause of a dead letter may list other brokers in a replay; its id stays."""
    target = make_target(2, topics={TOPIC: 4, "dead": 4})
    rows = frame(queueId=pa.array([99], pa.int32()), brokerName=["broker-a"])
    options = {"onBadRow": "deadLetter", "deadLetterTopic": "dead"}
    target.write(rows, options)
    target.stub.faults.broker_down("broker-b")
    target.write(rows, options)
    target.stub.faults.broker_up("broker-b")

    letters = target.records("dead")
    assert len({letter.properties["CAUSE"] for letter in letters}) == 2
    assert len({letter.properties["UNIQ_KEY"] for letter in letters}) == 1
