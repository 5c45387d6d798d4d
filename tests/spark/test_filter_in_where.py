"""Test reads that a condition narrows, through Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from broker_stub import StubBroker
from pyspark_rocketmq import read_where
from pyspark_rocketmq.errors import OptionError
from tests.spark.queries import TOPIC, batch, given

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

HOUR_MS = 3_600_000
CONDITIONS = [
    "tags = 'A'",
    "TAGS in ('A', 'nobody')",
    "topic = 'orders' AND queueId = 1",
    "queueId IN (1, 99999999999)",
    "queueOffset BETWEEN 2 AND 4",
    "queueOffset > -99999999999999999999999 AND queueOffset<=3",
    "queueOffset IN (1, 3) AND tags = 'B'",
    "storeTimestamp >= TIMESTAMP '1970-01-01 05:00:00Z'",
    "storeTimestamp < TIMESTAMP '1970-01-01T14:00:00.0005+09:00' AND brokerName = 'broker-a'",
    "storeTimestamp = TIMESTAMP '1970-01-01 05:00:00Z'",
]
SETTINGS = [
    {},
    {"spark.sql.python.filterPushdown.enabled": "true", "spark.sql.session.timeZone": "Asia/Tokyo"},
    {"spark.sql.timestampType": "TIMESTAMP_NTZ", "spark.sql.ansi.enabled": "false"},
]


@pytest.fixture
def stub() -> Iterator[StubBroker]:
    """A stub with a topic of two queues, eight messages in each, one an hour, with the tags A, B and none in turn."""
    with StubBroker({TOPIC: 2}) as broker:
        for number in range(16):
            tag, at = ("A", "B", "")[number % 3], (number // 2 + 1) * HOUR_MS
            broker.put(TOPIC, b"%d" % number, tags=tag, queue_id=number % 2, store_timestamp=at)
        yield broker


@pytest.fixture(params=SETTINGS, ids=["plain", "pushdown", "ntz"])
def session(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """The session with settings that change what conditions mean, or whether Spark hands them to sources."""
    before = {name: spark.conf.get(name) for name in request.param}
    for name, value in request.param.items():
        spark.conf.set(name, value)
    yield spark
    for name, old in before.items():
        spark.conf.set(name, str(old))


def bodies(frame: DataFrame) -> list[str]:
    return sorted(row.body.decode() for row in frame.collect())


def test_a_condition_gives_the_same_rows(session: SparkSession, stub: StubBroker) -> None:
    """`read_where` gives the rows of `where`, whatever the session's settings are."""
    everything = batch(session, stub).cache()
    for condition in CONDITIONS:
        rows = bodies(everything.where(condition))
        assert bodies(read_where(session, given(stub), condition)) == rows, condition
    everything.unpersist()


def test_all_that_is_made_of_the_dataframe_has_its_rows(session: SparkSession, stub: StubBroker) -> None:
    """Each query of the DataFrame, in any order, and each part of one query, has the rows that SQL says."""
    frame = read_where(
        session, given(stub), "queueOffset BETWEEN 1 AND 6 AND storeTimestamp > TIMESTAMP '1970-01-01 00:00:00Z'"
    )
    red, blue = frame.where("tags = 'A'"), frame.where("tags = 'B' AND queueId = 0")

    assert [red.count(), frame.count(), blue.count(), red.count(), frame.limit(99).count()] == [4, 12, 2, 4, 12]
    assert red.union(blue).union(frame).count() == 18
    assert len(frame.alias("a").join(red.alias("b"), "body").collect()) == 4
    assert len(red.crossJoin(frame.select("topic")).collect()) == 48
    cached = red.cache()
    assert [cached.count(), frame.where("tags = 'A'").count(), frame.count()] == [4, 4, 12]
    cached.unpersist()
    frame.createOrReplaceTempView("narrowed")
    counts = "SELECT (SELECT count(*) FROM narrowed WHERE tags = 'A') AS red, (SELECT count(*) FROM narrowed) AS rows"
    assert [tuple(row) for row in session.sql(counts).collect()] == [(4, 12)]
    asks = "SELECT * FROM narrowed n WHERE tags = 'A' AND EXISTS (SELECT 1 FROM narrowed m WHERE m.body = n.body)"
    assert session.sql(asks).count() == session.table("narrowed").where("tags = 'A'").count() == 4


def test_a_condition_leaves_out_queues(spark: SparkSession, stub: StubBroker) -> None:
    """A condition on the queue leaves one task."""
    assert read_where(spark, given(stub), "queueId = 1").rdd.getNumPartitions() == 1
    assert read_where(spark, given(stub), "queueOffset >= 0").rdd.getNumPartitions() == 2


def test_other_conditions_are_refused_at_once(spark: SparkSession, stub: StubBroker) -> None:
    """A condition that narrows no read is refused before anything is read."""
    with pytest.raises(OptionError, match=r"put other conditions into \.where\(\)"):
        read_where(spark, given(stub), "tags <> 'A'")
