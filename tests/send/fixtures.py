"""A stub, and pipelines of sends to it, which end with the test."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from broker_stub import StubCluster
from pyspark_rocketmq.cluster.cluster import Cluster, open_cluster
from pyspark_rocketmq.cluster.settings import ClusterSettings
from pyspark_rocketmq.model import MessageQueue, SendRequest, parse_addresses
from pyspark_rocketmq.net.backoff import Backoff
from pyspark_rocketmq.send.outcome import Outcome
from pyspark_rocketmq.send.pipeline import SendPipeline
from pyspark_rocketmq.send.settings import SendSettings
from pyspark_rocketmq.wire.batch import BatchEntry, encode_batch

TOPIC, GROUP = "orders", "writers"


class Sender:
    """A stub with one topic, and pipelines to it."""

    def __init__(self, stub: StubCluster, **cluster: Any) -> None:
        self.stub = stub
        given = {"retries": 1, "pause": Backoff(0.01, 0.05), "route_max_age_s": 0.5, **cluster}
        self.cluster: Cluster = open_cluster(ClusterSettings(parse_addresses(stub.name_server), **given))
        self._open: list[SendPipeline] = []

    def pipeline(self, clock: Callable[[], float] = time.monotonic, **given: Any) -> SendPipeline:
        """Return a pipeline with these settings."""
        settings = SendSettings(**{"producer_group": GROUP, **given})
        self._open.append(SendPipeline(self.cluster, settings, self.cluster.writable.queues, clock))
        return self._open[-1]

    def send(self, requests: Sequence[SendRequest], **given: Any) -> list[Outcome]:
        """Send requests with a new pipeline, and return their outcomes in the order in which they ended."""
        pipeline = self.pipeline(**given)
        for request in requests:
            pipeline.submit(request)
        pipeline.flush()
        return pipeline.take_outcomes()

    def stored(self, topic: str = TOPIC, broker: str | None = None) -> list[bytes]:
        """Return the bodies of all stored messages."""
        return [record.body for record in self.stub.messages(topic, broker=broker)]

    def close(self) -> None:
        """Close all pipelines."""
        for pipeline in self._open:
            pipeline.close()


MakeSender = Callable[..., Sender]


@pytest.fixture
def make_sender(make_stub: Callable[..., StubCluster]) -> Iterator[MakeSender]:
    """Return a function that makes a stub and its sender; it takes the number of brokers and queues."""
    senders: list[Sender] = []

    def make(brokers: int = 1, queues: int = 4, cluster: dict[str, Any] | None = None, **options: Any) -> Sender:
        stub = make_stub(brokers, **{"topics": {TOPIC: queues}, **options})
        senders.append(Sender(stub, **(cluster or {})))
        return senders[-1]

    yield make
    for sender in senders:
        sender.close()


@pytest.fixture
def sender(make_sender: MakeSender) -> Sender:
    """Return a sender with one broker and a topic of four queues."""
    return make_sender()


def place(number: int = 0, broker: str = "a", topic: str = TOPIC) -> MessageQueue:
    """Return a queue of a broker of the stub."""
    return MessageQueue(topic, f"broker-{broker}", number)


def single(number: int, queue: MessageQueue | None = None, topic: str = TOPIC, body: bytes = b"") -> SendRequest:
    """Return a request of one row; its body is the row's number unless one is given."""
    text = f"UNIQ_KEY\x01{number:032X}\x02WAIT\x01true\x02"
    return SendRequest(queue.topic if queue else topic, queue, body or b"%d" % number, text, [number])


def batch(number: int, queue: MessageQueue) -> SendRequest:
    """Return a request of a batch message of one row, whose body is the row's number."""
    text = f"UNIQ_KEY\x01{number:032X}\x02"
    body = encode_batch([BatchEntry(b"%d" % number, text.encode())])
    return SendRequest(queue.topic, queue, body, "WAIT\x01true\x02", [number], is_batch=True)


def number_of(outcome: Outcome) -> int:
    """Return the row of a request of `single`."""
    [number] = outcome.request.rows
    return number
