"""Send rows back over Spark Connect with a local server, and print the results.

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
    """Return SUCCESS for one message and RECONSUME_LATER for all others."""
    return SUCCESS if row.body == b"a" else RECONSUME_LATER


def column_of(report: DataFrame, column: str) -> list[str]:
    """Return the values of one column of a report, sorted."""
    return sorted(str(row[column]) for row in report.collect())


def main(name_server: str) -> None:
    """Consume the topic `orders`, send all rows back, send rows to an unknown broker; print the three results."""
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    options = {"nameServer": name_server, "subscribe": "orders", "consumerGroup": GROUP}
    rows = spark.read.format("rocketmq").options(**options).load()
    results = column_of(consume(rows, listen, options), "result")
    accepted = column_of(send_back(rows, options), "accepted")
    try:
        send_back(rows.selectExpr("topic", "'broker-z' AS brokerName", "commitLogOffset", "msgId"), options)
    except SendBackError as error:
        print(json.dumps([results, accepted, error.counts]))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
