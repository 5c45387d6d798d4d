"""A pipeline stores each request once, and says where."""

from __future__ import annotations

from collections import Counter

from pyspark_rocketmq.model import SendRequest
from pyspark_rocketmq.wire.batch import BatchEntry, encode_batch
from tests.send.fixtures import TOPIC, MakeSender, Sender, place, single


def test_every_request_is_stored_once(make_sender: MakeSender) -> None:
    """Requests without a queue spread over all queues of all brokers, and the receipts say where each is stored."""
    sender = make_sender(2)
    outcomes = sender.send([single(number) for number in range(200)])

    assert Counter(sender.stored()) == Counter(b"%d" % number for number in range(200))
    assert [outcome.error for outcome in outcomes] == [None] * 200
    receipts = [outcome.receipt for outcome in outcomes]
    assert len({(receipt.queue, receipt.queue_offset) for receipt in receipts if receipt}) == 200
    assert {receipt.queue for receipt in receipts if receipt} == {place(n, b) for n in range(4) for b in "ab"}
    for outcome in outcomes:
        assert outcome.receipt
        queue, offset = outcome.receipt.queue, outcome.receipt.queue_offset
        record = sender.stub.messages(TOPIC, queue.queue_id, broker=queue.broker_name)[offset]
        assert record.body == outcome.request.body and record.offset_message_id == outcome.receipt.message_id


def test_batches_flags_and_properties_arrive(sender: Sender) -> None:
    """A batch is stored as its messages; a single request keeps its flags and properties, whatever they hold."""
    entries = [BatchEntry(b"%d" % number, f"UNIQ_KEY\x01{number:032X}\x02".encode()) for number in range(3)]
    packed = encode_batch(entries)
    text = 'UNIQ_KEY\x01ABC\x02a\x01%d "quoted" \\ ü \U0001f600\x02WAIT\x01true\x02'
    sender.send(
        [
            SendRequest(TOPIC, place(1), memoryview(packed), "WAIT\x01true\x02", range(3), is_batch=True),
            SendRequest(TOPIC, place(2), memoryview(b"packed"), text, [3], flag=-7, sys_flag=1),
        ]
    )

    assert [record.body for record in sender.stub.messages(TOPIC, 1)] == [b"0", b"1", b"2"]
    [record] = sender.stub.messages(TOPIC, 2)
    assert (record.body, record.flag, record.sys_flag & 1) == (b"packed", -7, 1)
    assert record.properties["a"] == '%d "quoted" \\ ü \U0001f600'


def test_a_first_request_creates_its_topic(make_sender: MakeSender) -> None:
    """A topic that does not exist is created by its first messages at each broker, also if its queues are frozen."""
    sender = make_sender(2)
    frozen = sender.cluster.writable.queues("new")
    outcomes = sender.send([single(number, queue) for number, queue in enumerate([*frozen, *frozen])])

    assert [outcome.error for outcome in outcomes] == [None] * 16
    assert Counter(outcome.receipt.queue for outcome in outcomes if outcome.receipt) == Counter([*frozen, *frozen])
    assert len(sender.stored("new", "broker-b")) == 8
