"""Run the Spark tasks of one side for `tests.bench.versus`: read one JSON object per line, and answer with one.

The script is run by its path, with the PYTHONPATH of the side, so that driver, planner and workers import that side's
code. So it may import from `tests.bench` only names that the old commit has, too.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
from collections.abc import Callable
from statistics import median
from typing import Any

from tests.bench.sparks import BenchSpark, fresh_folder, open_spark, write_nowhere
from tests.bench.triggers import TICKING, one_by_one, triggers_of

STREAM_S = 900


def main() -> None:
    """Answer tasks from stdin until it ends; Spark's own output goes to stderr."""
    out, sys.stdout = sys.stdout, sys.stderr
    with open_spark() as spark:
        for line in sys.stdin:
            parameters = json.loads(line)
            try:
                answer = TASKS[parameters.pop("task")](spark, sys.argv[1], **parameters)
            except Exception as problem:
                traceback.print_exc()
                answer = {"error": repr(problem)}
            print(json.dumps(answer), file=out, flush=True)


def batch(spark: BenchSpark, name_server: str, topic: str, count: int) -> dict[str, Any]:
    """Read a topic as a batch; return the number of messages and the seconds."""
    frame = spark.session.read.format("rocketmq").options(**_reading(name_server, topic)).load()
    began = time.perf_counter()
    write_nowhere(frame)
    return {"messages": count, "seconds": time.perf_counter() - began}


def stream(spark: BenchSpark, name_server: str, topic: str, count: int) -> dict[str, Any]:
    """Read a topic as a stream with `availableNow`; return the number of messages and the seconds."""
    options = {**_reading(name_server, topic), "startingOffsets": "earliest"}
    with fresh_folder() as checkpoint:
        began = time.perf_counter()
        frame = spark.session.readStream.format("rocketmq").options(**options).load()
        writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(STREAM_S), "the query did not end"
        rows = sum(int(each["numInputRows"]) for each in query.recentProgress)
        assert rows == count, f"{rows} rows of {count}"
        return {"messages": rows, "seconds": time.perf_counter() - began}


def empty(spark: BenchSpark, name_server: str, topic: str, count: int) -> dict[str, Any]:
    """Run `count` triggers without tasks; return their median duration in milliseconds."""
    reading = {**_reading(name_server, topic), "startingOffsets": "latest"}
    found = triggers_of(spark.session, TICKING, reading, count, rows=0)
    return {"ms": median(each["triggerExecution"] for each in found)}


def single(spark: BenchSpark, name_server: str, topic: str, count: int) -> dict[str, Any]:
    """Run `count` triggers of one message each; return their median duration in milliseconds."""
    found, _ = one_by_one(spark.session, name_server, topic, count)
    return {"ms": median(each["triggerExecution"] for each in found)}


def latency(spark: BenchSpark, name_server: str, topic: str, count: int) -> dict[str, Any]:
    """Send messages one at a time; return the median milliseconds from store timestamp to collection."""
    _, found = one_by_one(spark.session, name_server, topic, count)
    return {"ms": median(found)}


def _reading(name_server: str, topic: str) -> dict[str, str]:
    return {"nameServer": name_server, "subscribe": topic, "maxPartitions": "2"}


TASKS: dict[str, Callable[..., dict[str, Any]]] = {
    task.__name__: task for task in (batch, stream, empty, single, latency)
}

if __name__ == "__main__":
    main()
