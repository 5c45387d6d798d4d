"""Define the contenders that write a topic outside and inside Spark.

They are the official Java producer, raw sockets, our engine (`encode` and `send`), and our sink in Spark. All write the
rows of `rows_to_write`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

from tests.bench.bench_broker import BenchBroker
from tests.bench.bench_settings import IS_QUICK, MESSAGES
from tests.bench.rounds import Contender, Run
from tests.bench.rows_to_write import whole_rounds
from tests.bench.worker_processes import WorkerProcess, start_java_worker, start_python_worker
from tests.real.servers import wait_until

JAVA_SYNC, JAVA_ASYNC = "Java producer, sync", "Java producer, async"
RAW_SENDS = "raw sockets"
SEND_ENGINE = "encode + send"
SPARK_WRITE = "Spark write"
DISCARDED = "Spark write, rows discarded"
QUEUES = 8
READABLE_S = 120


class Writing(NamedTuple):
    """The most rows of one request, and the body bytes of a row."""

    batch: int
    size: int

    def __str__(self) -> str:
        rows = "one by one" if self.batch == 1 else f"batches of {self.batch}"
        return f"{rows}, {'1 KiB' if self.size == 1024 else f'{self.size} B'}"

    @property
    def rows(self) -> int:
        """The number of rows that each contender writes; fewer one by one, because that is slow."""
        return whole_rounds(MESSAGES if self.batch > 1 else MESSAGES // 8)

    @property
    def warm_up(self) -> int:
        """The number of rows of a warm-up, after which the JVM has compiled the code."""
        return min(self.rows, whole_rounds(300_000 if self.batch > 1 else 120_000))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the contenders outside Spark."""
        return tuple(name for name in TASKS if self.batch == 1 or name != JAVA_ASYNC)


BATCHES = (32,) if IS_QUICK else (32, 128)
SIZES = (1024,) if IS_QUICK else (1024, 100)
WRITINGS = [Writing(batch, size) for size in SIZES for batch in (*BATCHES, 1)]

Task = Callable[[Writing], tuple[str, dict[str, object]]]
TASKS: dict[str, Task] = {
    JAVA_SYNC: lambda writing: ("send", {**writing._asdict()}),
    JAVA_ASYNC: lambda writing: ("send", {**writing._asdict(), "async": True}),
    RAW_SENDS: lambda writing: ("raw_sends", {**writing._asdict()}),
    SEND_ENGINE: lambda writing: ("sends", {**writing._asdict()}),
}
"""The task and parameters of each contender outside Spark."""


@dataclass(frozen=True)
class SendingProcesses:
    """The processes in which contenders outside Spark run: a JVM for each official producer, and one Python process."""

    java: dict[str, WorkerProcess]
    python: WorkerProcess

    def contender(self, bench_broker: BenchBroker, topic: str, writing: Writing, name: str) -> Contender:
        """Return the contender outside Spark with this name."""
        worker = self.java.get(name, self.python)
        task, parameters = TASKS[name](writing)
        return Contender(
            name,
            lambda count: worker.drain(task, topic=topic, count=count, **parameters),
            {**worker.processes, **bench_broker.processes},
            writing.rows,
            writing.warm_up,
            bench_broker.empty_log,
        )


@contextmanager
def open_sending_processes(bench_broker: BenchBroker, writing: Writing) -> Iterator[SendingProcesses]:
    """Start the processes of all contenders outside Spark, and end them after the `with` block."""
    names = [name for name in writing.names if name in (JAVA_SYNC, JAVA_ASYNC)]
    with ExitStack() as stack:
        java = {name: stack.enter_context(start_java_worker(bench_broker.name_server)) for name in names}
        yield SendingProcesses(java, stack.enter_context(start_python_worker(bench_broker.name_server)))


class Readable:
    """Waits after each run until the broker has all its rows, and notes the rates until then.

    A broker acknowledges a row when it is in its log; only later it enters the queue, and can be read.
    """

    def __init__(self, bench_broker: BenchBroker, topic: str) -> None:
        self.rates: dict[str, list[float]] = {}
        """{contender: rows a second until all could be read, for each run}."""
        self._bench_broker = bench_broker
        self._topic = topic

    def watch(self, contender: Contender) -> Contender:
        """Return the contender with a run that ends when all rows are readable; its seconds are unchanged."""

        def run(count: int) -> Run:
            wanted = self._count() + count
            found = contender.run(count)
            ended = time.perf_counter()
            self.wait(wanted)
            rate = found.messages / (found.seconds + time.perf_counter() - ended)
            self.rates.setdefault(contender.name, []).append(rate)
            return found

        return replace(contender, run=run)

    def wait(self, wanted: int) -> None:
        """Wait until the topic has had this number of readable rows."""
        wait_until(lambda: self._count() >= wanted, f"{self._topic} has {wanted} rows", READABLE_S)

    def _count(self) -> int:
        return self._bench_broker.readable(self._topic, QUEUES)
