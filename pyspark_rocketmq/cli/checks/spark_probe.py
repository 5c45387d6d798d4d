"""Look around in Spark's processes, and print what is found as a line of JSON: `python -m <this module> MASTER`.

`doctor --spark` runs this in a process of its own, so that Spark's messages and threads stay out of the command. All
that runs in other processes is pickled by value, since this module is their `__main__`: they may lack this package.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

_NAME = "rocketmq_probe"
_MOST_TASKS = 64
_MOST_TEXT = 4000


def look_around(role: str) -> str:
    """Return what this process has, as JSON."""
    import importlib.metadata
    import importlib.util
    import platform

    def version(name: str) -> str | None:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            return getattr(__import__(name), "__version__", "?") if importlib.util.find_spec(name) else None

    names = ("pyspark", "pyspark_rocketmq", "pyarrow")
    versions = {name: version(name) for name in names}
    found = {"role": role, "host": platform.node(), "python": platform.python_version(), "executable": sys.executable}
    return json.dumps({**found, "packages": versions})


class _Source(DataSource):
    """A data source whose row tells where its partitions were made."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return _NAME

    def schema(self) -> str:
        """Return the schema: one text."""
        return "found string"

    def reader(self, schema: Any) -> DataSourceReader:
        """Return the reader."""
        return _Reader()


class _Reader(DataSourceReader):
    """Looks around where it plans."""

    def partitions(self) -> list[InputPartition]:
        """Return a partition that carries what the planner's process has."""
        return [InputPartition(look_around("planner"))]

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        """Yield what the planner's process has."""
        yield (partition.value,)


def probe(master: str) -> dict[str, Any]:
    """Return the Java of the session, what driver, planner and executors have, and the reason if a job failed."""
    places = [look_around("driver")]
    java, failure = None, None
    try:
        builder = SparkSession.builder.master(master).appName("pyspark-rocketmq doctor")
        spark = builder.config("spark.ui.enabled", False).getOrCreate()
        try:
            context = spark.sparkContext
            jvm: Any = context._jvm
            java = jvm.System.getProperty("java.version")
            # These tasks need no Arrow, so they can tell that it is missing.
            tasks = context.parallelize(range(_MOST_TASKS), min(_MOST_TASKS, 2 * context.defaultParallelism))
            places += set(tasks.map(lambda _: look_around("executor")).collect())
            spark.dataSource.register(_Source)
            places += [row.found for row in spark.read.format(_NAME).load().collect()]
        finally:
            spark.stop()
    except Exception as error:
        failure = f"{type(error).__name__}: {error}"[:_MOST_TEXT]
    return {"java": java, "places": [json.loads(each) for each in places], "failure": failure}


if __name__ == "__main__":
    print(json.dumps(probe(sys.argv[1])), flush=True)
