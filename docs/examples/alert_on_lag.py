"""Archive a topic without end, and write a line when the job falls behind.

    spark-submit docs/examples/alert_on_lag.py localhost:9876 orders /data/orders /data/checkpoints/orders \\
        --most-seconds 900

A line is one JSON object on standard output, when an alert begins and when it ends; let your log collector look for
`"alert"`. Nothing is sent to other services. While the lag of a queue is unknown, no alert of its topic ends. The
alerts of a queue, the worst first:

    deleted unread  brokers have deleted messages that the job has not read
    deleted soon    that happens within --least-retention seconds
    behind          the next message has waited for more than --most-seconds
    unknown         a broker does not answer or refuses; `reason` tells why
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import threading
from collections.abc import Mapping
from datetime import UTC, datetime

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from pyspark_rocketmq import register
from pyspark_rocketmq.monitor import LagListener, QueryReport

LAG = "topic STRING, messages BIGINT, gone BIGINT, seconds DOUBLE, retentionSeconds DOUBLE, unknown STRING"


def option(text: str) -> tuple[str, str]:
    """Return name and value of an option of the form NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError("give NAME=VALUE")
    return name, value


def seconds(text: str) -> float:
    """Return a number of seconds."""
    value = float(text)
    if not value >= 0:  # Nothing is above or below nan, so it would switch the alert off.
        raise argparse.ArgumentTypeError("give a number of seconds")
    return value


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the job's arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name_server", help="host:port of a name server; several with ;")
    parser.add_argument("topic", help="the topic to read")
    parser.add_argument("table", help="the folder of the Parquet table")
    parser.add_argument("checkpoint", help="the folder of the checkpoint; it belongs to this job alone")
    ages = ("--most-seconds", 900.0, "above this age of the next message")
    times = ("--least-retention", 21600.0, "below this time to the deletion of the next message")
    for name, limit, when in (ages, times):
        parser.add_argument(name, type=seconds, default=limit, metavar="SECONDS", help=f"alert {when}")
    parser.add_argument("--every", default="30 seconds", metavar="INTERVAL", help="the interval of batches")
    parser.add_argument("--interval", type=float, default=15, metavar="N", help="seconds between two measurements")
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        type=option,
        help="a further option of the reader, such as consumerGroup=archive; may be repeated",
    )
    return parser


def alerts(lag: DataFrame, most_seconds: float, least_retention: float) -> DataFrame:
    """Return a row for each topic and alert, from the lag of queues (`LAG`); a queue has its worst alert only."""
    alert = (
        F.when(F.col("gone") > 0, "deleted unread")
        .when(F.col("retentionSeconds") < least_retention, "deleted soon")
        .when(F.col("seconds") > most_seconds, "behind")
        .when(F.col("unknown").isNotNull(), "unknown")
    )
    found = lag.withColumn("alert", alert).where("alert IS NOT NULL").groupBy("topic", "alert")
    return found.agg(
        F.count("*").alias("queues"),
        F.sum("messages").alias("messages"),
        F.max("seconds").alias("seconds"),
        F.min("retentionSeconds").alias("retentionSeconds"),
        F.min("unknown").alias("reason"),
    )


def lag_of(spark: SparkSession, report: QueryReport) -> DataFrame:
    """Return the lag of each queue of a report, and a row with the reason if queues are missing."""
    rows = [
        (
            each.topic,
            each.messages.value,
            each.gone.value,
            _number(each.seconds.value),
            _number(each.retention_seconds.value),
            each.messages.unknown or each.gone.unknown or each.seconds.unknown or each.retention_seconds.unknown,
        )
        for each in report.lag.queues
    ]
    total = report.lag.total.messages
    missing = [(None, None, None, None, None, total.unknown)] * bool(total.unknown and not total.unknown_queues)
    return spark.createDataFrame([*rows, *missing], LAG)


def _number(value: int | float | None) -> float | None:
    return None if value is None else float(value)


class AlertWriter:
    """Writes a line for each alert of a query that begins or ends."""

    def __init__(self, spark: SparkSession, given: argparse.Namespace) -> None:
        self._spark = spark
        self._limits = (given.most_seconds, given.least_retention)
        self._open: dict[tuple[str | None, str], Row] = {}
        """The alerts that have begun, by topic and kind."""

    def __call__(self, report: QueryReport) -> None:
        """Compare a report with the last one; the listener calls this, in a thread of its own."""
        found = alerts(lag_of(self._spark, report), *self._limits).collect()
        now = {(row.topic, row.alert): row for row in found}
        unsure = {each.topic for each in report.lag.queues if each.seconds.is_unknown}
        are_missing = (None, "unknown") in now
        now = {place: row for place, row in self._open.items() if are_missing or place[0] in unsure} | now
        time = datetime.fromtimestamp(report.measured_at_s, UTC).isoformat(timespec="seconds")
        for event, these, those in (("begins", now, self._open), ("ends", self._open, now)):
            for place in sorted(these.keys() - those.keys(), key=str):
                write_line({"time": time, "query": report.query, "event": event, **these[place].asDict()})
        self._open = now


def write_line(fields: Mapping[str, object]) -> None:
    """Write one line of JSON at once."""
    print(json.dumps(fields), flush=True)


def start(spark: SparkSession, given: argparse.Namespace) -> StreamingQuery:
    """Start the query that appends to the table."""
    messages = (
        spark.readStream.format("rocketmq")
        .options(nameServer=given.name_server, subscribe=given.topic, startingOffsets="earliest")
        .options(**dict(given.option))
        .load()
    )
    return (
        messages.writeStream.queryName(f"archive {given.topic}")
        .option("path", given.table)
        .option("checkpointLocation", given.checkpoint)
        .trigger(processingTime=given.every)
        .start()
    )


def watch(spark: SparkSession, given: argparse.Namespace) -> LagListener:
    """Add the listener that measures the lag and writes alerts; call this before the query starts."""
    options = {**dict(given.option), "nameServer": given.name_server}
    listener = LagListener(options, AlertWriter(spark, given), interval_s=given.interval)
    spark.streams.addListener(listener)
    return listener


def catch_sigterm() -> threading.Event:
    """Return an event that SIGTERM sets from now on, instead of ending the process."""
    is_asked = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: is_asked.set())
    return is_asked


def wait_for_end(query: StreamingQuery, is_asked: threading.Event) -> None:
    """Wait until the query ends, or stop it when SIGTERM has arrived; raise the error of a query that failed."""
    while not is_asked.is_set() and not query.awaitTermination(1):
        pass
    query.stop()


def main() -> None:
    """Run the job until SIGTERM."""
    given = make_parser().parse_args()
    is_asked = catch_sigterm()
    spark = SparkSession.builder.appName(f"archive {given.topic}, with alerts").getOrCreate()
    on_databricks = "DATABRICKS_RUNTIME_VERSION" in os.environ
    if on_databricks:  # Databricks does not look for installed packages, and ends its session itself.
        register(spark)
    listener = watch(spark, given)
    wait_for_end(start(spark, given), is_asked)
    spark.streams.removeListener(listener)
    listener.close()
    print(f"stopped; {given.checkpoint} has the position")
    if not on_databricks:
        spark.stop()


if __name__ == "__main__":
    main()
