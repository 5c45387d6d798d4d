"""Test which queues of the retry topic get copies of messages that their broker does not take back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from pyspark_rocketmq.client.message import ReceivedMessage
from pyspark_rocketmq.client.redelivery import Redelivery
from pyspark_rocketmq.cluster.messages import Sending
from pyspark_rocketmq.cluster.names import Namespace
from pyspark_rocketmq.errors import ConnectError, NoBrokerAvailable
from pyspark_rocketmq.model import MessageQueue, retry_topic
from tests.client.fixtures import GROUP, ManualClock, queue

RETRIES = [MessageQueue(retry_topic(GROUP), "broker-a", number) for number in range(5)]
RECORD = SimpleNamespace(body=b"x", flag=3, sys_flag=0, reconsume_times=0, physical_offset=7)
MESSAGE = SimpleNamespace(
    queue=queue(0), topic="orders", message_id="id", properties={"a": "b"}, record=RECORD, reconsume_times=2
)


class Brokers:
    """Stands for a cluster that refuses the first sends."""

    def __init__(self, refused: int, queues: list[MessageQueue]) -> None:
        self.refused = refused
        self.sent: list[Sending] = []
        self.messages = self.routes = self
        self.settings = SimpleNamespace(namespace=Namespace(""))
        self._queues = queues

    def route(self, topic: str) -> Any:
        """Return a route with these writable queues."""
        assert topic == retry_topic(GROUP)
        return SimpleNamespace(writable=self._queues)

    def send_back(self, *_: Any, **__: Any) -> None:
        """Take no message back."""
        raise ConnectError("refused")

    def send(self, sending: Sending, deadline: object) -> None:
        """Note a copy, and refuse it if it is one of the first."""
        self.sent.append(sending)
        self.refused -= 1
        if self.refused >= 0:
            raise ConnectError("refused")


def redelivery(brokers: Brokers) -> Redelivery:
    """Return the redelivery of a group at these brokers."""
    return Redelivery(cast(Any, brokers), GROUP, 16, ManualClock())


def test_a_copy_is_sent_to_three_queues_at_most() -> None:
    """If sending a copy fails, the next queue is tried; after the third failure the error is raised."""
    brokers = Brokers(3, RETRIES)
    with pytest.raises(ConnectError):
        redelivery(brokers).send_back(cast(ReceivedMessage, MESSAGE))
    assert [sent.queue for sent in brokers.sent] == RETRIES[:3]

    brokers = Brokers(2, RETRIES)
    redelivery(brokers).send_back(cast(ReceivedMessage, MESSAGE))
    assert [sent.queue for sent in brokers.sent] == RETRIES[:3]


def test_copies_take_turns_among_the_queues() -> None:
    """Each copy begins with the queue after the one with which the last copy began."""
    brokers = Brokers(0, RETRIES[:2])
    each = redelivery(brokers)
    for _ in range(3):
        each.send_copy(cast(ReceivedMessage, MESSAGE))
    assert [sent.queue.queue_id for sent in brokers.sent] == [0, 1, 0]


def test_a_copy_is_delayed_as_the_broker_would_delay_it() -> None:
    """A copy states where it comes from, how often it was tried, and a delay level of 3 plus that number."""
    brokers = Brokers(0, RETRIES)
    redelivery(brokers).send_copy(cast(ReceivedMessage, MESSAGE))
    (sent,) = brokers.sent
    assert (sent.body, sent.flag, sent.sys_flag, sent.reconsume_times) == (b"x", 3, 0, 3)
    stated = dict(each.split("\x01") for each in sent.properties.strip("\x02").split("\x02"))
    assert stated == {
        "a": "b",
        "RETRY_TOPIC": "orders",
        "ORIGIN_MESSAGE_ID": "id",
        "DELAY": "5",
        "RECONSUME_TIME": "3",
        "MAX_RECONSUME_TIMES": "16",
    }


def test_without_queues_nothing_can_be_copied() -> None:
    """If the retry topic has no writable queue, an error says so."""
    with pytest.raises(NoBrokerAvailable, match="takes no messages now"):
        redelivery(Brokers(0, [])).send_copy(cast(ReceivedMessage, MESSAGE))
