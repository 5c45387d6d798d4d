"""Run the Spark job of the demo: sums of orders by shop and window, which go to a topic.

This is the program of a process of its own. The first line of its standard input is a JSON object with settings; when
the input ends, so does the process. Each batch is a line of JSON on its standard output, and so is a failure.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from ... import writing

Tell = Callable[[dict[str, Any]], None]
"""Writes an event to the process that started this one."""
WINDOW = "5 seconds"
_LATE = "1 minute"
"""The watermark; longer than a broker is away in the demo, so that its orders count when it is back."""
_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A Java that lives for half a minute spends most of its time on compiling well: with these options, half of it."""
_OURS = re.compile(r"\[[A-Z_]+\] .*")


def main() -> None:
    """Run the job until it fails or the process is ended."""
    tell = _take_over_output()
    settings = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_input, daemon=True).start()
    try:
        spark = start_spark(Path(settings["directory"]))
        query = start_query(spark, settings, tell)
        query.awaitTermination()
    except Exception as error:
        tell({"error": _sentence(str(error))})
        raise


def _take_over_output() -> Tell:
    """Return a function that writes to the standard output; all else that is written there goes to stderr."""
    events = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def tell(event: dict[str, Any]) -> None:
        print(json.dumps(event), file=events, flush=True)

    return tell


def _end_with_input() -> None:
    while sys.stdin.readline():
        pass
    os._exit(0)


def start_spark(directory: Path) -> SparkSession:
    """Return a small local session that leaves nothing outside of the directory."""
    return (
        SparkSession.builder.master("local[2]")
        .appName("pyspark-rocketmq demo")
        .config("spark.driver.extraJavaOptions", _JAVA)
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.local.dir", str(directory))
        .config("spark.sql.warehouse.dir", (directory / "warehouse").as_uri())
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )


def sum_orders(orders: DataFrame) -> DataFrame:
    """Return number and sum of orders by shop and window, by the time at which the broker stored them."""
    order = F.from_json(F.col("body").cast("string"), "shop string, cents long").alias("order")
    return (
        orders.select("storeTimestamp", order)
        .withWatermark("storeTimestamp", _LATE)
        .groupBy(F.window("storeTimestamp", WINDOW), "order.shop")
        .agg(F.count("*").alias("orders"), F.sum("order.cents").alias("cents"))
        .select(F.unix_millis("window.start").alias("window"), "shop", "orders", "cents")
    )


def start_query(spark: SparkSession, settings: dict[str, Any], tell: Tell) -> StreamingQuery:
    """Start the query, which writes sums to a topic and tells of them."""
    connection = settings["options"]

    def handle(sums: DataFrame, batch_id: int) -> None:
        sums.persist()
        rows = [list(row) for row in sums.collect()]
        messages = sums.select(F.col("shop").alias("keys"), F.to_json(F.struct("*")).alias("body"))
        writing.send(messages, batch_id, {**connection, "topic": settings["sums"]})
        sums.unpersist()
        tell({"batch": batch_id, "sums": rows})

    reader = spark.readStream.format("rocketmq").options(**connection)
    reader = reader.options(subscribe=settings["orders"], startingOffsets="earliest", pollNameServerInterval="1s")
    return (
        sum_orders(reader.load())
        .writeStream.outputMode("update")
        .option("checkpointLocation", (Path(settings["directory"]) / "checkpoint").as_uri())
        .trigger(processingTime="1 second")
        .foreachBatch(handle)
        .start()
    )


def _sentence(text: str) -> str:
    """Return the sentence of our own in the text of a failure, else its first line."""
    ours = _OURS.search(text)
    return ours[0] if ours else text.partition("\n")[0]


if __name__ == "__main__":
    main()
