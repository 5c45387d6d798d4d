"""Test queries whose WHERE narrows what is read, through Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from broker_stub import StubBroker
from tests.spark.queries import TOPIC, batch, stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SETTING = "spark.sql.python.filterPushdown.enabled"
ANCHOR = "queueOffset >= 0"
HOUR_MS = 3_600_000
WHERES = [
    "tags = 'A'",
    "tags IN ('A', NULL, 'nobody')",
    "tags = lower('A')",
    "tags <=> NULL",
    "tags <> 'A'",
    "NOT (tags IN ('A', 'B'))",
    "tags = NULL",
    "topic = 'orders' AND queueId = 1",
    "queueId IN (1, 7)",
    "queueOffset BETWEEN 2 AND 4",
    "queueOffset > 2.5",
    "queueOffset IN (1, 3) AND tags <=> 'B'",
    "storeTimestamp >= TIMESTAMP '1970-01-01 05:00:00'",
    "storeTimestamp < '1970-01-01 05:00:00.0005'",
    "storeTimestamp = TIMESTAMP '1970-01-01 05:00:00Z'",
    "storeTimestamp > TIMESTAMP_NTZ '1970-01-01 05:00:00'",
    "storeTimestamp >= DATE '1970-01-01' AND tags = 'A'",
    "storeTimestamp < '1970-01-01' OR tags = 'A'",
]


@pytest.fixture
def stub() -> Iterator[StubBroker]:
    """A stub with a topic of two queues, eight messages in each, one an hour, with the tags A, B and none in turn."""
    with StubBroker({TOPIC: 2}) as broker:
        for number in range(16):
            tag, at = ("A", "B", "")[number % 3], (number // 2 + 1) * HOUR_MS
            broker.put(TOPIC, b"%d" % number, tags=tag, queue_id=number % 2, store_timestamp=at)
        yield broker


@pytest.fixture
def pushing(spark: SparkSession) -> Iterator[SparkSession]:
    """The session, in which Spark hands conditions to sources."""
    spark.conf.set(SETTING, True)
    yield spark
    spark.conf.unset(SETTING)


def filtered(spark: SparkSession, stub: StubBroker, **options: str) -> DataFrame:
    """Return a batch read that WHEREs narrow."""
    return batch(spark, stub, pushFilters="true", **options).where(ANCHOR)


def bodies(frame: DataFrame) -> list[str]:
    return sorted(row.body.decode() for row in frame.collect())


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_a_where_gives_the_same_rows(pushing: SparkSession, stub: StubBroker, zone: str) -> None:
    """With any WHERE of SQL, in any time zone of the session, rows are the same with and without `pushFilters`."""
    zone_before = pushing.conf.get("spark.sql.session.timeZone")
    pushing.conf.set("spark.sql.session.timeZone", zone)
    try:
        everything = batch(pushing, stub).cache()
        for where in WHERES:
            assert bodies(filtered(pushing, stub).where(where)) == bodies(everything.where(where)), where
        everything.unpersist()
    finally:
        pushing.conf.set("spark.sql.session.timeZone", str(zone_before))


def test_a_where_leaves_out_queues(pushing: SparkSession, stub: StubBroker) -> None:
    """A condition on the queue leaves one task; the plan lists no pushed filters, as Spark applies them again."""
    frame = filtered(pushing, stub).where("queueId = 1")

    assert frame.rdd.getNumPartitions() == 1 and filtered(pushing, stub).rdd.getNumPartitions() == 2
    plan = str(frame._jdf.queryExecution().toString())
    assert "queueId" in plan.partition("Physical Plan")[2]


def test_the_setting_of_spark_is_named(spark: SparkSession, stub: StubBroker) -> None:
    """If Spark does not hand over conditions, its error names the setting and the method, which is our option."""
    with pytest.raises(Exception, match=r"implements pushFilters.*spark.sql.python.filterPushdown.enabled"):
        filtered(spark, stub).collect()


def test_a_query_without_the_anchor_is_refused(pushing: SparkSession, stub: StubBroker) -> None:
    """Without the condition on offsets, a query is refused, with and without a WHERE."""
    frame = batch(pushing, stub, pushFilters="true")
    for query in (frame, frame.where("tags = 'A'")):
        with pytest.raises(Exception, match=r"\[OPTION_MISSING\] pushFilters.*right behind load"):
            query.collect()


def test_each_query_of_a_dataframe_has_its_own_rows(pushing: SparkSession, stub: StubBroker) -> None:
    """Queries of one DataFrame with other WHEREs, in any order and within one query, have the rows that SQL says."""
    frame = filtered(pushing, stub)
    red, blue = frame.where("tags = 'A'"), frame.where("tags = 'B' AND queueId = 0")

    assert [red.count(), frame.count(), blue.count(), red.count()] == [6, 16, 2, 6]
    assert len(red.union(blue).collect()) == 8
    fresh = filtered(pushing, stub)
    both = fresh.where("queueId = 1").union(fresh.where("queueId = 0")).union(fresh)
    assert bodies(both) == sorted([str(number) for number in range(16)] * 2)


def test_a_stream_has_no_such_option(spark: SparkSession, stub: StubBroker) -> None:
    """The option is refused for a stream, with the use it belongs to."""
    query = stream(spark, stub, pushFilters="true").writeStream.format("noop").start()
    with pytest.raises(Exception, match=r"\[OPTION_SCOPE\] pushFilters"):
        query.awaitTermination(60)
