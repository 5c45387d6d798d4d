"""Scenarios of sends: brokers store each message as it was sent."""

from __future__ import annotations

import pytest

from pyspark_rocketmq.broker_errors import MessageIllegal
from pyspark_rocketmq.errors import BrokerError
from pyspark_rocketmq.wire.codes import ResponseCode
from pyspark_rocketmq.wire.compression import Compression, compress
from tests.flows.world import World, now_ms, sending


def message_is_stored_whole(world: World) -> None:
    """Check that body, tag, keys and properties are read as sent, and that the receipt has offset and id."""
    queue = world.make_topic(2)[1]

    receipt = world.send(queue, b"two lattes", TAGS="new", KEYS="k1 k2", city="Brno ☕")

    [record] = world.read(queue)
    assert (receipt.status, receipt.queue, receipt.queue_offset) == (ResponseCode.SUCCESS, queue, 0)
    assert (record.topic, record.queue_id, record.queue_offset, record.body) == (queue.topic, 1, 0, b"two lattes")
    assert {"TAGS": "new", "KEYS": "k1 k2", "city": "Brno ☕"}.items() <= record.properties.items()
    assert record.offset_message_id == receipt.message_id
    record.check_crc()


def batch_is_stored_one_by_one(world: World) -> None:
    """Check that every message of a batch has its own offset and id."""
    queue = world.make_queue()

    world.send(queue, b"before")
    world.fill(queue, 5, TAGS="t")

    records = world.read(queue)
    assert [record.queue_offset for record in records] == list(range(6))
    assert [record.body[:1] for record in records[1:]] == [b"0", b"1", b"2", b"3", b"4"]
    assert {record.properties.get("TAGS") for record in records[1:]} == {"t"}
    assert len({record.offset_message_id for record in records}) == 6


def oneway_message_arrives(world: World) -> None:
    """Check that a message is stored that is sent by a one-way request."""
    queue = world.make_queue()

    world.cluster.messages.send_oneway(sending(queue, b"quick", {}))

    assert [record.body for record in world.await_messages(queue)] == [b"quick"]


def delayed_message_comes_later(world: World) -> None:
    """Check that a message with delay level 1 appears in its queue one second after the send."""
    queue, sent_at = world.make_queue(), now_ms()

    world.cluster.messages.send(sending(queue, b"later", {"DELAY": "1"}))

    [record] = world.await_messages(queue)
    assert (record.topic, record.queue_id, record.body) == (queue.topic, queue.queue_id, b"later")
    assert record.store_timestamp - sent_at >= 900


def packed_bodies_come_back(world: World) -> None:
    """Check that brokers store compressed bodies unchanged, in each of the three compression formats."""
    queue, body = world.make_queue(), b"abc" * 3000

    for compression in Compression:
        packed = sending(queue, compress(body, compression), {}, sys_flag=compression.sys_flag)
        world.cluster.messages.send(packed)

    records = world.await_messages(queue, 3)
    assert [record.unpacked_body() for record in records] == [body] * 3
    assert max(len(record.body) for record in records) < len(body) / 10


def binary_body_survives(world: World) -> None:
    """Check that a body of all 256 byte values is stored unchanged."""
    queue, body = world.make_queue(), bytes(range(256))

    world.send(queue, body)

    assert world.read(queue)[0].body == body


def oversized_message_is_refused(world: World) -> None:
    """Check that a broker refuses a message above four MiB, and that the connection stays open."""
    queue = world.make_queue()

    with pytest.raises(MessageIllegal, match=queue.topic):
        world.send(queue, b"x" * (4 * 2**20 + 100_000))

    assert world.send(queue).queue_offset == 0


def unknown_queue_is_refused(world: World) -> None:
    """Check that a send to a queue number that the topic lacks is an error that names topic and queue."""
    queue = world.make_queue()._replace(queue_id=77)

    with pytest.raises(BrokerError, match=rf"topic {queue.topic}.*queue 77"):
        world.send(queue)


def store_time_is_the_brokers(world: World) -> None:
    """Check that a message's store time is set by the broker, and its born time by the sender."""
    queue, before = world.make_queue(), now_ms()

    world.send(queue)

    [record] = world.read(queue)
    assert before - 1000 <= record.store_timestamp <= now_ms() + 1000
    assert before <= record.born_timestamp <= now_ms()
