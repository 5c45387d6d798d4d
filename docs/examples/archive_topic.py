"""Append new messages of a topic to a Parquet table, then end: a job for a scheduler.

    spark-submit --conf spark.executorEnv.PYSPARK_PYTHON=python3 \\
        docs/examples/archive_topic.py localhost:9876 orders /data/orders /data/checkpoints/orders

The checkpoint stores how far the job came; the next run continues there.
"""

from __future__ import annotations

import argparse

from pyspark.sql import SparkSession
from pyspark.sql import functions as F


def main() -> None:
    """Read to the current ends of the queues, append, end."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("name_server", "topic", "table", "checkpoint"):
        parser.add_argument(name)
    given = parser.parse_args()
    spark = SparkSession.builder.appName(f"archive {given.topic}").getOrCreate()
    messages = (
        spark.readStream.format("rocketmq")
        .option("nameServer", given.name_server)
        .option("subscribe", given.topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    query = (
        messages.withColumn("day", F.to_date("storeTimestamp"))
        .writeStream.partitionBy("day")
        .option("path", given.table)
        .option("checkpointLocation", given.checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    print(f"{sum(progress['numInputRows'] for progress in query.recentProgress)} messages appended to {given.table}")
    spark.stop()


if __name__ == "__main__":
    main()
