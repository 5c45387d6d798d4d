"""A closed member or producer stays closed, also for threads that are late."""

from __future__ import annotations

import pytest

from pyspark_rocketmq.errors import SendError
from pyspark_rocketmq.model import Message
from tests.client.fixtures import GROUP, TOPIC, Group, Log, queue, until


def test_a_closed_member_does_not_come_back(group: Group) -> None:
    """A late round, such as one that a slow broker held up, changes nothing, and no broker lists the member again."""
    consumer = group.concurrent(Log())
    until(lambda: GROUP in group.stub.groups() and len(consumer.queues) == 5)
    consumer.close()
    member = consumer._member

    member.rebalancer.run_round()
    assert member.membership.heartbeat() == 0
    assert group.stub.groups() == {}
    assert repr(member.pool) == "<SharedPool 0 open, 0 opening>"


def test_a_closed_producer_sends_nothing(group: Group) -> None:
    """A send after the end raises an error that says why."""
    producer = group.producer()
    producer.send(Message(TOPIC, b"before"))
    producer.close()
    with pytest.raises(SendError, match="the client was closed"):
        producer.send(Message(TOPIC, b"after"), queue(0))

    assert [record.body for record in group.stub.messages(TOPIC)] == [b"before"]
