"""Append new messages of a topic to a Parquet table: once, from a scheduler, or at an interval.

    spark-submit docs/examples/archive_topic.py localhost:9876 orders /data/orders /data/checkpoints/orders

The table has a folder for each day on which messages were stored. The checkpoint stores how far the job came; the
next run goes on there. A run that is cut off repeats its last batch; Spark still finds each message in the table once.
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
    parser.add_argument("--every", metavar="INTERVAL", help="go on, with a batch every '1 minute', until SIGTERM")
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        type=option,
        help="a further option of the reader, such as consumerGroup=archive; may be repeated",
    )
    return parser


def archived(messages: DataFrame) -> DataFrame:
    """Return the rows of the table: the messages, with the day on which each was stored."""
    return messages.withColumn("day", F.to_date("storeTimestamp"))


def start(spark: SparkSession, given: argparse.Namespace) -> StreamingQuery:
    """Start the query that appends to the table."""
    messages = (
        spark.readStream.format("rocketmq")
        .options(nameServer=given.name_server, subscribe=given.topic, startingOffsets="earliest")
        .options(**dict(given.option))
        .load()
    )
    trigger = {"processingTime": given.every} if given.every else {"availableNow": True}
    return (
        archived(messages)
        .writeStream.partitionBy("day")
        .option("path", given.table)
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


def main() -> None:
    """Run the job; print how many messages it appended."""
    given = make_parser().parse_args()
    is_asked = catch_sigterm()
    spark = SparkSession.builder.appName(f"archive {given.topic}").getOrCreate()
    on_databricks = "DATABRICKS_RUNTIME_VERSION" in os.environ
    if on_databricks:  # Databricks does not look for installed packages, and ends its session itself.
        register(spark)
    query = start(spark, given)
    wait_for_end(query, is_asked)
    done = f"{count_rows(query)} messages appended to {given.table}"
    print(f"stopped; {given.checkpoint} has the position" if is_asked.is_set() else done)
    if not on_databricks:
        spark.stop()


if __name__ == "__main__":
    main()
