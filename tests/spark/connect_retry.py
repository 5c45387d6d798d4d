"""A program that gives rows back over Spark Connect, with a local server: prints what became of them.

python -m tests.spark.connect_retry NAME_SERVER
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import DataFrame, Row, SparkSession

from pyspark_rocketmq.errors import SendBackError
from pyspark_rocketmq.retry import RECONSUME_LATER, SUCCESS, consume, send_back

GROUP = "over-connect"


def listen(row: Row) -> str:
    """Only one row is to be had."""
    return SUCCESS if row.body == b"a" else RECONSUME_LATER


def told(report: DataFrame, column: str) -> list[str]:
    """A column of the result, sorted."""
    return sorted(str(row[column]) for row in report.collect())


def main(name_server: str) -> None:
    """Read the topic `orders`, consume it, give all rows back, and fail to."""
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    options = {"nameServer": name_server, "subscribe": "orders", "consumerGroup": GROUP}
    rows = spark.read.format("rocketmq").options(**options).load()
    results = told(consume(rows, listen, options), "result")
    accepted = told(send_back(rows, options), "accepted")
    try:
        send_back(rows.selectExpr("topic", "'broker-z' AS brokerName", "commitLogOffset", "msgId"), options)
    except SendBackError as error:
        print(json.dumps([results, accepted, error.counts]))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
