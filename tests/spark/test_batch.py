"""Test batch reads through Spark."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from chispa import assert_df_equality

from broker_stub import StubBroker
from tests.spark.queries import TOPIC, batch, given

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SCHEMA = (
    "topic string, brokerName string, queueId int, queueOffset bigint, tags string, keys string, body binary, "
    "properties map<string,string>, reconsumeTimes int, flag int"
)
MIB = 2**20


@pytest.fixture
def stub() -> Iterator[StubBroker]:
    """A stub with one broker and a topic of two queues."""
    with StubBroker({TOPIC: 2}) as broker:
        yield broker


def test_rows_are_the_messages_in_the_order_of_their_queues(spark: SparkSession, stub: StubBroker) -> None:
    """A batch read returns the messages as they were sent, queue by queue."""
    stub.put(TOPIC, b"a", tags="new", keys="k1 k2", properties={"vip": "yes"}, queue_id=0)
    stub.put(TOPIC, b"b", queue_id=0)
    stub.put(TOPIC, "ü".encode(), queue_id=1)
    wanted = spark.createDataFrame(
        [
            (TOPIC, "broker-a", 0, 0, "new", "k1 k2", bytearray(b"a"), {"vip": "yes"}, 0, 0),
            (TOPIC, "broker-a", 0, 1, None, None, bytearray(b"b"), {}, 0, 0),
            (TOPIC, "broker-a", 1, 0, None, None, bytearray("ü".encode()), {}, 0, 0),
        ],
        SCHEMA,
    )
    assert_df_equality(batch(spark, stub).select(wanted.columns), wanted, ignore_nullable=True)


def test_a_topic_without_messages_has_no_rows(spark: SparkSession, stub: StubBroker) -> None:
    """A batch read of a topic without messages is an empty DataFrame, as a whole and when it is counted."""
    empty = batch(spark, stub)
    assert empty.collect() == [] and empty.count() == 0


def test_times_are_instants(spark: SparkSession, stub: StubBroker) -> None:
    """A timestamp column has milliseconds, and does not depend on the session's time zone."""
    stub.put(TOPIC, b"a", store_timestamp=1_700_000_000_123)
    [row] = batch(spark, stub).selectExpr("unix_millis(storeTimestamp) AS ms", "msgId").collect()
    assert row.ms == 1_700_000_000_123 and len(row.msgId) == 32
    assert datetime.fromtimestamp(row.ms / 1000, UTC).year == 2023


def test_columns_may_be_chosen_in_three_ways(spark: SparkSession, stub: StubBroker) -> None:
    """The option `rowLayout`, the option `columns` or a schema chooses the columns and their order."""
    stub.put(TOPIC, b"a", keys="k", properties={"vip": "yes"})
    kafka = batch(spark, stub, rowLayout="kafka", includeHeaders="true").drop("timestamp")
    assert kafka.collect() == [(b"k", b"a", TOPIC, 0, 0, 1, [("vip", bytearray(b"yes"))])]
    chosen = batch(spark, stub, columns="queueOffset,body,properties", propertiesFormat="json")
    assert chosen.collect() == [(0, b"a", '{"vip":"yes"}')]
    own = spark.read.format("rocketmq").options(**given(stub)).schema("body binary, topic string NOT NULL, flag int")
    assert own.load().collect() == [(b"a", TOPIC, 0)]


def test_options_may_come_from_sql_in_any_case(spark: SparkSession, stub: StubBroker) -> None:
    """In SQL, option names may be written in upper or lower case."""
    stub.put(TOPIC, b"a")
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW orders USING rocketmq OPTIONS "
        f"(NAMESERVER '{stub.name_server}', Subscribe '{TOPIC}', columnS 'body')"
    )
    assert spark.sql("SELECT cast(body AS string) AS text FROM orders").collect() == [("a",)]


def test_wrong_options_fail_the_load_with_our_words(spark: SparkSession, stub: StubBroker) -> None:
    """An invalid option raises our error in `load`, before rows are read."""
    for options, text in (
        ({"maxOffsetsPerQueue": "x"}, "[OPTION_VALUE] maxOffsetsPerQueue = 'x'"),
        ({"consumeFromWhere": "CONSUME_FROM_LAST_OFFSET"}, "startingOffsets=group"),
        ({"startingOffsets": '{"orders":{"0":5}}'}, '"*": {"0": 5}'),
    ):
        with pytest.raises(Exception, match="OPTION_") as refused:
            batch(spark, stub, **options)
        assert text in str(refused.value)


def test_what_only_the_cluster_knows_fails_the_read_with_our_words(spark: SparkSession, stub: StubBroker) -> None:
    """If the cluster cannot serve a read, Spark's error contains our code, place and advice."""
    with pytest.raises(Exception, match=r"\[TOPIC_NOT_FOUND\] .*topic nowhere.*\); \w+"):
        batch(spark, stub, subscribe="nowhere").collect()
    stub.fill(TOPIC, 10, 10)
    stub.expire(TOPIC, 0, 2)
    with pytest.raises(Exception, match=r"\[OFFSET_BEFORE_EARLIEST\] .*queue 0, offset 0.*failOnDataLoss=false"):
        batch(spark, stub, startingOffsets='{"orders":{"*":{"*":0}}}').collect()


def test_a_message_above_four_mebibytes_is_read(spark: SparkSession, stub: StubBroker) -> None:
    """A message of 5 MiB is read, and so are the small messages before and after it."""
    for size in (1, 5 * MIB, 1):
        stub.put(TOPIC, b"." * size, queue_id=0)
    rows = batch(spark, stub).selectExpr("queueOffset", "length(body) AS size").collect()
    assert [tuple(row) for row in rows] == [(0, 1), (1, 5 * MIB), (2, 1)]


@pytest.mark.parametrize("count", [100_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_every_message_arrives_once(spark: SparkSession, count: int) -> None:
    """A batch read of many numbered messages returns each of them once."""
    with StubBroker({TOPIC: 8}) as stub:
        stub.fill(TOPIC, count, 100)
        frame = batch(spark, stub, columns="queueId,queueOffset,body", minPartitions="4", maxPartitions="4")
        numbers = frame.selectExpr("cast(substring(cast(body AS string), 1, 10) AS int) AS n")
        found = (
            numbers.groupBy("n")
            .count()
            .selectExpr("count(*) AS different", "max(count) AS most", "min(n) AS least", "max(n) AS last")
        )
        assert [tuple(row) for row in found.collect()] == [(count, 1, 0, count - 1)]
