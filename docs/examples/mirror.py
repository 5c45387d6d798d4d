"""Copy a topic to another one, also of another cluster: properties, tags, keys, and the order of each key.

    spark-submit --conf spark.executorEnv.PYSPARK_PYTHON=python3 \\
        docs/examples/mirror.py localhost:9876 orders other:9876 orders-copy /data/checkpoints/mirror

Messages of one queue are read in order by one task, which writes them in order: a key's messages keep their order, as
they are in one queue. A copy has a message id of its own; the property `SOURCE_ID` has that of the original.
"""

from __future__ import annotations

import argparse

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


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


def main() -> None:
    """Copy to the current ends of the queues, then end; the next run goes on there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("source", "topic", "target", "copy", "checkpoint"):
        parser.add_argument(name)
    given = parser.parse_args()
    spark = SparkSession.builder.appName(f"mirror {given.topic}").getOrCreate()
    columns = "topic,brokerName,queueId,queueOffset,tags,keys,body,properties,msgId,flag,shardingKey"
    messages = (
        spark.readStream.format("rocketmq")
        .options(nameServer=given.source, subscribe=given.topic, startingOffsets="earliest")
        .options(ordering="queue", columns=columns)
        .load()
    )
    query = (
        copies(messages)
        .writeStream.format("rocketmq")
        .options(nameServer=given.target, topic=given.copy, ordering="key")
        .option("checkpointLocation", given.checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    print(f"{sum(progress['numInputRows'] for progress in query.recentProgress)} messages copied to {given.copy}")
    spark.stop()


if __name__ == "__main__":
    main()
