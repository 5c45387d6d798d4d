"""Define the contenders that read a topic outside and inside Spark.

They are the official Java consumers, raw sockets, our pull engine, and our source in Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.bench.bench_broker import BenchBroker
from tests.bench.bench_settings import DEPTH, HALF, IS_QUICK, LARGE, Shape
from tests.bench.rounds import Contender
from tests.bench.worker_processes import WorkerProcess, start_java_worker, start_python_worker

if TYPE_CHECKING:
    from tests.bench.sparks import BenchSpark

JAVA_PUSH, JAVA_LITE, JAVA_PULL = "Java push consumer", "Java lite pull consumer", "Java pull consumer"
JAVA = (JAVA_PUSH, JAVA_LITE, JAVA_PULL)
RAW_SOCKETS = "raw sockets"
ENGINE = "pull engine"
FILTERED = "pull engine, with tags"
ARROW, ARROW_NO_MAP = "pull engine + Arrow", "pull engine + Arrow, no map"
ARROW_GROWN = "pull engine + Arrow, window as it grows"
SPARK, SPARK_NO_MAP = "Spark batch", "Spark batch, no map"
SPARK_STREAM = "Spark availableNow"
READY, READY_NO_MAP = "Spark batch, rows ready", "Spark batch, rows ready, no map"
_ESSENTIAL = (*JAVA, RAW_SOCKETS, ENGINE, ARROW, SPARK)

PUSH_BATCH = 32
TAG = "bench"
"""The tag of all messages."""
WARM_UP_LIMIT = 300_000
"""The number of messages of a warm-up, after which the JVM has compiled the code."""


@dataclass(frozen=True)
class ClientProcesses:
    """The processes in which contenders outside Spark run: a JVM for each official consumer, and one Python process."""

    java: dict[str, WorkerProcess]
    python: WorkerProcess

    def contender(self, bench_broker: BenchBroker, shape: Shape, name: str, **more: object) -> Contender:
        """Return the contender outside Spark with this name, to read a topic of this shape.

        `more` are further parameters of its task.
        """
        topic, worker = bench_broker.topic(shape), self.java.get(name, self.python)
        task, parameters = TASKS[name](shape)
        parameters.update(more)
        return Contender(
            name,
            lambda count: worker.drain(task, topic=topic, count=count, **parameters),
            {**worker.processes, **bench_broker.processes},
            shape.messages,
            min(shape.messages, WARM_UP_LIMIT // shape.queues * shape.queues),
        )


Task = Callable[[Shape], tuple[str, dict[str, object]]]
TASKS: dict[str, Task] = {
    JAVA_PUSH: lambda _: ("push", {"batch": PUSH_BATCH}),
    JAVA_LITE: lambda _: ("lite", {}),
    JAVA_PULL: lambda _: ("pull", {}),
    RAW_SOCKETS: lambda shape: ("raw_sockets", {"depth": DEPTH, "size": shape.size}),
    ENGINE: lambda _: ("engine", {"depth": DEPTH}),
    FILTERED: lambda _: ("engine", {"depth": DEPTH, "tags": TAG}),
    ARROW: lambda _: ("arrow", {"columns": "default", "depth": DEPTH}),
    ARROW_NO_MAP: lambda _: ("arrow", {"columns": "no map", "depth": DEPTH}),
    ARROW_GROWN: lambda _: ("arrow", {"columns": "default", "depth": None}),
}
"""The task and parameters of each contender outside Spark."""


@contextmanager
def open_client_processes(bench_broker: BenchBroker) -> Iterator[ClientProcesses]:
    """Start the processes of all contenders outside Spark, and end them after the `with` block."""
    with ExitStack() as stack:
        java = {name: stack.enter_context(start_java_worker(bench_broker.name_server)) for name in JAVA}
        yield ClientProcesses(java, stack.enter_context(start_python_worker(bench_broker.name_server)))


def is_selected(name: str) -> bool:
    """Return whether this run measures a contender; with `BENCH_QUICK=1` it measures the essential ones only."""
    return name in _ESSENTIAL or not IS_QUICK


def spark_contenders(spark: BenchSpark, bench_broker: BenchBroker, shape: Shape) -> list[Contender]:
    """Return the selected contenders inside Spark for a topic of this shape.

    They are batch reads of our source and of ready rows, with and without the map of properties, and for large messages
    also a stream read.
    """
    batches = [
        make(bench_broker, shape, name, no_map=no_map)
        for make, name, no_map in (
            (spark.batch, SPARK, False),
            (spark.batch, SPARK_NO_MAP, True),
            (spark.ready, READY, False),
            (spark.ready, READY_NO_MAP, True),
        )
        if is_selected(name)
    ]
    if shape == LARGE and is_selected(SPARK_STREAM):
        return [*batches, spark.stream(bench_broker, HALF, SPARK_STREAM)]
    return batches
