"""Run the job `archive_to_delta` through a failure and from new checkpoints, and print how many rows its table has.

    python -m tests.examples.delta_run NAME_SERVER FOLDER

It runs in an environment with `delta-spark`, and prints one line of JSON, with the number of failures, rows and
messages; for a first checkpoint, a new one with the old application, and a new one with a new application.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from tests.examples.jobs import load, parse

JOB = load("archive_to_delta")


def delta_session() -> SparkSession:
    """Return a session with Delta; the first one of an environment fetches its jars."""
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", False)
        .config("spark.sql.shuffle.partitions", 2)
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    )
    session: SparkSession = import_module("delta").configure_spark_with_delta_pip(builder).getOrCreate()
    return session


class FailsOnce:
    """Appends batches as the job does, and fails after the second one has been written for the first time."""

    def __init__(self, table: str, application: str) -> None:
        self._append = JOB.append_to(table, application)
        self.failures = 0

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        self._append(batch, batch_id)
        if batch_id == 1 and not self.failures:
            self.failures += 1
            raise OSError("the driver fails here")


def main(name_server: str, folder: str) -> None:
    """Run the job four times, and print the counts."""
    spark, table = delta_session(), f"{folder}/table"

    def run(checkpoint: str, application: str) -> tuple[int, int, int]:
        words = (name_server, "orders", table, f"{folder}/{checkpoint}", "--option", "maxOffsetsPerTrigger=10")
        append = FailsOnce(table, application)
        try:
            JOB.start(spark, parse(JOB, *words), append).awaitTermination()
        except StreamingQueryException:
            JOB.start(spark, parse(JOB, *words), append).awaitTermination()
        rows = spark.read.format("delta").load(table)
        return append.failures, rows.count(), rows.select("queueId", "queueOffset").distinct().count()

    places = (("first", "archive-1"), ("second", "archive-1"), ("third", "archive-2"))
    print(json.dumps([run(*place) for place in places]))


if __name__ == "__main__":
    main(*sys.argv[1:])
