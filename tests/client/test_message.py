"""The fields of a received message are decoded when a caller reads them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from pyspark_rocketmq.client.message import Pulled, ReceivedMessage, read_batch, read_messages, view_record
from pyspark_rocketmq.errors import DecodeError
from pyspark_rocketmq.model import Address, MessageQueue
from pyspark_rocketmq.wire.batch import BatchEntry, encode_batch
from pyspark_rocketmq.wire.codes import SysFlag
from pyspark_rocketmq.wire.compression import Compression, compress
from pyspark_rocketmq.wire.properties import encode_properties
from pyspark_rocketmq.wire.record import Record, encode_record
from tests.client.fixtures import queue

HERE, SIX = Address("10.0.0.1", 10911), Address("::1", 10911)
ORDERS = queue(0)
PLAIN = Record(
    topic="orders",
    queue_id=0,
    queue_offset=7,
    physical_offset=4711,
    born_timestamp=1,
    born_host=HERE,
    store_timestamp=2,
    store_host=HERE,
    body=b"hello",
    properties_text=encode_properties({"TAGS": "t", "KEYS": "k", "UNIQ_KEY": "ID", "colour": "red"}),
    reconsume_times=3,
)


def _pulled(*records: Record, at: MessageQueue = ORDERS, unwrap: Callable[[str], str] = str) -> Pulled:
    return Pulled(at, memoryview(b"".join(map(encode_record, records))), 5, 99, unwrap)


def test_every_field_can_be_asked_for() -> None:
    """A message has its queue and offset, its contents, its times, and the bounds of its queue."""
    [message] = read_messages(_pulled(PLAIN), 7)

    assert (message.topic, message.queue, message.offset) == ("orders", queue(0), 7)
    assert (message.body, message.tags, message.keys, message.message_id) == (b"hello", "t", "k", "ID")
    assert (message.reconsume_times, message.born_timestamp_ms, message.store_timestamp_ms) == (3, 1, 2)
    assert (message.min_offset, message.max_offset, message.body_bytes) == (5, 99, 5)
    assert message.properties["colour"] == "red"


def test_failures_here_count_beside_those_its_broker_knows() -> None:
    """If a message was sent back three times and failed once more in this client, `reconsume_times` is four."""
    [message] = read_messages(_pulled(PLAIN), 7)
    message.failed_here += 1

    assert message.reconsume_times == 4


@pytest.mark.parametrize("flags", [0, SysFlag.BORN_HOST_V6, SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6])
def test_bodies_are_measured_behind_hosts_of_either_kind(flags: int) -> None:
    """The body and its size are right for records with IPv4 and with longer IPv6 addresses."""
    born = SIX if flags & SysFlag.BORN_HOST_V6 else HERE
    stored = SIX if flags & SysFlag.STORE_HOST_V6 else HERE
    record = replace(PLAIN, sys_flag=flags, born_host=born, store_host=stored)
    [message] = read_messages(_pulled(record), 7)

    assert (message.body_bytes, message.body) == (5, b"hello")


def test_a_packed_body_is_unpacked_when_asked_for() -> None:
    """For a compressed message `body` is decompressed, and `body_bytes` is the compressed size."""
    packed = compress(b"x" * 1000, Compression.ZLIB)
    [message] = read_messages(_pulled(replace(PLAIN, body=packed, sys_flag=Compression.ZLIB.sys_flag)), 7)

    assert message.body_bytes == len(packed)
    assert message.body == b"x" * 1000


def test_an_inner_batch_is_several_messages() -> None:
    """Each message of an inner batch has its own offset, and those before the requested offset are left out."""
    body = encode_batch([BatchEntry(b"%d" % number) for number in range(4)])
    batch = replace(PLAIN, body=body, sys_flag=SysFlag.NEED_UNWRAP | SysFlag.INNER_BATCH)
    messages = read_messages(_pulled(batch), 8)

    assert [(message.offset, message.body) for message in messages] == [(8, b"1"), (9, b"2"), (10, b"3")]


@pytest.mark.parametrize("topic", ["%RETRY%g", "%DLQ%g"])
def test_retries_and_dead_letters_tell_where_they_came_from(topic: str) -> None:
    """For a retry or dead letter `topic` is the topic it was first sent to, without the namespace."""
    record = replace(PLAIN, topic=topic, properties_text=encode_properties({"RETRY_TOPIC": "NS%orders"}))
    pulled = _pulled(record, at=queue(0, topic), unwrap=lambda name: name.removeprefix("NS%"))
    [message] = read_messages(pulled, 7)

    assert (message.topic, message.queue.topic) == ("orders", topic)


def test_without_a_unique_id_the_brokers_counts() -> None:
    """If a message has no unique id, `message_id` is the broker's id, made from the record's position."""
    message = view_record(_pulled(), replace(PLAIN, properties_text=b""))

    assert message.message_id == message.record.offset_message_id


def test_a_broken_answer_is_an_error() -> None:
    """If a response is truncated, reading its messages raises an error."""
    pulled = _pulled(PLAIN)
    with pytest.raises(DecodeError):
        read_messages(pulled._replace(data=pulled.data[:-3]), 7)


def test_messages_are_made_when_somebody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch and its pieces know their offsets and sizes before any message object is made."""
    made: list[int] = []
    monkeypatch.setattr(ReceivedMessage, "__init__", _noting(made))
    batch = read_batch(_pulled(*(replace(PLAIN, queue_offset=number) for number in range(7, 12))), 7)
    assert batch is not None
    pieces = batch.pieces(2)

    assert [(piece.offset, piece.last_offset, len(piece)) for piece in pieces] == [(7, 8, 2), (9, 10, 2), (11, 11, 1)]
    assert sum(piece.body_bytes for piece in pieces) == batch.body_bytes
    assert not made
    assert [message.offset for piece in pieces for message in piece] == made == [7, 8, 9, 10, 11]


def _noting(made: list[int]) -> Callable[[ReceivedMessage, Pulled, int], None]:
    make = ReceivedMessage.__init__

    def note(message: ReceivedMessage, pulled: Pulled, start: int) -> None:
        make(message, pulled, start)
        made.append(message.offset)

    return note


def test_messages_once_made_stay_the_same() -> None:
    """If a batch has made its message objects, its pieces have the same objects."""
    batch = read_batch(_pulled(PLAIN, replace(PLAIN, queue_offset=8)), 7)
    assert batch is not None
    batch[1].failed_here += 1

    first, second = batch.pieces(1)
    assert (first[0].failed_here, second[0].failed_here) == (0, 1)
    assert second[0] is batch[1]


def test_an_answer_without_messages_is_no_batch() -> None:
    """An empty response, or an inner batch wholly before the requested offset, gives None instead of a batch."""
    body = encode_batch([BatchEntry(b"x")])
    inner = replace(PLAIN, body=body, sys_flag=SysFlag.NEED_UNWRAP | SysFlag.INNER_BATCH)

    assert read_batch(_pulled(), 7) is None
    assert read_batch(_pulled(inner), 8) is None
    assert not read_messages(_pulled(inner), 8)


@pytest.mark.parametrize("made_before", [True, False])
def test_a_batch_notes_when_its_listener_began(made_before: bool) -> None:
    """All messages of a batch have the latest CONSUME_START_TIME, whenever their objects and properties were made."""
    batch = read_batch(_pulled(PLAIN, replace(PLAIN, queue_offset=8)), 7)
    assert batch is not None
    if made_before:
        assert ["CONSUME_START_TIME" in message.properties for message in batch] == [False, False]
    batch.note_consume_start(4711)
    assert [message.properties["CONSUME_START_TIME"] for message in batch] == ["4711", "4711"]
    batch.note_consume_start(4712)

    assert [message.properties["CONSUME_START_TIME"] for message in batch] == ["4712", "4712"]
    assert batch[0].properties["colour"] == "red"
