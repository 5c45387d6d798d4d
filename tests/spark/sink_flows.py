"""Flows of a DataFrame that is written to a topic; they must pass on every cluster, stub or real.

A flow is a public function that takes a session, a `World` and a folder. Flows whose names begin with `two_brokers_`
need two masters, `closed_` a cluster that creates no topics; all others need one broker, and pass with access control,
TLS and namespaces, too.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pyspark_rocketmq.cluster.signing import Credentials
from pyspark_rocketmq.model import MessageQueue, QueueRange
from pyspark_rocketmq.wire.record import Record, decode_records
from tests.flows.reading import read_all
from tests.flows.world import World, fresh, now_ms, until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = (
    "body string, tags string, keys array<string>, properties map<string,string>, shardingKey string, queueId int, "
    "brokerName string, flag int, rowId string"
)
BY_BROKERS = {"CLUSTER", "MSG_REGION", "TRACE_ON", "REAL_TOPIC", "REAL_QID"}
"""Properties that brokers add."""


def _writer_options(world: World) -> dict[str, str]:
    """Return the options with which a writer reaches this cluster."""
    options = {"nameServer": world.name_server, "pollNameServerInterval": "1s"}
    settings = world.settings
    if isinstance(settings.credentials, Credentials):
        options |= {"accessKey": settings.credentials.access_key, "secretKey": settings.credentials.secret_key}
    if settings.net.tls:
        options |= {"useTLS": "true", "tlsTrustCertPath": str(settings.net.tls.trust_cert_path)}
    if settings.namespace.prefix:
        options["namespace"] = settings.namespace.prefix
    return options


def _write(frame: DataFrame, world: World, topic: str, **options: str) -> None:
    """Write a frame to a topic, as a batch."""
    writer = frame.write.format("rocketmq").mode("append").options(**_writer_options(world), topic=topic)
    writer.options(**options).save()


def _stored(world: World, topic: str) -> dict[MessageQueue, list[Record]]:
    """Return all messages of a topic, by queue and in the order of offsets."""
    queues = world.cluster.routes.route(topic).readable
    ends = world.cluster.offsets.fetch_max(queues)
    found: defaultdict[MessageQueue, list[Record]] = defaultdict(list)
    for block in read_all(world.cluster, [QueueRange(queue, 0, ends[queue]) for queue in queues]):
        found[block.wanted.queue] += decode_records(block.data)
    return {queue: sorted(records, key=lambda each: each.queue_offset) for queue, records in found.items()}


def _await_stored(world: World, topic: str, count: int) -> list[Record]:
    """Wait until a topic has `count` messages; return all its messages."""

    def all_stored() -> list[Record]:
        return [record for records in _stored(world, topic).values() for record in records]

    until(lambda: len(all_stored()) >= count, f"{count} messages in {topic}")
    return all_stored()


def every_column_arrives(spark: SparkSession, world: World, _: Path) -> None:
    """Check that body, flag, queue and every property of a message are those of its row."""
    topic = world.make_topic(2)[0].topic
    broker = world.route_names(topic)[0]
    rows = [
        ("häagen €", "new", ["k1", "k2"], {"city": "Brno ☕", "left out": None}, "s", 1, broker, 7, "a"),
        ("plain", None, None, {}, None, 0, None, None, None),
        ("x" * 10_000, "", [], None, "", None, None, -1, ""),
    ]

    _write(spark.createDataFrame(rows, COLUMNS), world, topic)

    records = {record.unpacked_body().decode(): record for record in _await_stored(world, topic, 3)}
    wanted = {"city": "Brno ☕", "TAGS": "new", "KEYS": "k1 k2", "__SHARDINGKEY": "s", "WAIT": "true"}
    assert [_own_properties(records[row[0]]) for row in rows] == [wanted, {"WAIT": "true"}, {"WAIT": "true"}]
    assert [records[row[0]].flag for row in rows] == [7, 0, -1]
    assert [records[row[0]].queue_id for row in rows[:2]] == [1, 0]
    assert len({record.properties["UNIQ_KEY"] for record in records.values()}) == 3


def _own_properties(record: Record) -> dict[str, str]:
    """Return the properties of a message without its id and without those that brokers add."""
    return {name: text for name, text in record.properties.items() if name not in BY_BROKERS | {"UNIQ_KEY"}}


def delayed_rows_come_when_they_should(spark: SparkSession, world: World, _: Path) -> None:
    """Check that a row with a delay level or a delivery time is stored after that; 4.9 ignores delivery times."""
    topic, start = world.make_topic()[0].topic, now_ms()
    rows = [("level", 1, None), ("time", None, start + 8000), ("now", 0, 0)]

    _write(spark.createDataFrame(rows, "body string, delayTimeLevel int, deliverTimeMs bigint"), world, topic)

    records = {record.body.decode(): record for record in _await_stored(world, topic, 3)}
    level, now = records["level"], records["now"]
    assert level.store_timestamp - level.born_timestamp >= 900
    assert now.store_timestamp - now.born_timestamp < 900
    is_late = records["time"].store_timestamp >= start + 7000
    assert is_late == world.by_version({"4.9": False, "5": True})


def rows_of_a_key_stay_in_order(spark: SparkSession, world: World, _: Path) -> None:
    """Check that with `ordering=key` the rows of a key are in one queue, in the order of the frame."""
    topic = world.make_topic(4)[0].topic
    frame = spark.range(3000).selectExpr("CAST(id AS string) AS body", "CONCAT('k', id % 50) AS shardingKey")

    _write(frame.repartition(2, "shardingKey").sortWithinPartitions("body"), world, topic, ordering="key")

    _await_stored(world, topic, 3000)
    rows_of: defaultdict[tuple[str, MessageQueue], list[str]] = defaultdict(list)
    for queue, records in _stored(world, topic).items():
        for record in records:
            rows_of[record.properties["__SHARDINGKEY"], queue].append(record.body.decode())
    assert len(rows_of) == 50
    assert all(earlier < later for rows in rows_of.values() for earlier, later in pairwise(rows))


def a_missing_topic_is_made(spark: SparkSession, world: World, _: Path) -> None:
    """Check that the first row to an unknown topic makes the topic, where brokers allow it."""
    topic = fresh("made")

    _write(spark.range(10).selectExpr("CAST(id AS string) AS body"), world, topic)

    assert len(_await_stored(world, topic, 10)) == 10


def missing_topics_of_a_column_are_made(spark: SparkSession, world: World, _: Path) -> None:
    """Check that the first rows to unknown topics of the column `topic` make these topics."""
    topics = [fresh("made") for _ in range(2)]
    columns = [f"IF(id % 2 = 0, '{topics[0]}', '{topics[1]}') AS topic", "CAST(id AS string) AS body"]
    writer = spark.range(0, 40, 1, 2).selectExpr(*columns).write.format("rocketmq").mode("append")

    writer.options(**_writer_options(world)).save()

    stored = [sorted(int(record.body) for record in _await_stored(world, topic, 20)) for topic in topics]
    assert stored == [list(range(0, 40, 2)), list(range(1, 40, 2))]


def closed_cluster_refuses_a_missing_topic(spark: SparkSession, world: World, _: Path) -> None:
    """Check that a write to an unknown topic fails with an error that names it, where brokers make no topics."""
    topic = fresh("missing")

    with pytest.raises(Exception, match=rf"TOPIC_NOT_(FOUND|EXIST)(?s:.*){topic}"):
        _write(spark.range(10).selectExpr("CAST(id AS string) AS body"), world, topic, sendTimeoutMs="1s")

    assert world.route_names(topic) == ()


def only_append_is_accepted(spark: SparkSession, world: World, _: Path) -> None:
    """Check that each save mode but append is an error that says so, and that nothing is written."""
    topic = world.make_topic()[0].topic
    frame = spark.range(10).selectExpr("CAST(id AS string) AS body")

    for mode in ("overwrite", "ignore", "error"):
        with pytest.raises(Exception, match=r"(?i)append"):
            frame.write.format("rocketmq").mode(mode).options(**_writer_options(world), topic=topic).save()

    assert _stored(world, topic) == {}


def a_stream_writes_each_row_once(spark: SparkSession, world: World, folder: Path) -> None:
    """Check that a query that copies a topic, in several batches and runs, writes each message once."""
    source, target = world.make_topic(2), world.make_topic(4)[0].topic
    reader = spark.readStream.format("rocketmq").options(**_writer_options(world), startingOffsets="earliest")
    frame = reader.options(subscribe=source[0].topic, maxOffsetsPerTrigger="40").load()
    for count in (50, 30):
        for queue in source:
            world.fill(queue, count, TAGS="t", colour="red")
        writer = frame.select("body", "tags", "keys", "properties").writeStream.format("rocketmq")
        writer.options(**_writer_options(world), topic=target, checkpointLocation=str(folder))
        assert writer.trigger(availableNow=True).start().awaitTermination(120)

    records = _await_stored(world, target, 160)
    assert len(records) == len({record.properties["UNIQ_KEY"] for record in records}) == 160
    assert {record.properties["TAGS"] + record.properties["colour"] for record in records} == {"tred"}


def two_brokers_take_a_batch_although_one_stops(spark: SparkSession, world: World, folder: Path) -> None:
    """Check that all rows of a batch are stored although one of two masters stops in the middle of it."""
    queues = world.make_topic(4)
    topic, victim = queues[0].topic, queues[-1].broker_name
    asks, goes_on = folder / "asks", folder / "goes on"

    def wait_in_the_middle(batches: Iterator[object]) -> Iterator[object]:
        for number, batch in enumerate(batches):
            if number == 1:
                asks.touch()
                ends = time.monotonic() + 60
                while not goes_on.exists() and time.monotonic() < ends:
                    time.sleep(0.02)
            yield batch

    def stop_the_victim() -> None:
        until(asks.exists, "half of the rows are on their way")
        world.servers.stop(victim)
        goes_on.touch()

    frame = spark.range(0, 20_000, 1, 1).selectExpr("CAST(id AS string) AS body")
    stopping = threading.Thread(target=stop_the_victim)
    stopping.start()
    try:
        _write(frame.mapInArrow(wait_in_the_middle, "body string"), world, topic)
    finally:
        stopping.join()
        world.servers.start(victim)
    until(lambda: len(world.route_names(topic)) == 2, "the broker is routed again")
    world.cluster.routes.expire(topic)
    records = _await_stored(world, topic, 20_000)
    assert {int(record.body) for record in records} == set(range(20_000))
    ids = {record.properties["UNIQ_KEY"] for record in records}
    assert len(ids) == 20_000, "a row that was sent again has the id of its first copy"
