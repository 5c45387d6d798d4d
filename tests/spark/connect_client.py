"""Read over Spark Connect with a local server, and print the bodies of a batch, then those of a stream.

python -m tests.spark.connect_client NAME_SERVER DIRECTORY
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import DataFrame, SparkSession

from pyspark_rocketmq import register
from pyspark_rocketmq.progress import commit_offsets

GROUP = "over-connect"


def bodies(frame: DataFrame) -> list[str]:
    """Return the message bodies of a frame as sorted texts."""
    return sorted(row.text for row in frame.selectExpr("cast(body AS string) AS text").collect())


def main(name_server: str, directory: str) -> None:
    """Read the topic `orders` as a batch and as a stream over Spark Connect; print both lists of bodies."""
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    options = {"nameServer": name_server, "subscribe": "orders", "consumerGroup": GROUP}
    found = bodies(spark.read.format("rocketmq").options(**options).load())
    register(spark)
    frame = spark.readStream.format("rocketmq").options(**options, startingOffsets="earliest").load()
    writer = frame.select("body").writeStream.format("parquet").option("checkpointLocation", f"{directory}/checkpoint")
    query = writer.trigger(availableNow=True).start(f"{directory}/rows")
    query.awaitTermination(120)
    commit_offsets(query, options)
    print(json.dumps([found, bodies(spark.read.parquet(f"{directory}/rows"))]))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
