"""Append the sessions of visitors to a Parquet table, from a topic of clicks: a job with state.

    spark-submit --conf spark.sql.shuffle.partitions=8 \\
        docs/examples/sessionise.py localhost:9876 clicks /data/sessions /data/checkpoints/sessions

A message is a click: its key is the visitor, its tag the page. Clicks of a visitor without a pause of 30 minutes
(--gap) are one session. A session is written once, when the watermark has passed its end: the newest store time that
was seen, less 10 minutes (--late). Open sessions are state in the checkpoint, so the next run completes them. The
number of shuffle partitions is fixed by the first run of a checkpoint.

Clicks that are read when the watermark has passed the end of their session are left out; the last line counts them. So
do not limit batches (maxOffsetsPerTrigger): of a backlog, queues would be read to different times, and the watermark
follows the newest.
"""

from __future__ import annotations

import argparse
import os
import signal
import threading

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from pyspark_rocketmq import register


def option(text: str) -> tuple[str, str]:
    """Return name and value of an option of the form NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError("give NAME=VALUE")
    return name, value


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the job's arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name_server", help="host:port of a name server; several with ;")
    parser.add_argument("topic", help="the topic to read")
    parser.add_argument("table", help="the folder of the Parquet table")
    parser.add_argument("checkpoint", help="the folder of the checkpoint; it belongs to this job alone")
    parser.add_argument("--gap", default="30 minutes", metavar="PAUSE", help="the pause that ends a session")
    parser.add_argument("--late", default="10 minutes", metavar="TIME", help="how long late clicks are awaited")
    parser.add_argument("--every", metavar="INTERVAL", help="go on, with a batch every '1 minute', until SIGTERM")
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        type=option,
        help="a further option of the reader, such as consumerGroup=sessions; may be repeated",
    )
    return parser


def sessions(messages: DataFrame, gap: str, late: str) -> DataFrame:
    """Return sessions: the clicks of one key without a pause of `gap`; clicks without a key are left out."""
    clicks = messages.where("keys IS NOT NULL").withWatermark("storeTimestamp", late)
    session = F.session_window("storeTimestamp", gap)
    return (
        clicks.groupBy(F.col("keys").alias("visitor"), session.alias("session"))
        .agg(
            F.min("storeTimestamp").alias("first_click"),
            F.max("storeTimestamp").alias("last_click"),
            F.count("*").alias("clicks"),
            F.min_by("tags", "storeTimestamp").alias("first_page"),
            F.max_by("tags", "storeTimestamp").alias("last_page"),
        )
        .drop("session")
    )


def start(spark: SparkSession, given: argparse.Namespace) -> StreamingQuery:
    """Start the query that appends sessions to the table."""
    messages = (
        spark.readStream.format("rocketmq")
        .options(nameServer=given.name_server, subscribe=given.topic, startingOffsets="earliest")
        .options(columns="keys,tags,storeTimestamp")
        .options(**dict(given.option))
        .load()
    )
    trigger = {"processingTime": given.every} if given.every else {"availableNow": True}
    return (
        sessions(messages, given.gap, given.late)
        .writeStream.option("path", given.table)
        .option("checkpointLocation", given.checkpoint)
        .trigger(**trigger)
        .start()
    )


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


def count_rows(query: StreamingQuery) -> str:
    """Return how many messages a query has read; at least so many if Spark has forgotten its first batches."""
    batches = query.recentProgress
    is_cut = len(batches) >= 100  # So many are kept.
    return f"{'at least ' * is_cut}{sum(batch['numInputRows'] for batch in batches)}"


def count_late(query: StreamingQuery) -> str:
    """Return how many clicks came too late; Spark counts clicks of one visitor, task and session as one. Else ''."""
    states = [state for batch in query.recentProgress for state in batch["stateOperators"]]
    late = sum(state["numRowsDroppedByWatermark"] for state in states)
    return f", at least {late} of them too late: they are in no session" * bool(late)


def main() -> None:
    """Run the job; print how many clicks it read."""
    given = make_parser().parse_args()
    is_asked = catch_sigterm()
    spark = SparkSession.builder.appName(f"sessions of {given.topic}").getOrCreate()
    on_databricks = "DATABRICKS_RUNTIME_VERSION" in os.environ
    if on_databricks:  # Databricks does not look for installed packages, and ends its session itself.
        register(spark)
    query = start(spark, given)
    wait_for_end(query, is_asked)
    done = f"{count_rows(query)} clicks read{count_late(query)}"
    print(f"stopped; {given.checkpoint} has the position" if is_asked.is_set() else done)
    if not on_databricks:
        spark.stop()


if __name__ == "__main__":
    main()
