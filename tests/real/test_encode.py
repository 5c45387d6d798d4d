"""Read what `encode` makes of rows with official consumers and tools, on brokers of every release.

The oracle is the official producer: it sends the same messages to another topic, and its consumer must report the same
of both, property by property.
"""

from __future__ import annotations

import zlib
from typing import Any

import pyarrow as pa
import pytest

from pyspark_rocketmq.encode.ids import BatchIdentity
from pyspark_rocketmq.encode.requests import EncodeSettings
from pyspark_rocketmq.wire.compression import Compression
from tests.encode.readable import encode_readably
from tests.flows.world import World, fresh, now_ms, until
from tests.real.encoded import ids_in, send_rows, writable
from tests.real.java_clients import JavaClients, Json, eventually, message, queue
from tests.real.servers import RealCluster
from tests.real.worlds import real_world

pytestmark = pytest.mark.real

MAP = pa.map_(pa.string(), pa.string())
INT = pa.int32()
ROWS = 6
_OWN = {"msgId", "offsetMsgId", "topic", "queueOffset", "commitLogOffset", "bornTimestamp", "storeTimestamp"}
_OWN |= {"object", "deliveredMs", "thread", "batchSize", "bornHost", "bornHostString", "bornHostNameString"}
_OWN |= {"storeSize"}
"""What differs between any two messages; sizes do because ids of the official producer may be longer."""
_OWN_PROPERTIES = {"UNIQ_KEY", "MIN_OFFSET", "MAX_OFFSET", "CONSUME_START_TIME"}
"""Properties that differ between any two messages; the consumer adds the last three."""


@pytest.fixture
def world(real_cluster: RealCluster) -> World:
    """The cluster of the test."""
    return real_world(real_cluster)


def frame(queue_count: int) -> dict[str, Any]:
    """Return columns of every kind but those of delays; each row names its queue."""
    numbers = range(ROWS)
    return {
        "body": [f"häagen {number} €😀" for number in numbers],
        "tags": [None if number == 1 else f"t{number % 3}" for number in numbers],
        "keys": [[f"k{number}", "all"] if number else None for number in numbers],
        "properties": pa.array([[(f"p{n}", "wert ü") for n in range(number)] for number in numbers], MAP),
        "shardingKey": [f"s{number % 2}" for number in numbers],
        "queueId": pa.array([number % queue_count for number in numbers], INT),
        "brokerName": ["broker-a"] * ROWS,
        "flag": pa.array([-1, 0, 1, 2**31 - 1, None, 7], INT),
        "rowId": [f"id {number}" if number % 2 else None for number in numbers],
    }


def java_messages(topic: str, columns: dict[str, Any]) -> list[Json]:
    """Return the messages of these columns as the official producer takes them."""
    table = pa.RecordBatch.from_pydict(columns).to_pylist()
    return [{**message(topic, row["body"], **_java_properties(row)), "flag": row["flag"] or 0} for row in table]


def _java_properties(row: dict[str, Any]) -> dict[str, str]:
    known = {"TAGS": row["tags"], "KEYS": " ".join(row["keys"] or []), "__SHARDINGKEY": row["shardingKey"]}
    return {name: text for name, text in known.items() if text} | dict(row["properties"])


def as_received(delivery: Json) -> Json:
    """Return what a consumer reports of a message, without what differs between any two messages."""
    shown = {name: value for name, value in delivery.items() if name not in _OWN}
    shown["properties"] = {k: v for k, v in delivery["properties"].items() if k not in _OWN_PROPERTIES}
    return shown


def read(clients: JavaClients, topic: str, count: int) -> list[Json]:
    """Return `count` deliveries of a topic to an official consumer, in the order of queues and offsets."""
    deliveries = clients.push_consumer(fresh("group"), {topic: "*"}).wait_for(count)
    assert len(deliveries) == count
    return sorted(deliveries, key=lambda each: (each["queueId"], each["queueOffset"]))


@pytest.mark.parametrize("batch_rows", [1, 32])
def test_rows_arrive_as_messages_of_the_official_producer(world: World, official: JavaClients, batch_rows: int) -> None:
    """The official consumer reports the same of our messages as of the official producer's, singly or batched."""
    ours, theirs = world.make_topic(2)[0].topic, world.make_topic(2)[0].topic
    columns = frame(2)

    landed = send_rows(world, EncodeSettings(topic=ours, batch_rows=batch_rows), columns)
    producer = official.producer(fresh("group"))
    messages = java_messages(theirs, columns)
    for number in range(2):
        batch = messages[number::2]
        for part in [batch] if batch_rows > 1 else [[each] for each in batch]:
            producer.call("send", part if batch_rows > 1 else part[0], queue(theirs, "broker-a", number))

    received = read(official, ours, ROWS)
    for ours_is, theirs_is in zip(received, read(official, theirs, ROWS), strict=True):
        assert as_received(ours_is) == as_received(theirs_is)
    assert {each.is_batched for each in landed.values()} == {batch_rows > 1}
    assert {each["msgId"]: (each["queueId"], each["queueOffset"]) for each in received} == {
        each.message_id: (each.queue.queue_id, each.queue_offset) for each in landed.values()
    }
    assert all(each["properties"]["UNIQ_KEY"] == each["msgId"] for each in received)


@pytest.mark.parametrize("batch_rows", [1, 32])
def test_ids_are_those_of_the_rule(world: World, official: JavaClients, batch_rows: int) -> None:
    """The official consumer reports the message ids that the readable encoder makes of the rows."""
    topic, identity = world.make_topic(2)[0].topic, BatchIdentity(fresh("query"), "sink", 9)
    settings = EncodeSettings(topic=topic, batch_rows=batch_rows)

    send_rows(world, settings, frame(2), identity=identity, partition=3)

    batch = pa.RecordBatch.from_pydict(frame(2))
    requests, _ = encode_readably(batch, settings, identity, 3, lambda name: writable(world, name))
    wanted = {message_id for request in requests for message_id in ids_in(request)}
    received = {each["msgId"] for each in read(official, topic, ROWS)}
    assert received == wanted and len(wanted) == ROWS
    assert all(len(each) == 32 and each[20:28] == "0" * 8 and each == each.upper() for each in received)


@pytest.mark.parametrize("batch_rows", [1, 32])
def test_our_messages_are_found(world: World, official: JavaClients, batch_rows: int) -> None:
    """The official client finds each message by its own id and by each of its keys, singly or from a batch."""
    topic = world.make_topic(2)[0].topic
    landed = send_rows(world, EncodeSettings(topic=topic, batch_rows=batch_rows), frame(2))
    client = official.producer(fresh("group"))

    def by_key(key: str) -> list[str]:
        found = client.call("queryMessage", topic, key, 32, 0, now_ms() + 60_000)
        return sorted(each["msgId"] for each in found["messageList"])

    eventually(lambda: len(by_key("all")) == ROWS - 1, "all are indexed")
    for row, each in landed.items():
        found = client.call("getDefaultMQProducerImpl.queryMessageByUniqKey", topic, each.message_id)
        assert (found["queueId"], found["queueOffset"]) == (each.queue.queue_id, each.queue_offset)
        assert not row or by_key(f"k{row}") == [each.message_id]


def test_the_command_line_finds_a_message_of_a_batch(world: World) -> None:
    """`mqadmin queryMsgByUniqueKey` and `queryMsgByKey` show where a message of a batch is."""
    topic = world.make_topic()[0].topic
    landed = send_rows(world, EncodeSettings(topic=topic), {"body": ["a", "b", "c"], "keys": ["x", "y", "z"]})
    until(lambda: world.cluster.messages.query_by_key(topic, "z").messages, "the index has the last message")

    with JavaClients(world.version, world.name_server) as command_line:  # The first command can be used once in a JVM.
        by_id = command_line.mqadmin("queryMsgByUniqueKey", "-t", topic, "-i", landed[1].message_id)
        by_key = command_line.mqadmin("queryMsgByKey", "-t", topic, "-k", "y")

    shown = dict(line.split(":", 1) for line in by_id.splitlines() if line.startswith("Queue"))
    assert {name: int(value) for name, value in shown.items()} == {"Queue ID": 0, "Queue Offset": 1}, by_id
    assert landed[1].message_id in by_key and landed[0].message_id not in by_key


@pytest.mark.slow
def test_a_consumer_traces_our_messages(world: World, official: JavaClients) -> None:
    """The trace of an official consumer has our message ids, and `mqadmin` finds it by them.

    Consumers trace messages with the property MSG_REGION, which brokers of 5.5 do not add to those of a batch.
    """
    topic, traces, group = world.make_topic()[0].topic, world.make_topic()[0].topic, fresh("group")
    settings = EncodeSettings(topic=topic, batch_rows=world.by_version({"5.5": 1, "": 32}))
    landed = send_rows(world, settings, {"body": ["a", "b"]})
    consumer = official.create(
        "client.consumer.DefaultMQPushConsumer", group, True, traces, consumeFromWhere="CONSUME_FROM_FIRST_OFFSET"
    )
    consumer.call("subscribe", topic, "*")
    consumer.listen({})
    consumer.start().wait_for(2)

    def trace() -> str:
        return official.mqadmin("queryMsgTraceById", "-t", traces, "-i", landed[1].message_id)

    eventually(lambda: group in trace(), "it is traced")


# --- delays ----------------------------------------------------------------------------------------------------------


def test_delayed_rows_come_when_they_should(world: World, official: JavaClients) -> None:
    """Rows with a delay level or a delivery time are read not before that, under our ids; 4.9 ignores delivery times.

    Brokers of 5.x recall a row with a delivery time by the handle in its receipt, and return our id.
    """
    topic, start, recalls = world.make_topic()[0].topic, now_ms(), world.by_version({"4.9": False, "5": True})
    columns = {
        "body": ["level", "time", "now", "recalled"],
        "delayTimeLevel": pa.array([3, None, None, None], INT),
        "deliverTimeMs": pa.array([None, start + 5000, 0, start + 4000], pa.int64()),
    }
    if recalls:
        world.cluster.admin.update_broker_config("broker-a", {"recallMessageEnable": "true"})
    landed = send_rows(world, EncodeSettings(topic=topic), columns)
    if recalls:
        handle = landed[3].receipt.recall_handle
        assert official.producer(fresh("group")).call("recallMessage", topic, handle) == landed[3].message_id
        world.cluster.admin.update_broker_config("broker-a", {"recallMessageEnable": "false"})

    received = {each["body"]: each for each in read(official, topic, 3 if recalls else 4)}
    wanted = ["level", "time", "now"] + ["recalled"] * (not recalls)
    assert {body: received[body]["msgId"] for body in received} == {
        body: landed[columns["body"].index(body)].message_id for body in wanted
    }
    stored_after = {body: each["storeTimestamp"] - start for body, each in received.items()}
    assert stored_after["level"] >= 900 and stored_after["now"] < 900
    assert (stored_after["time"] >= 4000) == world.by_version({"4.9": False, "5": True})
    assert received["level"]["properties"]["DELAY"] == "3"
    assert received["time"]["properties"]["TIMER_DELIVER_MS"] == str(start + 5000)


# --- compression and sizes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compression", Compression, ids=lambda each: each.name)
def test_compressed_rows_arrive_unpacked(world: World, official: JavaClients, compression: Compression) -> None:
    """Official consumers unpack zlib; those of 5.x also LZ4 and ZSTD."""
    if compression is not Compression.ZLIB and official.version.startswith("4.9"):
        pytest.skip("clients of 4.9 know zlib only")
    topic, body = world.make_topic()[0].topic, "0123456789" * 2000

    send_rows(world, EncodeSettings(topic=topic, compression=compression, batch_rows=1), {"body": [body, "small"]})

    large, small = read(official, topic, 2)
    assert (large["body"], small["body"]) == (body, "small")
    assert large["storeSize"] < len(body) / 4
    assert small["bodyCRC"] == zlib.crc32(b"small") & 0x7FFFFFFF


def test_rows_with_the_longest_properties_arrive(world: World, official: JavaClients) -> None:
    """A batch has rows with up to a kilobyte less than the limit of properties; longer ones are sent singly."""
    topic = world.make_topic()[0].topic
    lengths = [31_000, 31_600, 31_800, 32_400]
    columns = {"body": list("abcd"), "properties": pa.array([[("p", "x" * length)] for length in lengths], MAP)}

    landed = send_rows(world, EncodeSettings(topic=topic), columns)

    received = sorted(read(official, topic, 4), key=lambda each: each["body"])
    assert [each.is_batched for each in landed.values()] == [True, True, False, False]
    assert [len(each["properties"]["p"]) for each in received] == lengths
    assert [each["msgId"] for each in received] == [landed[row].message_id for row in range(4)]
