"""Read rows that Spark has written with official consumers, on brokers of every release.

The oracle is the official producer, as in `test_encode`, which has what needs no Spark.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.flows.world import World, fresh, now_ms
from tests.real.java_clients import JavaClients, Json, message, queue
from tests.real.servers import RealCluster
from tests.real.test_encode import as_received, read
from tests.real.worlds import real_world

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.real, pytest.mark.spark]


@pytest.fixture
def world(real_cluster: RealCluster) -> World:
    """The cluster of the test."""
    return real_world(real_cluster)


class Row(NamedTuple):
    """A row to write, with its properties and keys as bytes."""

    body: str
    tags: str | None = None
    keys: bytes | None = None
    properties: Sequence[tuple[str, bytes | None]] | None = None
    shardingKey: str | None = None
    queueId: int = 0
    flag: int | None = None
    rowId: str | None = None

    def as_java_sends_it(self, topic: str) -> Json:
        """Return the message as the official producer takes it."""
        known = {"TAGS": self.tags, "KEYS": (self.keys or b"").decode(), "__SHARDINGKEY": self.shardingKey}
        own = {name: value.decode() for name, value in self.properties or () if value is not None}
        given = {name: text for name, text in known.items() if text} | own
        return {**message(topic, self.body, **given), "flag": self.flag or 0}


COLUMNS = (
    "body STRING, tags STRING, keys BINARY, properties ARRAY<STRUCT<key: STRING, value: BINARY>>, shardingKey STRING, "
    "queueId INT, flag INT, rowId STRING"
)
ROWS = (
    Row("häagen €😀", "t1", b"k1 k2", [("stadt", "Brno ☕".encode()), ("n", b"1")], "s1", 0, 7, "a"),
    Row("plain", queueId=1),
    Row("empty", "", b"", [], "", 0, -1, ""),
    Row("a null value", "t2", "ключ".encode(), [("kept", b"x"), ("left out", None)], "s2", 1, 2**31 - 1, "b"),
)


def write(frame: DataFrame, world: World, topic: str, **options: str) -> None:
    """Write a frame to a topic, as a batch."""
    given = {"nameServer": world.name_server, "topic": topic, **options}
    frame.write.format("rocketmq").mode("append").options(**given).save()


@pytest.mark.parametrize("size", [1, 32])
def test_rows_of_spark_arrive_as_messages_of_the_official_producer(
    spark: SparkSession, world: World, official: JavaClients, size: int
) -> None:
    """The official consumer reports the same of rows as of the official producer's messages, singly or batched."""
    ours, theirs = world.make_topic(2)[0].topic, world.make_topic(2)[0].topic

    write(spark.createDataFrame(ROWS, COLUMNS).coalesce(1), world, ours, sendBatchSize=str(size))
    by_queue = defaultdict[int, list[Json]](list)
    for row in ROWS:
        by_queue[row.queueId].append(row.as_java_sends_it(theirs))
    producer = official.producer(fresh("group"))
    for number, messages in by_queue.items():
        for part in [messages] if size > 1 else messages:
            producer.call("send", part, queue(theirs, "broker-a", number))

    received = read(official, ours, len(ROWS))
    wanted = {each["body"]: as_received(each) for each in read(official, theirs, len(ROWS))}
    assert {each["body"]: as_received(each) for each in received} == wanted
    ids = {each["msgId"] for each in received}
    assert len(ids) == len(ROWS) and all(len(each) == 32 and each[20:28] == "0" * 8 for each in ids)
    assert all(each["properties"]["UNIQ_KEY"] == each["msgId"] for each in received)


BY_TIMER = {"REAL_TOPIC", "TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS"}
"""Properties in which a timer notes its own work: two times, and the topic, which differs here."""


def test_times_and_large_bodies_of_spark_arrive_as_the_official_producers(
    spark: SparkSession, world: World, official: JavaClients
) -> None:
    """A TIMESTAMP to deliver at, and a body that is sent compressed, arrive as the official producer's."""
    ours, theirs = world.make_topic()[0].topic, world.make_topic()[0].topic
    due_ms, large = now_ms() + 2500, "0123456789" * 1000
    bodies = {large: None, "timed": due_ms, "now": None}

    frame = spark.createDataFrame(list(bodies.items()), "body STRING, ms BIGINT")
    timed = frame.selectExpr("body", "timestamp_millis(ms) AS deliverTimeMs")
    write(timed.coalesce(1), world, ours, sendBatchSize="1")
    producer = official.producer(fresh("group"))
    for body, time_ms in bodies.items():
        given = {"TIMER_DELIVER_MS": str(time_ms)} if time_ms else {}
        producer.call("send", message(theirs, body, **given))

    def seen(topic: str) -> dict[str, Any]:
        deliveries = {each["body"]: each for each in read(official, topic, len(bodies))}
        stored_ms, born_ms = (deliveries["timed"][f"{kind}Timestamp"] for kind in ("store", "born"))
        assert world.by_version({"4.9": stored_ms - born_ms < 900, "5": stored_ms >= due_ms - 1000})
        assert deliveries[large]["storeSize"] < len(large) / 4
        return {body: _without_timer(as_received(each)) for body, each in deliveries.items()}

    assert seen(ours) == seen(theirs)


def _without_timer(shown: Json) -> Json:
    """Return what a consumer reports, without what a timer notes, and without the sum of compressed bytes."""
    properties = {name: text for name, text in shown["properties"].items() if name not in BY_TIMER}
    return {**shown, "properties": properties, "bodyCRC": None}
