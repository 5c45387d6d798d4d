"""Read orders from RocketMQ with Spark, and print a windowed sum per shop as it grows.

    python docs/examples/live_orders.py                          # with an embedded broker
    NAME_SERVER=localhost:9876 python docs/examples/live_orders.py   # with a real cluster

The program ends after SECONDS (20). It prints rows, rate and lag of each micro-batch.
"""

from __future__ import annotations

import json
import math
import os
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

LOGGING = Path(__file__).parents[2] / "conf" / "log4j2.properties"
TOPIC = "demo-orders"
QUEUES = 4
SHOPS = ("Aachen", "Bergen", "Cádiz", "Dublin")
ORDERS_PER_SECOND = 200
SECONDS = float(os.environ.get("SECONDS", "20"))

Send = Callable[[bytes, str], None]
"""Function that sends one order, given its body and its shop."""


@contextmanager
def embedded_broker() -> Iterator[tuple[str, Send]]:
    """Start a broker in this process; yield its name server's address and a function that sends to it."""
    from broker_stub import StubBroker

    with StubBroker(topics={TOPIC: QUEUES}) as broker:
        print(f"==> embedded broker, name server {broker.name_server}", flush=True)

        def send(body: bytes, shop: str) -> None:
            broker.put(TOPIC, body, tags=shop)

        yield broker.name_server, send


@contextmanager
def real_cluster(name_server: str) -> Iterator[tuple[str, Send]]:
    """Connect to a running cluster and create the topic if it is missing; yield as `embedded_broker` does."""
    from pyspark_rocketmq.cluster.cluster import open_cluster
    from pyspark_rocketmq.cluster.messages import Sending
    from pyspark_rocketmq.cluster.settings import ClusterSettings
    from pyspark_rocketmq.model import parse_addresses
    from pyspark_rocketmq.wire.bodies import TopicConfig
    from pyspark_rocketmq.wire.properties import encode_properties

    cluster = open_cluster(ClusterSettings(parse_addresses(name_server, "NAME_SERVER")))
    cluster.admin.create_topic(TopicConfig(topic_name=TOPIC, read_queue_nums=QUEUES, write_queue_nums=QUEUES))
    print(f"==> cluster of {name_server}, topic {TOPIC}", flush=True)

    def send(body: bytes, shop: str) -> None:
        queue = random.choice(cluster.routes.route(TOPIC).writable)
        properties = encode_properties({"TAGS": shop}).decode()
        now_ms = time.time_ns() // 1_000_000
        cluster.messages.send(
            Sending(producer_group="demo", queue=queue, body=body, properties=properties, born_timestamp_ms=now_ms)
        )

    yield name_server, send


def keep_ordering(send: Send, closing: threading.Event) -> None:
    """Send orders at an even pace until `closing` is set."""
    number = 0
    while not closing.wait(1 / ORDERS_PER_SECOND):
        number += 1
        shop = random.choice(SHOPS)
        order = {"order": number, "shop": shop, "amount": round(random.uniform(5, 200), 2)}
        send(json.dumps(order, ensure_ascii=False).encode(), shop)


def sums_per_shop(spark: SparkSession, name_server: str) -> DataFrame:
    """Build the query: orders per shop and five seconds, by the time at which the broker stored them."""
    orders = (
        spark.readStream.format("rocketmq")
        .option("nameServer", name_server)
        .option("subscribe", TOPIC)
        .option("startingOffsets", "earliest")
        .load()
        .select("storeTimestamp", F.from_json(F.col("body").cast("string"), "shop string, amount double").alias("o"))
    )
    return (
        orders.withWatermark("storeTimestamp", "10 seconds")
        .groupBy(F.window("storeTimestamp", "5 seconds"), "o.shop")
        .agg(F.count("*").alias("orders"), F.round(F.sum("o.amount"), 2).alias("amount"))
    )


def print_batch(sums: DataFrame, batch_id: int) -> None:
    """Print the windows that a batch changed."""
    rows = sums.orderBy(F.col("window").desc(), "shop").limit(len(SHOPS)).collect()
    for row in rows:
        print(f"    {row.window.start:%H:%M:%S}  {row.shop:<8} {row.orders:>6} orders {row.amount:>12,.2f}", flush=True)


def total(offsets: str | None) -> int:
    """Sum up all offsets in an offset's JSON."""
    topics = json.loads(offsets or "{}").get("next", {})
    return sum(offset for brokers in topics.values() for ids in brokers.values() for offset in ids.values())


def start_spark() -> SparkSession:
    """Start a small local session that logs errors only."""
    return (
        SparkSession.builder.master("local[2]")
        .appName("live-orders")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile=file:{LOGGING}")
        .getOrCreate()
    )


def follow(query: StreamingQuery) -> int:
    """Print each micro-batch until `SECONDS` after the first; return the number of orders read."""
    rows, last_batch, ends = 0, -1, math.inf
    while query.isActive and time.monotonic() < ends:
        query.awaitTermination(1)
        for progress in query.recentProgress:
            if progress["batchId"] > last_batch:
                ends = min(ends, time.monotonic() + SECONDS)
                last_batch = progress["batchId"]
                rows += progress["numInputRows"]
                print(describe(progress), flush=True)
    if error := query.exception():
        raise error
    return rows


def stop_between_batches(query: StreamingQuery) -> None:
    """Stop between two batches, or after ten seconds within one."""
    ends = time.monotonic() + 10
    while query.status["isTriggerActive"] and time.monotonic() < ends:
        query.awaitTermination(1)
    query.stop()


def describe(progress: StreamingQueryProgress) -> str:
    """Return a line about a micro-batch."""
    source = progress["sources"][0]
    lag = total(source["latestOffset"]) - total(source["endOffset"])
    rate = progress["processedRowsPerSecond"]
    return f"batch {progress['batchId']}: {progress['numInputRows']} rows, {rate:.0f} rows/s, lag {lag}"


def run(name_server: str) -> int:
    """Run the query; return the number of orders read."""
    spark = start_spark()
    with tempfile.TemporaryDirectory() as checkpoint:
        query = (
            sums_per_shop(spark, name_server)
            .writeStream.outputMode("update")
            .option("checkpointLocation", checkpoint)
            .trigger(processingTime="2 seconds")
            .foreachBatch(print_batch)
            .start()
        )
        rows = follow(query)
        stop_between_batches(query)
    spark.stop()
    return rows


def main() -> None:
    """Start broker, producer and query; print the number of orders at the end."""
    name_server = os.environ.get("NAME_SERVER")
    closing = threading.Event()
    with real_cluster(name_server) if name_server else embedded_broker() as (address, send):
        producer = threading.Thread(target=keep_ordering, args=(send, closing), daemon=True)
        producer.start()
        print("==> starting Spark", flush=True)
        try:
            rows = run(address)
        finally:
            closing.set()
            producer.join()
    print(f"==> done: {rows} orders read through Spark")


if __name__ == "__main__":
    main()
