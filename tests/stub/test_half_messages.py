"""Tests of `broker_stub.half_messages` and of the handlers of transactions."""

from __future__ import annotations

import pytest

from broker_stub.admin_codes import AdminCode
from broker_stub.delayed_messages import RecallHandle, maybe_recall_handle
from broker_stub.dispatcher import Dispatcher
from broker_stub.faults import FaultScript
from broker_stub.group_tables import Member
from broker_stub.half_messages import OLDEST_MS, HalfMessages, is_half
from broker_stub.handlers import BROKER_HANDLERS
from broker_stub.store import InnerMessage, Stored
from broker_stub.topic_table import HALF_DONE_TOPIC, HALF_GIVEN_UP_TOPIC, HALF_TOPIC
from pyspark_rocketmq.wire.codes import LanguageCode, RequestCode, ResponseCode
from pyspark_rocketmq.wire.commands import (
    CheckTransactionStateRequestHeader,
    EndTransactionRequestHeader,
    RecallMessageRequestHeader,
)
from pyspark_rocketmq.wire.header import Command
from pyspark_rocketmq.wire.record import Record, decode_record
from tests.stub.direct_broker import DirectBroker

COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
TIMEOUT_MS, INTERVAL_MS, WRITE_MS = 6_000, 30_000, 3_000


class Producer:
    """A producer of group p at a broker, which records the checks that the broker sends."""

    def __init__(self, release: str = "5.3.3") -> None:
        self.direct = DirectBroker(release)
        self.connect()

    def connect(self) -> None:
        """Register the producer at the broker."""
        self.direct.broker.producer_groups.heartbeat(Member(self.direct.channel, "c", LanguageCode.JAVA, 479), "p")

    def prepare(self, body: bytes = b"half", **properties: str) -> Stored:
        """Store a half message for queue 3 of topic T, and return its id and offsets."""
        properties = {"TRAN_MSG": "true", "PGROUP": "p", "UNIQ_KEY": body.decode(), "WAIT": "true", **properties}
        born_ms = self.direct.clock.now_ms()
        return self.direct.broker.half_messages.prepare(
            InnerMessage("T", 3, body, properties, sys_flag=4, born_timestamp=born_ms)
        )

    def end(self, stored: Stored, decision: int, *, checked: bool = False, group: str = "p", shift: int = 0) -> Command:
        """Send the end of a half message's transaction, and return the response."""
        header = EndTransactionRequestHeader(
            producer_group=group,
            tran_state_table_offset=stored.queue_offset + shift,
            commit_log_offset=stored.physical_offset,
            commit_or_rollback=decision,
            from_transaction_check=checked,
            msg_id="x",
        )
        return self.direct.ask(header)

    def requests(self) -> list[tuple[CheckTransactionStateRequestHeader, Record]]:
        """Return the checks that came since the last call."""
        oneways = [(header, body) for code, header, body in self.direct.channel.oneways]
        self.direct.channel.oneways.clear()
        return [
            (header, decode_record(memoryview(body))[0])
            for header, body in oneways
            if isinstance(header, CheckTransactionStateRequestHeader)
        ]

    def beat_for(self, ms: int) -> None:
        """Let `ms` milliseconds pass while the producer sends heartbeats."""
        for _ in range(ms // INTERVAL_MS):
            self.direct.clock.advance(INTERVAL_MS)
            self.connect()

    def committed(self) -> list[Record]:
        """Return the messages of topic T that consumers can read."""
        return self.direct.found("T", 3)


def test_a_half_message_is_hidden_until_its_commit() -> None:
    """Only after its commit a half message is in its own topic, marked as committed and with its half offset."""
    producer = Producer()
    half = producer.prepare()
    (hidden,) = producer.direct.found(HALF_TOPIC)
    assert (hidden.sys_flag, hidden.properties["REAL_TOPIC"], hidden.properties["REAL_QID"]) == (0, "T", "3")
    assert producer.committed() == []
    assert producer.end(half, COMMIT).code == ResponseCode.SUCCESS
    (record,) = producer.committed()
    assert (record.sys_flag, record.prepared_transaction_offset) == (8, half.physical_offset)
    assert record.properties == {
        "TRAN_MSG": "true",
        "PGROUP": "p",
        "UNIQ_KEY": "half",
        "__transactionId__": "half",
        "WAIT": "true",
        "REAL_TOPIC": "T",
        "REAL_QID": "3",
    }


@pytest.mark.parametrize(("decision", "count"), [(COMMIT, 1), (ROLLBACK, 1), (UNKNOWN, 0)])
def test_both_ends_leave_a_marker(decision: int, count: int) -> None:
    """A commit or rollback leaves a marker that stops checks; an undecided end leaves none."""
    producer = Producer()
    producer.end(producer.prepare(), decision)
    producer.direct.clock.advance(WRITE_MS)
    assert len(producer.direct.found(HALF_DONE_TOPIC)) == count
    producer.beat_for(INTERVAL_MS)
    assert len(producer.requests()) == 1 - count


def test_5x_writes_ends_late_and_together() -> None:
    """At 5.x one marker names the messages that ended within three seconds; a crash before that forgets them."""
    producer = Producer()
    for _ in range(2):
        producer.end(producer.prepare(), COMMIT)
    producer.direct.clock.advance(WRITE_MS - 1)
    assert producer.direct.found(HALF_DONE_TOPIC) == []
    producer.direct.clock.advance(1)
    assert [record.body for record in producer.direct.found(HALF_DONE_TOPIC)] == [b"0,1,"]

    producer.end(producer.prepare(), COMMIT)
    producer.direct.broker.forget_clients()
    producer.connect()
    producer.beat_for(INTERVAL_MS)
    assert len(producer.requests()) == 1


def test_4_9_7_writes_each_end_at_once() -> None:
    """At 4.9.7 each end has a marker of its own, which is written before the response."""
    producer = Producer("4.9.7")
    for _ in range(2):
        producer.end(producer.prepare(), COMMIT)
    assert [record.body for record in producer.direct.found(HALF_DONE_TOPIC)] == [b"0", b"1"]


def test_the_check_is_about_a_copy() -> None:
    """A check has the original topic and queue, but the id and offsets of a stored copy, by which it is ended."""
    producer = Producer()
    half = producer.prepare()
    producer.beat_for(INTERVAL_MS)
    ((header, record),) = producer.requests()
    copy = producer.direct.found(HALF_TOPIC)[1]
    assert (header.topic, header.bname, header.msg_id, header.transaction_id) == (
        HALF_TOPIC,
        "broker-a",
        "half",
        "half",
    )
    assert (header.tran_state_table_offset, header.commit_log_offset) == (copy.queue_offset, copy.physical_offset)
    assert header.offset_msg_id == copy.offset_message_id
    assert (record.topic, record.queue_id, record.queue_offset) == ("T", 3, copy.queue_offset)
    assert (record.properties["WAIT"], record.properties["TRANSACTION_CHECK_TIMES"]) == ("false", "1")
    assert (copy.properties["WAIT"], copy.properties["TRANSACTION_CHECK_TIMES"]) == ("true", "1")
    asked_about = Stored("", copy.queue_offset, copy.physical_offset, 0)
    assert half.queue_offset != copy.queue_offset
    producer.end(asked_about, COMMIT, checked=True)
    producer.beat_for(INTERVAL_MS)
    assert len(producer.committed()) == 1 and producer.requests() == []


def test_4_9_7_names_neither_topic_nor_broker() -> None:
    """At 4.9.7 a check lacks topic and broker name, and a half message has no transaction id."""
    producer = Producer("4.9.7")
    producer.prepare()
    producer.beat_for(INTERVAL_MS)
    ((header, record),) = producer.requests()
    assert header.topic is None and header.bname is None
    assert "__transactionId__" not in record.properties


def test_a_young_message_is_left_alone() -> None:
    """A message is checked only if it is older than the timeout, and then in the next round of checks."""
    producer = Producer()
    producer.prepare(b"old")
    producer.direct.clock.advance(INTERVAL_MS - TIMEOUT_MS)
    producer.prepare(b"young")
    producer.direct.clock.advance(TIMEOUT_MS)
    assert [record.body for _, record in producer.requests()] == [b"old"]
    producer.beat_for(INTERVAL_MS)
    assert sorted(record.body for _, record in producer.requests()) == [b"old", b"young"]


def test_checks_come_to_an_end() -> None:
    """After fifteen checks without a decision a half message is given up."""
    producer = Producer()
    producer.prepare()
    producer.beat_for(20 * INTERVAL_MS)
    assert [record.properties["TRANSACTION_CHECK_TIMES"] for _, record in producer.requests()] == [
        str(times) for times in range(1, 16)
    ]
    assert len(producer.direct.found(HALF_GIVEN_UP_TOPIC)) == 1
    assert producer.direct.broker.half_messages.position == producer.direct.broker.store.max_offset(HALF_TOPIC, 0)


def test_a_message_given_up_is_taken_up_on_command() -> None:
    """If an administrator resumes a given-up message, it is checked again, and its checks count from one."""
    producer = Producer()
    producer.prepare()
    producer.beat_for(20 * INTERVAL_MS)
    [given_up] = producer.direct.found(HALF_GIVEN_UP_TOPIC)
    producer.requests()

    resume_check(producer, given_up.offset_message_id)
    producer.beat_for(INTERVAL_MS)

    assert [record.body for _, record in producer.requests()] == [b"half"]


def test_only_half_messages_are_taken_up() -> None:
    """Resuming the check of another message has no effect, and of a missing message is an error."""
    producer = Producer()
    plain = producer.direct.put()

    assert resume_check(producer, plain.message_id) == ResponseCode.SUCCESS
    assert producer.direct.found(HALF_TOPIC) == []
    for wrong in ("nonsense", plain.message_id[:-1] + "7"):
        assert resume_check(producer, wrong) == ResponseCode.SYSTEM_ERROR


def resume_check(producer: Producer, message_id: str) -> int:
    """Send an administrator's request to check a half message again, and return the response code."""
    direct, command = producer.direct, Command(AdminCode.RESUME_CHECK_HALF_MESSAGE, fields={"msgId": message_id})
    Dispatcher("", direct.broker, BROKER_HANDLERS, direct.broker.settings, FaultScript()).serve(command, direct.channel)
    return direct.channel.replies.pop().code


def test_a_message_older_than_the_log_is_given_up() -> None:
    """If a half message is older than the log's retention, it is given up without a check."""
    producer = Producer()
    born_ms = producer.direct.clock.now_ms() - OLDEST_MS - 1
    producer.direct.broker.half_messages.prepare(InnerMessage("T", 3, b"x", {"PGROUP": "p"}, born_timestamp=born_ms))
    producer.beat_for(INTERVAL_MS)
    assert producer.requests() == [] and len(producer.direct.found(HALF_GIVEN_UP_TOPIC)) == 1


def test_a_message_may_claim_more_time() -> None:
    """During its own immunity time a message is only copied behind the others; an end of the original ends no copy."""
    producer = Producer()
    patient = producer.prepare(b"patient", CHECK_IMMUNITY_TIME_IN_SECONDS="100")
    producer.prepare(b"other")
    producer.beat_for(INTERVAL_MS)
    assert [record.body for _, record in producer.requests()] == [b"other"]
    assert [record.properties.get("TRAN_PREPARED_QUEUE_OFFSET") for record in producer.direct.found(HALF_TOPIC)] == [
        None,
        None,
        "0",
        None,
    ]
    assert producer.end(patient, COMMIT).code == ResponseCode.SUCCESS
    producer.beat_for(5 * INTERVAL_MS)
    assert b"patient" in {record.body for _, record in producer.requests()}
    assert len(producer.committed()) == 1


def test_a_first_end_may_come_too_late() -> None:
    """If a message's own immunity time and the timeout are over, 5.x refuses an end that no check has asked for."""
    producer = Producer()
    half = producer.prepare(CHECK_IMMUNITY_TIME_IN_SECONDS="10")
    hasty = producer.prepare(b"hasty", CHECK_IMMUNITY_TIME_IN_SECONDS="1")
    producer.direct.clock.advance(TIMEOUT_MS)
    assert producer.end(hasty, COMMIT).code == ResponseCode.SUCCESS
    producer.direct.clock.advance(10_001 - TIMEOUT_MS)
    assert producer.end(half, COMMIT).code == ResponseCode.ILLEGAL_OPERATION
    assert producer.end(half, COMMIT, checked=True).code == ResponseCode.SUCCESS


@pytest.mark.parametrize(
    ("group", "shift", "remark"),
    [("q", 0, "The producer group wrong"), ("p", 1, "The transaction state table offset wrong")],
)
def test_an_end_must_know_the_message(group: str, shift: int, remark: str) -> None:
    """An end with a wrong producer group or a wrong half offset is refused."""
    producer = Producer()
    refused = producer.end(producer.prepare(), COMMIT, group=group, shift=shift)
    assert (refused.code, refused.remark) == (ResponseCode.SYSTEM_ERROR, remark)
    assert producer.committed() == []


def test_only_half_messages_can_be_ended() -> None:
    """An end of a missing message, or of one in another topic, is refused."""
    producer = Producer()
    other = producer.direct.put("T", PGROUP="p")
    for stored in (other, Stored("", 0, 9_999_999, 0)):
        assert producer.end(stored, COMMIT).remark == "Find prepared transaction message failed"


def test_a_commit_twice_is_stored_twice() -> None:
    """If a half message is committed twice, it is stored twice."""
    producer = Producer()
    half = producer.prepare()
    for _ in range(2):
        assert producer.end(half, COMMIT).code == ResponseCode.SUCCESS
    assert len(producer.committed()) == 2


def test_a_slave_ends_no_transaction() -> None:
    """If the end of a transaction is sent to a slave, it is refused."""
    producer = Producer()
    half = producer.prepare()
    producer.direct.broker = producer.direct.make_slave()
    assert producer.end(half, COMMIT).code == ResponseCode.SLAVE_NOT_AVAILABLE


def test_a_delay_level_loses_a_half_message() -> None:
    """A half message that is given a delay level is lost, as at a real broker; clients remove the level."""
    producer = Producer()
    producer.end(producer.prepare(DELAY="1"), COMMIT)
    producer.direct.clock.advance(10_000)
    assert producer.committed() == [] and producer.direct.found(HALF_TOPIC) == []


def test_an_open_end_has_no_answer() -> None:
    """An end that neither commits nor rolls back gets no response; a rollback gets one with a remark."""
    producer = Producer()
    half = producer.prepare()
    assert producer.end(half, UNKNOWN).remark == "held"
    assert producer.end(half, ROLLBACK).remark == "not set any response code"


def test_checks_continue_after_a_restart() -> None:
    """After a restart ended messages are not checked, because their markers are read; the others are checked."""
    producer = Producer()
    producer.end(producer.prepare(b"done"), COMMIT)
    producer.prepare(b"open")
    producer.direct.clock.advance(WRITE_MS)
    broker = producer.direct.broker
    broker.half_messages = HalfMessages(broker)
    broker.half_messages.resume()
    producer.beat_for(INTERVAL_MS)
    assert {record.body for _, record in producer.requests()} == {b"open"}


@pytest.mark.parametrize(
    ("properties", "times", "half"),
    [({"TRAN_MSG": "true"}, 0, True), ({"TRAN_MSG": "true", "DELAY": "3"}, 1, False), ({"TRAN_MSG": "no"}, 0, False)],
)
def test_what_begins_a_transaction(properties: dict[str, str], times: int, half: bool) -> None:
    """A message with the transaction property begins a transaction, unless it is sent for a retry."""
    assert is_half(InnerMessage("T", 0, b"x", properties, reconsume_times=times)) is half


# --- recalls ---------------------------------------------------------------------------------------------------------


def recall(direct: DirectBroker, handle: str, topic: str = "T") -> Command:
    """Send a recall of a timer message, and return the response."""
    return direct.ask(RecallMessageRequestHeader(topic=topic, recall_handle=handle, producer_group="p"))


def test_recalls_are_off_by_default() -> None:
    """By default a recall is refused, and the response contains the region, as recorded."""
    refused = recall(DirectBroker(), "x")
    assert (refused.code, refused.remark) == (ResponseCode.NO_PERMISSION, "recall failed, operation is forbidden")
    assert refused.fields == {"MSG_REGION": "DefaultRegion"}


def test_a_recalled_message_never_comes() -> None:
    """A recalled message is not delivered, and the response to its recall names it."""
    direct = DirectBroker(recall_messages=True)
    direct.broker.topics.find_or_create("T", 1)
    message = InnerMessage("T", 0, b"x", {"TIMER_DELAY_SEC": "10", "UNIQ_KEY": "A"})
    direct.broker.accept(message)
    done = recall(direct, maybe_recall_handle(message, "broker-a") or "")
    assert (done.code, done.fields) == (ResponseCode.SUCCESS, {"MSG_REGION": "DefaultRegion", "msgId": "A"})
    direct.clock.advance(20_000)
    assert direct.found("T") == []


@pytest.mark.parametrize(
    ("topic", "broker", "after_ms", "remark"),
    [
        ("U", "broker-a", 5_000, "topic not match"),
        ("T", "broker-b", 5_000, "broker service not available"),
        ("T", "broker-a", -1, "timestamp invalid"),
    ],
)
def test_a_handle_must_fit(topic: str, broker: str, after_ms: int, remark: str) -> None:
    """A recall is refused if its handle has another topic, another broker or a passed time."""
    direct = DirectBroker(recall_messages=True)
    direct.broker.topics.find_or_create("T", 1)
    refused = recall(direct, RecallHandle(topic, broker, direct.clock.now_ms() + after_ms, "A").encode())
    assert refused.code == ResponseCode.ILLEGAL_OPERATION and (refused.remark or "").endswith(remark)


def test_a_recall_needs_a_topic_and_a_handle() -> None:
    """A recall without a topic and one with a malformed handle get different error responses."""
    direct = DirectBroker(recall_messages=True)
    assert recall(direct, "x", "nope").code == ResponseCode.TOPIC_NOT_EXIST
    assert recall(direct, "x", "TBW102").remark == "recall handle is invalid"


def test_codes_are_told_apart() -> None:
    """The request code of a check differs from that of a notification."""
    producer = Producer()
    producer.prepare()
    producer.direct.clock.advance(INTERVAL_MS)
    assert producer.direct.channel.take_oneway_codes() == [RequestCode.CHECK_TRANSACTION_STATE]
