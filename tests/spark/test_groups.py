"""Test queries with consumer groups through Spark: local offset files, queue locks, and shared membership."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from broker_stub import StubBroker
from pyspark_rocketmq.client.consumer import PushConsumer
from pyspark_rocketmq.client.membership import make_client_id
from pyspark_rocketmq.client.message import ReceivedMessage
from pyspark_rocketmq.client.results import SUCCESS, Consumed
from pyspark_rocketmq.client.settings import ConsumeFrom, ConsumerSettings
from pyspark_rocketmq.client.stores import offset_file
from pyspark_rocketmq.cluster.settings import ClusterSettings
from pyspark_rocketmq.model import parse_addresses
from pyspark_rocketmq.pull.settings import Subscription
from tests.spark.queries import GROUP, TOPIC, Sink, ends, run_to_end, running, stream, wait_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

OFTEN = {"processingTime": "200 milliseconds"}


@pytest.fixture
def stub() -> Iterator[StubBroker]:
    """A stub with one broker and a topic of four queues, each of which has two messages."""
    with StubBroker({TOPIC: 4}) as broker:
        put(broker, *"abcdefgh")
        yield broker


def put(stub: StubBroker, *bodies: str) -> None:
    """Send one message for each body, to the queues in turn."""
    for body in bodies:
        stub.put(TOPIC, body.encode())


def test_positions_in_a_file_serve_the_next_query(spark: SparkSession, stub: StubBroker, tmp_path: Path) -> None:
    """A query with a new checkpoint starts at the positions that another one stored in the local offset file."""
    place = {"messageModel": "BROADCASTING", "consumerGroup": GROUP, "localOffsetStoreDir": str(tmp_path / "offsets")}
    run_to_end(stream(spark, stub, **place), Sink(), tmp_path / "first")
    put(stub, *"ij")
    sink = Sink()
    run_to_end(stream(spark, stub, **{**place, "startingOffsets": "group"}), sink, tmp_path / "second")
    assert sink.bodies == ["i", "j"]
    assert offset_file(tmp_path / "offsets", make_client_id("DEFAULT"), GROUP).exists()
    assert stub.offsets(GROUP) == {}


def test_locks_are_held_while_a_query_runs(spark: SparkSession, stub: StubBroker, tmp_path: Path) -> None:
    """A query holds the locks of its queues while it runs, and releases them when it stops."""
    sink = Sink()
    frame = stream(spark, stub, consumerGroup=GROUP, ordering="queue", lockQueues="true", instanceName="one")
    with running(frame, sink, tmp_path, **OFTEN):
        wait_for(lambda: len(sink.rows) == 8, "all rows")
        assert set(stub.locks(GROUP).values()) == {make_client_id("one")} and len(stub.locks(GROUP)) == 4
    wait_for(lambda: stub.locks(GROUP) == {}, "all locks are free")


def test_a_query_and_a_consumer_share_a_group(spark: SparkSession, stub: StubBroker, tmp_path: Path) -> None:
    """If a query and a consumer are members of one group, together they read and commit all messages."""
    bodies: list[str] = []

    def listen(messages: Sequence[ReceivedMessage]) -> Consumed:
        bodies.extend(message.body.decode() for message in messages)
        return SUCCESS

    settings = ConsumerSettings(
        group=GROUP, subscriptions={TOPIC: Subscription()}, consume_from=ConsumeFrom.FIRST_OFFSET
    )
    other = PushConsumer.concurrent(ClusterSettings(parse_addresses(stub.name_server)), settings, listen)
    given = {"groupMembership": "shared", "consumerGroup": GROUP, "startingOffsets": "group", "rebalanceInterval": "1s"}
    sink, frame = Sink(), stream(spark, stub, **given)
    with running(frame, sink, tmp_path, **OFTEN):
        wait_for(lambda: len(sink.rows) == 8, "the query has the first rows")
        with other:
            wait_for(lambda: len([queue for queue in other.queues if queue.topic == TOPIC]) == 2, "half is its own")
            put(stub, *"ijklmnop")
            wait_for(lambda: {*sink.bodies, *bodies} == set("abcdefghijklmnop"), "nothing is missing")
    put(stub, *"qrst")
    run_to_end(frame, sink, tmp_path)
    assert {*sink.bodies, *bodies} == set("abcdefghijklmnopqrst")
    assert {queue: at for queue, at in stub.offsets(GROUP).items() if queue.topic == TOPIC} == ends(stub)
