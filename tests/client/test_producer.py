"""A producer stores messages in the right queues, and ends transactions."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from broker_stub import Settings
from pyspark_rocketmq.client.message import ReceivedMessage
from pyspark_rocketmq.client.producer import TransactionResolution
from pyspark_rocketmq.cluster.messages import Receipt
from pyspark_rocketmq.errors import LocalProtocolError, SendError, TopicNotFound
from pyspark_rocketmq.model import Message
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from pyspark_rocketmq.wire.properties import java_hash
from tests.client.fixtures import BROKER, TIMEOUT_S, TOPIC, Group, queue, until


def _bodies(group: Group, topic: str = TOPIC) -> list[bytes]:
    return [record.body for record in group.stub.messages(topic)]


def test_a_message_is_stored_as_it_was_meant(group: Group) -> None:
    """A message's body, tag, keys, properties and flag are stored, and the receipt has its queue and offset."""
    message = Message(TOPIC, b"hello", "red", "k1 k2", {"colour": "blue"}, flag=7)
    receipt = group.producer().send(message, queue(2))

    [record] = group.stub.messages(TOPIC, 2)
    assert (record.body, record.flag, record.offset_message_id) == (b"hello", 7, receipt.message_id)
    assert record.properties.items() >= {"TAGS": "red", "KEYS": "k1 k2", "colour": "blue", "WAIT": "true"}.items()
    assert (receipt.queue, receipt.queue_offset) == (queue(2), 0)


def test_queues_take_turns(group: Group) -> None:
    """If a producer sends eight messages to a topic of four queues, each queue gets two."""
    producer = group.producer()
    queues = Counter(producer.send(Message(TOPIC, b"x")).queue for _ in range(8))

    assert sorted(queues.values()) == [2, 2, 2, 2]


def test_equal_keys_share_a_queue(group: Group) -> None:
    """Messages of one key are stored in the queue that the Java client chooses for this key."""
    producer = group.producer()
    receipts = [producer.send_ordered(Message(TOPIC, b"x"), "customer 7") for _ in range(3)]

    assert {receipt.queue.queue_id for receipt in receipts} == {abs(java_hash("customer 7")) % 4}
    assert [receipt.queue_offset for receipt in receipts] == [0, 1, 2]


def test_a_batch_lies_together(group: Group) -> None:
    """The messages of a batch are stored in one queue, in order, each with its own unique id."""
    receipt = group.producer().send_batch([Message(TOPIC, b"%d" % number, tags="t") for number in range(3)])

    records = group.stub.messages(TOPIC, receipt.queue.queue_id)
    assert [record.body for record in records] == [b"0", b"1", b"2"]
    assert len({record.properties["UNIQ_KEY"] for record in records}) == 3


def test_large_bodies_travel_packed(group: Group) -> None:
    """A body of 4 KiB or more is stored compressed, and decompresses to the original."""
    body = b"abc" * 2000
    group.producer().send(Message(TOPIC, body))

    [record] = group.stub.messages(TOPIC)
    assert len(record.body) < len(body)
    assert record.unpacked_body() == body


def test_a_delayed_message_comes_later(make_group: Callable[..., Group]) -> None:
    """A message with delay level 2 appears in its topic after five seconds."""
    group = make_group(frozen_clock=True)
    group.producer().send(Message(TOPIC, b"x", delay_level=2))
    assert not _bodies(group)

    group.stub.clock.advance(6_000)
    assert _bodies(group) == [b"x"]


def test_a_message_with_a_time_comes_at_that_time(make_group: Callable[..., Group]) -> None:
    """A message with a delivery time appears in its topic at that time."""
    group = make_group(frozen_clock=True)
    group.producer().send(Message(TOPIC, b"x", deliver_at_ms=group.stub.clock.now_ms() + 5_000))
    assert not _bodies(group)

    group.stub.clock.advance(6_000)
    assert _bodies(group) == [b"x"]


def test_one_way_messages_arrive(group: Group) -> None:
    """A one-way message is stored although the producer waits for no response."""
    group.producer().send_oneway(Message(TOPIC, b"x"))
    until(lambda: _bodies(group) == [b"x"])


def test_another_broker_takes_what_one_refuses(make_group: Callable[..., Group]) -> None:
    """If one broker refuses a message, the producer sends it to the other."""
    group = make_group(brokers=2)
    group.stub.faults.answer(ResponseCode.SYSTEM_BUSY, on=RequestCode.SEND_MESSAGE_V2, at=BROKER, times=None)
    receipts = [group.producer().send(Message(TOPIC, b"x")) for _ in range(4)]
    group.stub.faults.clear()

    assert {receipt.queue.broker_name for receipt in receipts} == {"broker-b"}


def test_a_refusal_everywhere_is_an_error(group: Group) -> None:
    """If all three attempts are refused, the error says that the message was not stored."""
    fault = group.stub.faults.answer(ResponseCode.SYSTEM_BUSY, on=RequestCode.SEND_MESSAGE_V2, times=3)
    with pytest.raises(SendError, match="0 landed, 1 failed, 0 unknown"):
        group.producer().send(Message(TOPIC, b"x"))

    assert fault.fired == 3


def test_a_lost_answer_leaves_the_outcome_open(group: Group) -> None:
    """If no response comes, the error says that the message may be stored."""
    group.stub.faults.drop_reply(on=RequestCode.SEND_MESSAGE_V2)
    producer = group.producer(send_timeout_s=0.3)
    with pytest.raises(SendError, match="0 landed, 0 failed, 1 unknown"):
        producer.send(Message(TOPIC, b"x"), queue(0))


@pytest.mark.parametrize("way", ["send", "send_async"])
def test_a_receipt_says_that_a_message_may_be_stored_twice(group: Group, way: str) -> None:
    """After an attempt without a response the receipt says that there may be two copies; other receipts do not."""
    producer = group.producer()

    def is_doubled() -> bool:
        sent: Any = getattr(producer, way)(Message(TOPIC, b"x"))
        receipt: Receipt = sent.result(TIMEOUT_S) if way == "send_async" else sent
        return receipt.may_be_doubled

    group.stub.faults.cut_reply(on=RequestCode.SEND_MESSAGE_V2)
    assert (is_doubled(), is_doubled()) == (True, False)
    assert len(group.stub.messages(TOPIC)) == 3


@pytest.mark.parametrize("way", ["send", "send_async"])
def test_the_text_of_an_error_says_whether_the_message_may_be_stored(group: Group, way: str) -> None:
    """A lost connection leaves the outcome open, and a refused one does not; the text agrees with the counts."""
    producer = group.producer(retries=0, send_timeout_s=0.5)

    def fail() -> str:
        with pytest.raises(SendError) as failed:
            sent = getattr(producer, way)(Message(TOPIC, b"x"), queue(0))
            sent.result(TIMEOUT_S)
        return str(failed.value)

    group.stub.faults.cut_reply(on=RequestCode.SEND_MESSAGE_V2)
    lost = fail()
    group.stub.faults.refuse()
    refused = fail()

    assert "no receipt, so it may be stored: " in lost and "0 failed, 1 unknown" in lost
    assert "not sent: connection refused" in refused and "1 failed, 0 unknown" in refused


@pytest.mark.parametrize(
    "message",
    [
        Message(TOPIC, b"x" * 101),
        Message(TOPIC, b"x", properties={"DELAY": "3"}),
        Message(TOPIC, b"x", properties={"a": "\x01"}),
    ],
    ids=["too large", "reserved name", "separator in a value"],
)
def test_what_no_broker_takes_is_not_sent(group: Group, message: Message) -> None:
    """A message that brokers would refuse raises an error with advice and is not sent."""
    with pytest.raises(LocalProtocolError, match=";"):
        group.producer(max_message_bytes=100).send(message)
    assert not _bodies(group)


@pytest.mark.parametrize(
    "batch",
    [
        [],
        [Message("a", b""), Message("b", b"")],
        [Message(TOPIC, b"x", delay_level=1)],
        [Message(TOPIC, b"x", deliver_at_ms=9)],
    ],
    ids=["empty", "two topics", "delayed", "with a time"],
)
def test_batches_are_of_one_topic_and_not_delayed(group: Group, batch: list[Message]) -> None:
    """A batch that is empty, has two topics, or has a delayed message raises an error."""
    with pytest.raises(LocalProtocolError, match="batch"):
        group.producer().send_batch(batch)


def test_a_message_in_a_batch_leaves_room_for_what_brokers_append(group: Group) -> None:
    """Brokers up to 5.3.3 append properties to those of each message of a batch, and may so make it unreadable."""

    def message(size: int) -> Message:
        rest = len("UNIQ_KEY\x01\x02WAIT\x01true\x02a\x01\x02") + 32
        return Message(TOPIC, b"x", properties={"a": "x" * (size - rest)})

    producer = group.producer()
    producer.send_batch([message(31_743)])
    with pytest.raises(LocalProtocolError, match="31744 bytes in a batch, the limit is 31743; send this message by it"):
        producer.send_batch([message(100), message(31_744)])
    producer.send(message(32_500))
    assert len(group.stub.messages(TOPIC)) == 2, "the refused batch was not sent"


@pytest.mark.parametrize("way", ["send", "send_ordered", "send_batch", "send_oneway", "send_in_transaction"])
def test_a_first_message_creates_its_topic(group: Group, way: str) -> None:
    """If a topic does not exist, the first message creates it with four queues, by any way of sending."""
    producer, message = group.producer(), Message("new", b"x")
    arguments: dict[str, tuple[Any, ...]] = {
        "send_ordered": (message, "key"),
        "send_batch": ([message],),
        "send_in_transaction": (message, lambda _: TransactionResolution.COMMIT),
    }
    for count in (1, 2):
        getattr(producer, way)(*arguments.get(way, (message,)))
        until(lambda count=count: _bodies(group, "new") == [b"x"] * count)  # type: ignore[misc]
    assert len(group.cluster().routes.route("new").writable) == 4


def test_a_topic_that_no_broker_creates_is_an_error(group: Group) -> None:
    """If no broker creates topics, sending to a missing topic raises `TopicNotFound` with this topic."""
    group.stub.run(lambda: group.stub.state.brokers[0].topics.delete("TBW102"))
    with pytest.raises(TopicNotFound) as refused:
        group.producer().send(Message("new", b"x"))
    assert refused.value.where["topic"] == "new"


# --- transactions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("resolution", "visible"), [(TransactionResolution.COMMIT, [b"x"]), (TransactionResolution.ROLLBACK, [])]
)
def test_a_transaction_ends_as_its_sender_says(
    make_group: Callable[..., Group], resolution: TransactionResolution, visible: list[bytes]
) -> None:
    """Consumers see the message of a transaction if `execute` returns COMMIT, and not if it returns ROLLBACK."""
    group = make_group(settings=Settings(transaction_op_batch_interval_ms=0))
    seen: list[list[bytes]] = []

    def our_part(_: Message) -> TransactionResolution:
        seen.append(_bodies(group))
        return resolution

    sent = group.producer().send_in_transaction(Message(TOPIC, b"x"), our_part)
    assert (sent.resolution, seen) == (resolution, [[]])

    until(lambda: len(group.stub.messages("RMQ_SYS_TRANS_OP_HALF_TOPIC")) == 1)
    assert _bodies(group) == visible


def test_a_broker_asks_what_became_of_an_open_transaction(make_group: Callable[..., Group]) -> None:
    """If `execute` raises, the broker asks later, and the result of `check` ends the transaction."""
    group = make_group(frozen_clock=True)
    asked: list[tuple[str, bytes]] = []

    def check(message: ReceivedMessage) -> TransactionResolution:
        asked.append((message.topic, message.body))
        return TransactionResolution.COMMIT

    sent = group.producer(check).send_in_transaction(Message(TOPIC, b"x"), lambda _: 1 / 0)  # type: ignore[arg-type, return-value]
    assert (sent.resolution, asked, _bodies(group)) == (TransactionResolution.UNKNOWN, [], [])

    # The frozen clock lets the broker ask once only; after two answers it would store the message twice.
    group.stub.clock.advance(Settings().transaction_check_interval_ms)
    until(lambda: _bodies(group) == [b"x"])
    assert asked == [(TOPIC, b"x")]


def test_a_check_that_would_exit_leaves_the_fate_open(make_group: Callable[..., Group]) -> None:
    """If `check` calls `sys.exit()`, the transaction stays open, and the broker asks again."""
    group = make_group(frozen_clock=True)
    asked: list[bytes] = []

    def check(message: ReceivedMessage) -> TransactionResolution:
        asked.append(message.body)
        return sys.exit() if len(asked) == 1 else TransactionResolution.COMMIT

    group.producer(check).send_in_transaction(Message(TOPIC, b"x"), lambda _: TransactionResolution.UNKNOWN)
    for count in (1, 2):
        group.stub.clock.advance(Settings().transaction_check_interval_ms)
        until(lambda count=count: len(asked) == count)  # type: ignore[misc]
    until(lambda: _bodies(group) == [b"x"])


@pytest.mark.parametrize("result", [None, True, "COMMIT"])
def test_a_function_that_returns_no_resolution_leaves_the_transaction_open(
    make_group: Callable[..., Group], result: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """If `execute` or `check` returns no resolution, the transaction stays open, and the log says what to return."""
    group = make_group(frozen_clock=True)
    sent = group.producer(lambda _: result).send_in_transaction(Message(TOPIC, b"x"), lambda _: result)
    assert sent.resolution is TransactionResolution.UNKNOWN
    assert "execute returned" in caplog.text and "return TransactionResolution.COMMIT" in caplog.text

    group.stub.clock.advance(Settings().transaction_check_interval_ms)
    until(lambda: "check returned" in caplog.text)
    assert not _bodies(group)


def test_an_answer_that_is_not_understood_leaves_the_outcome_open(group: Group) -> None:
    """If a response of success has no queue offset, the error says that the message may be stored."""
    group.stub.faults.answer(ResponseCode.SUCCESS, on=RequestCode.SEND_MESSAGE_V2)
    with pytest.raises(SendError, match="0 landed, 0 failed, 1 unknown"):
        group.producer().send(Message(TOPIC, b"x"))
