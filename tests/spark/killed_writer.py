"""Run a query that writes the lines of text files to a topic, and kill one of its processes at one point.

    WRITER_JOB=JSON python -m tests.spark.killed_writer

`Job` says what the JSON holds. The points, in the order in which a batch passes them: in a task `before` its first
send, with `some` rows sent, with `all` rows sent; and on the driver before the `commit` of the writer, and when it is
`committed` but not yet in Spark's commit log. A kill happens once: it first creates a file in the folder of marks.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from pyspark_rocketmq.datasource import RocketMQDataSource
from tests.spark.fixtures import LOG_OPTION

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TASK_POINTS = ("before", "some", "all")
DRIVER_POINTS = ("commit", "committed")
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of a JVM that does not live long."""
WAIT_S = 100.0
NAP_LINES, NAP_S = 50, 2.5
"""A slow source sleeps at every 50th line of a file, for longer than a send waits for its reply."""


class Kill(NamedTuple):
    """A process to kill, at a point of a batch.

    The driver, the `committer` (the process in which the writer's `commit` runs), the Python `worker` of a task, the
    `executor` JVM; or what the test does to the servers: `broker`, `names`, `frozen`, `replies`, `busy`; or `stopped`,
    an executor and its worker that stand still until Spark has given them up.
    """

    victim: str
    point: str
    batch: int

    @property
    def mark(self) -> str:
        """The name of the file that is created when the kill happens."""
        return "-".join(map(str, self))


@dataclass(frozen=True, kw_only=True)
class Job:
    """A query: its rows, where it writes them, and who is killed, each once."""

    master: str
    source: str
    """The folder of text files; each batch reads two of them, each in a task of its own."""
    checkpoint: str
    marks: str
    options: dict[str, str]
    expressions: list[str] = field(default_factory=lambda: ["value AS body"])
    partitions: int | None = None
    """The number of partitions into which rows are shuffled; None: they stay as they were read."""
    partition_by: str | None = None
    """The expression by which they are shuffled; None: evenly."""
    rows_at_once: int = 20
    """Rows of a record batch; a task gets several."""
    conf: dict[str, str] = field(default_factory=dict)
    kills: tuple[Kill, ...] = ()

    def text(self) -> str:
        """Return the job as JSON."""
        return json.dumps(asdict(self))


def parse_job(text: str) -> Job:
    """Return the job that `Job.text` wrote."""
    fields = json.loads(text)
    return Job(**{**fields, "kills": tuple(Kill(*kill) for kill in fields["kills"])})


# --- killing ---------------------------------------------------------------------------------------------------------


def strike(job: Job, point: str, batch: int) -> None:
    """Kill the job's victim of this point and batch, if there is one that has not been killed yet."""
    for kill in job.kills:
        if (kill.point, kill.batch) == (point, batch):
            mark = Path(job.marks, kill.mark)
            part = mark.with_suffix(f".{os.getpid()}")
            part.write_text(json.dumps(_lineage()))
            try:
                mark.hardlink_to(part)
            except FileExistsError:
                continue
            _kill(kill.victim, mark)


def _kill(victim: str, mark: Path) -> None:
    if victim in ("worker", "committer"):
        os.kill(os.getpid(), signal.SIGKILL)
    elif victim == "executor":
        os.kill(_lineage()[2], signal.SIGKILL)
    elif victim == "driver":
        for pid in json.loads((mark.parent / "driver").read_text()):
            os.kill(pid, signal.SIGKILL)
    else:
        _wait_for(mark.with_suffix(".done"))
        return
    time.sleep(WAIT_S)


def _lineage() -> list[int]:
    """Return the process ids of this process, its parent and its grandparent: a worker, Spark's daemon, the JVM."""
    parent = os.getppid()
    grandparent = int(Path("/proc", str(parent), "stat").read_text().rpartition(")")[2].split()[1])
    return [os.getpid(), parent, grandparent]


def _wait_for(path: Path) -> None:
    ends = time.monotonic() + WAIT_S
    while not path.exists():
        assert time.monotonic() < ends, f"{path.name} did not appear"
        time.sleep(0.02)


# --- the query -------------------------------------------------------------------------------------------------------


class KillingWriter(DataSourceStreamArrowWriter):
    """A writer that calls another one and kills at the points between the calls."""

    def __init__(self, writer: Any, job: Job) -> None:
        self._writer = writer
        self._job = job

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        batch = int(context.getLocalProperty("streaming.sql.batchId") or 0)
        strike(self._job, "before", batch)
        message: WriterCommitMessage = self._writer.write(self._tapped(iterator, batch))
        strike(self._job, "all", batch)
        return message

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Commit a batch."""
        strike(self._job, "commit", batchId)
        self._writer.commit(messages, batchId)
        strike(self._job, "committed", batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Abort a batch."""
        self._writer.abort(messages, batchId)

    def _tapped(self, iterator: Iterator[pa.RecordBatch], batch: int) -> Iterator[pa.RecordBatch]:
        for number, rows in enumerate(iterator):
            if number == 3:
                strike(self._job, "some", batch)
            yield rows


class KillingSource(RocketMQDataSource):
    """Our data source with a writer that kills."""

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:
        """Return the writer of a query."""
        job = parse_job(os.environ["WRITER_JOB"])
        return KillingWriter(super().streamWriter(schema, overwrite), job)


def slowly(text: str) -> str:
    """Return the text of a row; for some rows, sleep before that."""
    if int(text.split()[1]) % NAP_LINES == NAP_LINES - 1:
        time.sleep(NAP_S)
    return text


def main(job: Job) -> None:
    """Run the query until all rows are written, or until a kill ends it."""
    from pyspark.sql import SparkSession
    from pyspark.sql.functions import expr

    builder = SparkSession.builder.master(job.master).config("spark.ui.enabled", False)
    builder = builder.config("spark.driver.extraJavaOptions", f"{LOG_OPTION} {QUICK_START}").config(
        map=dict[str, bool | float | int | str | None](job.conf)
    )
    for name in ("arrow.maxRecordsPerBatch", "python.udf.maxRecordsPerBatch"):
        builder = builder.config(f"spark.sql.execution.{name}", job.rows_at_once)
    spark = builder.config("spark.sql.shuffle.partitions", job.partitions or 1).getOrCreate()
    jvm = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
    Path(job.marks, "driver").write_text(json.dumps([jvm, os.getpid()]))
    spark.dataSource.register(KillingSource)
    spark.udf.register("slowly", slowly)
    rows: DataFrame = spark.readStream.option("maxFilesPerTrigger", 2).text(job.source)
    if job.partitions:
        rows = rows.repartition(job.partitions, *([expr(job.partition_by)] if job.partition_by else []))
    writer = rows.selectExpr(*job.expressions).writeStream.format("rocketmq").options(**job.options)
    query = writer.option("checkpointLocation", job.checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()


if __name__ == "__main__":
    main(parse_job(os.environ["WRITER_JOB"]))
    sys.exit(0)
