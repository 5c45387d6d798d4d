"""A closed member or producer sends no more requests, even if one of its threads is late."""

from __future__ import annotations

import pytest

from pyspark_rocketmq.errors import SendError
from pyspark_rocketmq.model import Message
from tests.client.fixtures import GROUP, TOPIC, Group, Log, queue, until


def test_a_closed_member_does_not_come_back(group: Group) -> None:
    """If a round runs or a heartbeat is due after the member was closed, brokers do not list the member again."""
    consumer = group.concurrent(Log())
    until(lambda: GROUP in group.stub.groups() and len(consumer.queues) == 5)
    consumer.close()
    member = consumer._member

    member.rebalancer.run_round()
    assert member.membership.heartbeat() == 0
    assert group.stub.groups() == {}
    assert repr(member.pool) == "<SharedPool 0 open, 0 opening>"


def test_a_closed_producer_sends_nothing(group: Group) -> None:
    """A send after closing raises an error that says so, and stores nothing."""
    producer = group.producer()
    producer.send(Message(TOPIC, b"before"))
    producer.close()
    with pytest.raises(SendError, match="the client was closed"):
        producer.send(Message(TOPIC, b"after"), queue(0))

    assert [record.body for record in group.stub.messages(TOPIC)] == [b"before"]
