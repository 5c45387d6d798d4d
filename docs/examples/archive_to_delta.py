"""Append new messages of a topic to a Delta table, each once, in a function for `foreachBatch`.

    spark-submit --packages io.delta:delta-spark_4.2_2.13:4.4.0 \\
        --conf spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension \\
        --conf spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog \\
        docs/examples/archive_to_delta.py localhost:9876 orders /data/orders /data/checkpoints/orders

If the table is all that you write, `writeStream.format("delta")` does the same. In `foreachBatch` you can write several
tables: Delta skips a write whose `txnVersion`, the number of the batch, is not above the last one of its `txnAppId`. A
new checkpoint counts batches from 0 again, so it needs a new `--application`; with the old one Delta would skip its
first batches without a word.
"""

from __future__ import annotations

import argparse
import os
import signal
import threading
from collections.abc import Callable

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
    parser.add_argument("table", help="the folder of the Delta table")
    parser.add_argument("checkpoint", help="the folder of the checkpoint; it belongs to this job alone")
    parser.add_argument("--application", default="archive", help="the txnAppId; a new one for each new checkpoint")
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


def append_to(table: str, application: str) -> Callable[[DataFrame, int], None]:
    """Return the function that appends a batch to a Delta table, unless the table has the batch already."""

    def append(batch: DataFrame, batch_id: int) -> None:
        once = {"txnAppId": application, "txnVersion": batch_id}
        batch.write.format("delta").mode("append").options(**once).save(table)

    return append


def start(spark: SparkSession, given: argparse.Namespace, append: Callable[[DataFrame, int], None]) -> StreamingQuery:
    """Start the query that gives its batches to `append`."""
    messages = (
        spark.readStream.format("rocketmq")
        .options(nameServer=given.name_server, subscribe=given.topic, startingOffsets="earliest")
        .options(**dict(given.option))
        .load()
    )
    trigger = {"processingTime": given.every} if given.every else {"availableNow": True}
    return (
        archived(messages)
        .writeStream.foreachBatch(append)
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
    spark = SparkSession.builder.appName(f"archive {given.topic} in Delta").getOrCreate()
    on_databricks = "DATABRICKS_RUNTIME_VERSION" in os.environ
    if on_databricks:  # Databricks does not look for installed packages, and ends its session itself.
        register(spark)
    query = start(spark, given, append_to(given.table, given.application))
    wait_for_end(query, is_asked)
    done = f"{count_rows(query)} messages appended to {given.table}"
    print(f"stopped; {given.checkpoint} has the position" if is_asked.is_set() else done)
    if not on_databricks:
        spark.stop()


if __name__ == "__main__":
    main()
