"""Scenarios that look up single messages by key, by unique id and by offset message id."""

from __future__ import annotations

import pytest

from pyspark_rocketmq.errors import BrokerError
from pyspark_rocketmq.wire.message_id import decode_offset_message_id, encode_offset_message_id
from tests.flows.world import World, fresh, until


def message_is_found_by_key(world: World) -> None:
    """Check that a message is found by each of its keys, in each queue, and that an unknown key finds none."""
    first, second = world.make_topic(2)
    messages = world.cluster.messages
    world.send(first, b"1", KEYS="a b")
    world.send(second, b"2", KEYS="b")

    until(lambda: len(messages.query_by_key(first.topic, "b").messages) == 2, "the index has both messages")

    assert {found.queue: found.record.body for found in messages.query_by_key(first.topic, "b").messages} == {
        first: b"1",
        second: b"2",
    }
    assert [found.record.body for found in messages.query_by_key(first.topic, "a").messages] == [b"1"]
    assert messages.query_by_key(first.topic, "c").messages == []


def message_is_found_by_unique_id(world: World) -> None:
    """Check that a message is found by the unique id that its producer gave it."""
    queue, unique_id = world.make_queue(), fresh("id")
    world.send(queue, b"me", UNIQ_KEY=unique_id)

    messages = world.cluster.messages
    until(lambda: messages.query_by_unique_key(queue.topic, unique_id), "the index has the message")

    [found] = messages.query_by_unique_key(queue.topic, unique_id)
    assert (found.queue, found.record.body) == (queue, b"me")


def message_is_found_by_offset_id(world: World) -> None:
    """Check that a message is found by the offset message id that the broker gave it."""
    queue = world.make_queue()
    receipt = world.send(queue, b"me")

    record = world.cluster.messages.view(receipt.message_id)

    assert (record.topic, record.queue_offset, record.body) == (queue.topic, 0, b"me")


def message_that_is_not_there(world: World) -> None:
    """Check that an offset message id beyond the end of the commit log is an error that names broker and request."""
    receipt = world.send(world.make_queue())
    host, offset = decode_offset_message_id(receipt.message_id)

    with pytest.raises(BrokerError, match="VIEW_MESSAGE_BY_ID"):
        world.cluster.messages.view(encode_offset_message_id(host, offset + 10**9))
