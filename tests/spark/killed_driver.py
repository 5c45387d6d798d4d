"""Run a driver that kills itself and its JVM, as a power cut would, at one point of its second micro-batch.

    READER_OPTIONS=JSON python -m tests.spark.killed_driver POINT CHECKPOINT SINK

The points, in the order in which a batch passes them: `latestOffset` returned, `offsets` log written, inside `read`,
inside `foreachBatch` after the sink has the rows, `commits` log written. The sink is a directory with one file for each
batch id, so that a batch which is written again replaces itself.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.spark.fixtures import LOG_OPTION

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

POINTS = ("latestOffset", "offsets", "read", "foreachBatch", "commits")
BATCH = 1
"""The id of the batch in which the driver dies; batch 0 is finished, and our reader commits its end in this batch."""


def write_batch(sink: Path, frame: DataFrame, batch_id: int) -> None:
    """Write the messages of a batch to a file of the sink, completely or not at all."""
    rows = sorted(row.body.decode() for row in frame.collect())
    part = sink / f"{batch_id}.part"
    part.write_text(json.dumps(rows))
    part.rename(sink / f"{batch_id}.json")


def main(point: str, checkpoint: Path, sink: Path) -> None:
    """Run the query; at this point of its second batch it kills its own process and JVM."""
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from pyspark_rocketmq.datasource import RocketMQDataSource
    from pyspark_rocketmq.source.stream import make_stream_reader

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", False)
    spark = builder.config("spark.driver.extraJavaOptions", LOG_OPTION).getOrCreate()
    victims = [spark.sparkContext._gateway.proc.pid, os.getpid()]  # type: ignore[union-attr]

    def die() -> None:
        for victim in victims:
            os.kill(victim, signal.SIGKILL)
        time.sleep(60)

    def is_logged(log: str, batch_id: int) -> bool:
        return (checkpoint / log / str(batch_id)).exists()

    class DyingSource(RocketMQDataSource):
        """Our data source with a reader that kills the driver at the chosen point."""

        def streamReader(self, schema: StructType) -> Any:
            base: Any = type(make_stream_reader(self._options(schema, stream=True)))

            class DyingReader(base):  # type: ignore[misc]  # the class depends on the version of PySpark
                def latestOffset(self, start: Any, limit: Any) -> Any:
                    if point == "commits" and is_logged("commits", BATCH):
                        die()
                    return super().latestOffset(start, limit)

                def reportLatestOffset(self) -> Any:
                    if point == "latestOffset" and is_logged("commits", BATCH - 1):
                        die()
                    return super().reportLatestOffset()

                def partitions(self, start: Any, end: Any) -> Any:
                    if point == "offsets" and is_logged("offsets", BATCH):
                        die()
                    return super().partitions(start, end)

                def read(self, partition: Any) -> Iterator[Any]:
                    yield from super().read(partition)
                    if point == "read" and is_logged("offsets", BATCH):
                        die()

            return DyingReader(self._options(schema, stream=True))

    def write(frame: DataFrame, batch_id: int) -> None:
        write_batch(sink, frame, batch_id)
        if point == "foreachBatch" and batch_id == BATCH:
            die()

    spark.dataSource.register(DyingSource)
    options = json.loads(os.environ["READER_OPTIONS"])
    frame = spark.readStream.format("rocketmq").options(**options).load()
    writer = frame.writeStream.foreachBatch(write).option("checkpointLocation", str(checkpoint))
    writer.trigger(processingTime="0 seconds").start().awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
