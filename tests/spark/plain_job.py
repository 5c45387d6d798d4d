"""Read a topic as a plain script does, then fail as one does: nothing is configured, nothing is caught.

    python -m tests.spark.plain_job NAME_SERVER CHECKPOINT

It prints `--- TITLE` to stderr before each part, so that a test can tell their lines apart.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession


def announce(title: str) -> None:
    """Print the title of a part."""
    print(f"--- {title}", file=sys.stderr, flush=True)


def main(name_server: str, checkpoint: str) -> None:
    """Read the topic `orders`, twice with one checkpoint, and then a topic that does not exist."""
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", False).getOrCreate()
    reader = spark.readStream.format("rocketmq").option("nameServer", name_server)

    def run(topic: str, where: str) -> None:
        frame = reader.option("subscribe", topic).option("startingOffsets", "earliest").load()
        writer = frame.writeStream.format("noop").option("checkpointLocation", f"{checkpoint}/{where}")
        writer.trigger(availableNow=True).start().awaitTermination()

    announce("works")
    run("orders", "a")
    announce("goes on")
    run("orders", "a")
    announce("fails")
    run("no-such-topic", "b")


if __name__ == "__main__":
    main(*sys.argv[1:])
