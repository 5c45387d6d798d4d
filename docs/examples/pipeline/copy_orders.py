"""Copy new orders to another topic: a flow and a sink of a declarative pipeline.

    spark-pipelines run --spec docs/examples/pipeline/spark-pipeline.yml

Its checkpoint is in the pipeline's storage; the next run goes on there.
"""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()
name_server = spark.conf.get("orders.nameServer")
dp.create_sink("copies", "rocketmq", {"nameServer": name_server, "topic": "orders-copy"})


@dp.append_flow(target="copies")
def copy_orders() -> DataFrame:
    """Return the messages of the topic with the columns that are written."""
    messages = spark.readStream.format("rocketmq").option("nameServer", name_server).option("subscribe", "orders")
    return messages.option("startingOffsets", "earliest").load().select("body", "tags", "keys")
