"""Write to topics over Spark Connect with a local server.

python -m tests.spark.connect_writing NAME_SERVER FOLDER
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import DataFrame, SparkSession


def main(name_server: str, folder: str) -> None:
    """Write five rows to `batch`, the topic `orders` to `stream`, and that twice in a function to two topics."""
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    given = {"nameServer": name_server}
    rows = spark.range(5).selectExpr("cast(id AS string) AS body")
    rows.write.format("rocketmq").options(**given, topic="batch").mode("append").save()
    reader = spark.readStream.format("rocketmq").options(**given, subscribe="orders", startingOffsets="earliest")

    def run(writer: Any, name: str) -> None:
        checkpoint = f"{folder}/{name}"
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        assert query.awaitTermination(120)

    def handle(frame: DataFrame, batch_id: int) -> None:
        from pyspark_rocketmq import retry, writing

        for _ in range(2):
            writing.send(frame.select("body"), batch_id, {**given, "topic": "function"}, query_id="mine")
            retry.dead_letter(frame, {**given, "deadLetterTopic": "dead"}, "x", batch_id, query_id="mine")

    run(reader.load().select("body").writeStream.format("rocketmq").options(**given, topic="stream"), "stream")
    run(reader.load().writeStream.foreachBatch(handle), "function")
    print(json.dumps("done"))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
