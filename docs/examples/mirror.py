"""Copy a topic to another one, also of another cluster: properties, tags, keys, and the order of each key.

    spark-submit docs/examples/mirror.py localhost:9876 orders other:9876 orders-copy /data/checkpoints/mirror

Messages of one queue are read in order by one task, which writes them in order: a key's messages keep their order, as
they are in one queue. A copy has a message id of its own; the property `SOURCE_ID` has that of the original. The
checkpoint stores how far the job came; the next run goes on there. A run that is cut off repeats its last batch: copies
that are there twice then have the same message id.
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

COLUMNS = "topic,brokerName,queueId,queueOffset,tags,keys,body,properties,msgId,flag,shardingKey"


def option(text: str) -> tuple[str, str]:
    """Return name and value of an option of the form NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError("give NAME=VALUE")
    return name, value


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the job's arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", help="host:port of a name server of the topic; several with ;")
    parser.add_argument("topic", help="the topic to read")
    parser.add_argument("target", help="host:port of a name server of the copy; several with ;")
    parser.add_argument("copy", help="the topic to write to")
    parser.add_argument("checkpoint", help="the folder of the checkpoint; it belongs to this job alone")
    parser.add_argument("--every", metavar="INTERVAL", help="go on, with a batch every '1 minute', until SIGTERM")
    for name, who in (("--option", "reader"), ("--target-option", "writer")):
        parser.add_argument(
            name,
            action="append",
            default=[],
            metavar="NAME=VALUE",
            type=option,
            help=f"a further option of the {who}, such as credentialsFile=/etc/keys; may be repeated",
        )
    return parser


def copies(messages: DataFrame) -> DataFrame:
    """Return the columns to write of messages that were read; metadata of the source is left out."""
    origin = F.create_map(F.lit("SOURCE_ID"), F.col("msgId"))
    own = F.map_filter("properties", lambda name, value: name != "SOURCE_ID")
    return messages.select(
        "body",
        "tags",
        "keys",
        F.map_concat(own, origin).alias("properties"),
        F.coalesce("shardingKey", "keys").alias("shardingKey"),
        "flag",
        F.concat_ws("/", "topic", "brokerName", "queueId", "queueOffset").alias("rowId"),
    )


def start(spark: SparkSession, given: argparse.Namespace) -> StreamingQuery:
    """Start the query that copies."""
    messages = (
        spark.readStream.format("rocketmq")
        .options(nameServer=given.source, subscribe=given.topic, startingOffsets="earliest")
        .options(ordering="queue", columns=COLUMNS)
        .options(**dict(given.option))
        .load()
    )
    trigger = {"processingTime": given.every} if given.every else {"availableNow": True}
    return (
        copies(messages)
        .writeStream.format("rocketmq")
        .options(nameServer=given.target, topic=given.copy, ordering="key")
        .options(**dict(given.target_option))
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
    """Run the job; print how many messages it copied."""
    given = make_parser().parse_args()
    is_asked = catch_sigterm()
    spark = SparkSession.builder.appName(f"mirror {given.topic}").getOrCreate()
    on_databricks = "DATABRICKS_RUNTIME_VERSION" in os.environ
    if on_databricks:  # Databricks does not look for installed packages, and ends its session itself.
        register(spark)
    query = start(spark, given)
    wait_for_end(query, is_asked)
    done = f"{count_rows(query)} messages copied to {given.copy}"
    print(f"stopped; {given.checkpoint} has the position" if is_asked.is_set() else done)
    if not on_databricks:
        spark.stop()


if __name__ == "__main__":
    main()
