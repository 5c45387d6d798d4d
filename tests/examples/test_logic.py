"""Test the logic of the example jobs on rows that are made by hand, without a broker."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

import pytest
from chispa import assert_df_equality

from pyspark_rocketmq.lag.figures import Figure, Lag, QueueLag, TotalLag
from pyspark_rocketmq.monitor import Activity, QueryReport
from tests.examples.jobs import load, parse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

EVENT_FIELDS = ("event", "topic", "alert", "queues", "messages", "reason")


def at(hour: int, minute: int = 0, day: int = 31) -> datetime:
    """Return a moment of January 2026."""
    return datetime(2026, 1, day, hour, minute, tzinfo=UTC)


@pytest.mark.parametrize("name", ["archive_topic", "archive_to_delta"])
def test_an_archived_message_has_its_day(spark: SparkSession, name: str) -> None:
    """A row of the archive is the message with the day on which it was stored."""
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    try:
        messages = spark.createDataFrame([(at(12), "a"), (at(0, day=1), "b")], "storeTimestamp TIMESTAMP, body STRING")
        rows = [(at(12), "a", date(2026, 1, 31)), (at(0, day=1), "b", date(2026, 1, 1))]
        expected = spark.createDataFrame(rows, "storeTimestamp TIMESTAMP, body STRING, day DATE")
        assert_df_equality(load(name).archived(messages), expected)
    finally:
        spark.conf.unset("spark.sql.session.timeZone")


def test_a_copy_names_its_original(spark: SparkSession) -> None:
    """A copy has the original's id and place, its own properties, and its sharding key, else its key."""
    place = "topic STRING, brokerName STRING, queueId INT, queueOffset BIGINT, "
    message = "tags STRING, keys STRING, body STRING, properties MAP<STRING, STRING>, msgId STRING, flag INT, "
    rows = [
        ("orders", "broker-a", 1, 7, "new", "k1", "one", {"shop": "A", "SOURCE_ID": "older"}, "ID1", 3, "s1"),
        ("orders", "broker-b", 0, 0, None, "k2", "two", {}, "ID2", 0, None),
    ]
    expected = [
        ("one", "new", "k1", {"shop": "A", "SOURCE_ID": "ID1"}, "s1", 3, "orders/broker-a/1/7"),
        ("two", None, "k2", {"SOURCE_ID": "ID2"}, "k2", 0, "orders/broker-b/0/0"),
    ]
    columns = "body STRING, tags STRING, keys STRING, properties MAP<STRING, STRING>, shardingKey STRING, flag INT, "
    copies = load("mirror").copies(spark.createDataFrame(rows, f"{place}{message}shardingKey STRING"))
    assert_df_equality(copies, spark.createDataFrame(expected, f"{columns}rowId STRING"), ignore_nullable=True)


def test_a_pause_ends_a_session(spark: SparkSession) -> None:
    """Clicks of one visitor belong to one session until a pause; a click without a key to none."""
    clicks = [
        ("ada", "home", at(9)),
        ("ada", "cart", at(9, 29)),
        ("ada", "home", at(10, 1)),
        ("ben", "help", at(9, 10)),
        (None, "home", at(9)),
    ]
    expected = [
        ("ada", at(9), at(9, 29), 2, "home", "cart"),
        ("ada", at(10, 1), at(10, 1), 1, "home", "home"),
        ("ben", at(9, 10), at(9, 10), 1, "help", "help"),
    ]
    times = "first_click TIMESTAMP, last_click TIMESTAMP"
    messages = spark.createDataFrame(clicks, "keys STRING, tags STRING, storeTimestamp TIMESTAMP")
    found = load("sessionise").sessions(messages, "30 minutes", "10 minutes")
    wanted = spark.createDataFrame(
        expected, f"visitor STRING, {times}, clicks BIGINT, first_page STRING, last_page STRING"
    )
    assert_df_equality(found, wanted, ignore_row_order=True, ignore_nullable=True)


def test_a_queue_has_its_worst_alert(spark: SparkSession) -> None:
    """Queues count by topic and alert; one that is deleted unread is no queue that is only behind."""
    job = load("alert_on_lag")
    lag = [
        ("orders", 0, 0, 0.0, None, None),
        ("orders", 5, 0, 901.0, 90_000.0, None),
        ("orders", 7, 0, 2_000.0, 80_000.0, None),
        ("orders", 9, 2, 99_000.0, 0.0, None),
        ("refunds", 1, 0, 99_000.0, 100.0, None),
        ("refunds", None, None, None, None, "[CONNECT] refused"),
        ("refunds", 3, 0, 900.0, 21_600.0, None),
    ]
    expected = [
        ("orders", "behind", 2, 12, 2_000.0, 80_000.0, None),
        ("orders", "deleted unread", 1, 9, 99_000.0, 0.0, None),
        ("refunds", "deleted soon", 1, 1, 99_000.0, 100.0, None),
        ("refunds", "unknown", 1, None, None, None, "[CONNECT] refused"),
    ]
    figures = "queues BIGINT, messages BIGINT, seconds DOUBLE, retentionSeconds DOUBLE, reason STRING"
    wanted = spark.createDataFrame(expected, f"topic STRING, alert STRING, {figures}")
    found: DataFrame = job.alerts(spark.createDataFrame(lag, job.LAG), 900, 21_600)
    assert_df_equality(found.orderBy("topic", "alert"), wanted, ignore_nullable=True)


def report(*messages: int | None, missing: str | None = None) -> QueryReport:
    """Return a report of a query with so many old messages in each queue; None is a queue of which nothing is known.

    `missing` is the reason why there may be more queues.
    """
    queues = []
    for number, count in enumerate(messages):
        figure = Figure(unknown="no answer") if count is None else Figure(count)
        age = figure if count is None else Figure(3_600 if count else 0)
        left = Figure(90_000) if count else figure if count is None else Figure()
        queues.append(QueueLag("orders", "a", number, Figure(0), figure, figure, Figure(0), figure, age, left))
    why = missing if queues else "the query has had no progress event yet"
    lag = Lag(tuple(queues), TotalLag.of(queues, why))
    return QueryReport("archive", "id", "run", lag, at(9).timestamp(), Activity(0))


def test_a_line_tells_when_an_alert_begins_and_ends(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """An alert that goes on is no new line; one that changes its kind ends, and the other begins."""
    job = load("alert_on_lag")
    lines: list[dict[str, object]] = []
    monkeypatch.setattr(job, "write_line", lines.append)
    write = job.AlertWriter(spark, parse(job, "localhost:9876", "orders", "table", "checkpoint"))
    for each in (report(0, 4), report(0, 5), report(0, None), report(0, 0), report()):
        write(each)
    assert [tuple(line[name] for name in EVENT_FIELDS) for line in lines] == [
        ("begins", "orders", "behind", 1, 4, None),
        ("begins", "orders", "unknown", 1, None, "no answer"),
        ("ends", "orders", "behind", 1, 5, None),
        ("ends", "orders", "unknown", 1, None, "no answer"),
        ("begins", None, "unknown", 1, None, "the query has had no progress event yet"),
    ]
    assert {line["time"] for line in lines} == {"2026-01-31T09:00:00+00:00"}
    assert {line["query"] for line in lines} == {"archive"}


def test_what_is_unknown_ends_no_alert(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """An alert goes on while its queue, or other queues of the query, are unknown; missing queues are an alert."""
    job = load("alert_on_lag")
    lines: list[dict[str, object]] = []
    monkeypatch.setattr(job, "write_line", lines.append)
    write = job.AlertWriter(spark, parse(job, "localhost:9876", "orders", "table", "checkpoint"))

    def written(given: QueryReport) -> list[tuple[object, ...]]:
        lines.clear()
        write(given)
        return [(line["event"], line["topic"], line["alert"], line["reason"]) for line in lines]

    assert written(report(4)) == [("begins", "orders", "behind", None)]
    assert written(report(None)) == [("begins", "orders", "unknown", "no answer")]
    assert written(report(4)) == [("ends", "orders", "unknown", "no answer")]
    assert written(report(0, missing="more")) == [("begins", None, "unknown", "more")]
    assert written(report(0)) == [("ends", "orders", "behind", None), ("ends", None, "unknown", "more")]
