"""Compare the speed of two commits of this project.

`make bench-versus OLD=<commit>` checks the old commit out below `build/`, starts processes of both commits, and lets
them read the same topics in turn. Three sides take part: the old commit, the old commit again, and the new one. The
ratio of old again ÷ old shows the noise; a ratio of new ÷ old within the noise means no difference. The page is
`build/benchmarks/versus.md`.

Each round has new processes: two processes of the same code differ by some percent for all their life. Without Spark,
the processes of the old commit run that commit's worker, so task names and parameters of workers must not change.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tests.bench.bench_broker import BenchBroker, open_bench_broker
from tests.bench.bench_settings import LARGE, MESSAGES, ROOT, ROUNDS, SINGLE, SLOTS, SMALL, Shape, divide_messages
from tests.bench.contenders import ARROW_GROWN, ARROW_NO_MAP, ENGINE, TASKS
from tests.bench.idle_machine import wait_until_idle
from tests.bench.rounds import Run
from tests.bench.versus_decoder import NO_MAP
from tests.bench.worker_processes import WorkerProcess, on_one_core
from tests.real.artefacts import DEFAULT_VERSION

OLD, AGAIN, NEW = "old", "old again", "new"
SIDES = (OLD, AGAIN, NEW)
TRIGGERS = 25
PAGE = ROOT / "build" / "benchmarks" / "versus.md"
RECORDED = 65_536

Processes = Mapping[str, WorkerProcess]
Tasks = Mapping[str, tuple[str, Mapping[str, object]]]
"""{name of the comparison: (task of the processes, its parameters)}."""
Measure = Callable[[WorkerProcess, str, Mapping[str, object]], float]
"""A function that measures one task with its parameters in a process; a larger value is better."""


class Row(NamedTuple):
    """The result of one comparison: the medians over all rounds of new ÷ old, and of old again ÷ old."""

    name: str
    ratio: float
    noise: float
    rounds: int

    def __str__(self) -> str:
        return f"| {self.name} | {self.ratio:.3f} | {self.noise:.3f} | {self.rounds} |"


def main() -> None:
    """Compare the old checkout (the path in the first argument) with this one, in the parts that the others name."""
    old, parts = Path(sys.argv[1]).resolve(), sys.argv[2:]
    if unknown := [part for part in parts if part not in PARTS]:
        raise SystemExit(f"no such part: {', '.join(unknown)}; parts are {', '.join(PARTS)}")
    checkouts = {OLD: old, AGAIN: old, NEW: ROOT}
    rows: list[Row] = []
    with open_bench_broker(DEFAULT_VERSION) as bench_broker:
        for part in parts:
            rows += PARTS[part](bench_broker, checkouts)
            _write(rows)


def engine(bench_broker: BenchBroker, checkouts: Mapping[str, Path]) -> Iterator[Row]:
    """Compare reading eight queues without Spark; yield a row for each comparison."""
    for shape in (LARGE, SMALL):
        yield from _drains(bench_broker, checkouts, shape)


def memory(bench_broker: BenchBroker, checkouts: Mapping[str, Path]) -> Iterator[Row]:
    """Compare reading eight queues, with Spark and without; yield a row for each comparison."""
    yield from engine(bench_broker, checkouts)
    for shape in (LARGE, SMALL):
        yield from _spark_drains(bench_broker, checkouts, shape)


def single(bench_broker: BenchBroker, checkouts: Mapping[str, Path]) -> Iterator[Row]:
    """Compare reading one queue; yield a row for each comparison."""
    yield from _drains(bench_broker, checkouts, SINGLE)


def decoder(bench_broker: BenchBroker, checkouts: Mapping[str, Path]) -> Iterator[Row]:
    """Compare decoding stored responses; yield a row for each comparison. All sides decode the same file."""
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    for size in (1024, 100):
        shape, file = Shape(8, size, RECORDED), str(PAGE.with_name(f"versus-{size}"))
        with _workers(bench_broker, {NEW: checkouts[NEW]}) as workers:
            workers[NEW].drain("dump", topic=bench_broker.topic(shape), count=shape.messages, file=file)
        parameters = {"file": file, "count": divide_messages(MESSAGES, 2)}
        tasks = {
            f"decoder, {size} B, {columns}": ("decode", {**parameters, "columns": columns})
            for columns in ("all properties", "default", NO_MAP)
        }
        with on_one_core():
            yield from _compare(partial(_decoders, checkouts), tasks)


def push(bench_broker: BenchBroker, checkouts: Mapping[str, Path]) -> Iterator[Row]:
    """Compare push consumers whose listener does nothing; yield a row."""
    parameters = {"topic": bench_broker.topic(LARGE), "count": LARGE.messages, "batch": 32}
    tasks = {f"push, {LARGE}": ("push", parameters)}
    yield from _compare(partial(_workers, bench_broker, checkouts), tasks)


def triggers(bench_broker: BenchBroker, checkouts: Mapping[str, Path]) -> Iterator[Row]:
    """Compare small triggers: without tasks, and with one message each; yield a row for each comparison."""
    parameters = {"topic": bench_broker.empty_topic("versus_triggers"), "count": TRIGGERS}
    tasks = {f"trigger, {task}": (task, parameters) for task in ("empty", "single", "latency")}
    yield from _compare(partial(_spark_drivers, bench_broker, checkouts), tasks, _inverse_ms)


def _drains(bench_broker: BenchBroker, checkouts: Mapping[str, Path], shape: Shape) -> Iterator[Row]:
    contenders = {name: TASKS[name](shape) for name in (ENGINE, ARROW_GROWN, ARROW_NO_MAP)}
    for _, parameters in contenders.values():
        parameters.update(topic=bench_broker.topic(shape), count=shape.messages)
    tasks = {f"{name}, {shape}": task for name, task in contenders.items()}
    yield from _compare(partial(_workers, bench_broker, checkouts), tasks)


def _spark_drains(bench_broker: BenchBroker, checkouts: Mapping[str, Path], shape: Shape) -> Iterator[Row]:
    parameters = {"topic": bench_broker.topic(shape), "count": shape.messages}
    tasks = {f"Spark {task}, {shape}": (task, parameters) for task in ("batch", "stream")}
    yield from _compare(partial(_spark_drivers, bench_broker, checkouts), tasks)


def _drain_rate(process: WorkerProcess, task: str, parameters: Mapping[str, object]) -> float:
    run: Run = process.drain(task, **parameters)
    return run.messages / run.seconds


def _inverse_ms(process: WorkerProcess, task: str, parameters: Mapping[str, object]) -> float:
    return 1 / float(process.ask(task, **parameters)["ms"])


def _compare(
    start: Callable[[], AbstractContextManager[Processes]], tasks: Tasks, measure: Measure = _drain_rate
) -> Iterator[Row]:
    """Measure all sides in each task, each round in new processes; print and yield a row for each task.

    In each round, every process runs a task once as warm-up before it is measured.
    """
    found: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for number in range(ROUNDS):
        with start() as processes:
            for name, (task, parameters) in tasks.items():
                for side in SIDES:
                    measure(processes[side], task, parameters)
                for side in _in_turn(number):
                    found[name][side].append(measure(processes[side], task, parameters))
    for name, rates in found.items():
        yield _summarize(name, rates)


def _in_turn(number: int) -> tuple[str, ...]:
    """Return the sides in the order of a round: each is first in every third round."""
    return (*SIDES[number % 3 :], *SIDES[: number % 3])


def _summarize(name: str, rates: Mapping[str, Sequence[float]]) -> Row:
    """Print and return the row of a comparison."""
    row = Row(name, _median_ratio(rates[NEW], rates[OLD]), _median_ratio(rates[AGAIN], rates[OLD]), ROUNDS)
    print(row, flush=True)
    return row


def _median_ratio(values: Sequence[float], base: Sequence[float]) -> float:
    return median(value / other for value, other in zip(values, base, strict=True))


@contextmanager
def _workers(bench_broker: BenchBroker, checkouts: Mapping[str, Path]) -> Iterator[dict[str, WorkerProcess]]:
    """Start the worker of each side, which runs tasks without Spark; yield {side: process}."""
    command = [sys.executable, "-m", "tests.bench.worker", bench_broker.name_server]
    with _side_processes(checkouts, command) as processes:
        yield processes


@contextmanager
def _decoders(checkouts: Mapping[str, Path]) -> Iterator[dict[str, WorkerProcess]]:
    """Start a decoder of each side, which runs this checkout's versus_decoder.py; yield {side: process}."""
    command = [sys.executable, str(Path(__file__).with_name("versus_decoder.py"))]
    with _side_processes(checkouts, command) as processes:
        yield processes


@contextmanager
def _spark_drivers(bench_broker: BenchBroker, checkouts: Mapping[str, Path]) -> Iterator[dict[str, WorkerProcess]]:
    """Start a Spark driver of each side, which runs this checkout's versus_spark.py; yield {side: process}."""
    command = [sys.executable, str(Path(__file__).with_name("versus_spark.py")), bench_broker.name_server]
    with _side_processes(checkouts, command) as processes:
        yield processes


@contextmanager
def _side_processes(checkouts: Mapping[str, Path], command: Sequence[str]) -> Iterator[dict[str, WorkerProcess]]:
    """Start this command for each side, with imports from that side's checkout; yield {side: process}."""
    with ExitStack() as stack:
        processes = {
            side: stack.enter_context(WorkerProcess(side, command, {"PYTHONPATH": str(checkout)}, folder=checkout))
            for side, checkout in checkouts.items()
        }
        wait_until_idle()
        yield processes


def _write(rows: Sequence[Row]) -> None:
    commits = ", ".join(subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, text=True).split())
    head = [
        f"# {commits} beside {os.path.basename(sys.argv[1])}",
        f"{MESSAGES:,} messages, {SLOTS} slots, {ROUNDS} rounds. Ratios of rates, medians over rounds: above 1 the new",
        "commit is faster. *Noise* is the old commit beside itself.",
        "",
        "| | new ÷ old | noise | rounds |",
        "|---|---|---|---|",
    ]
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text("\n".join([*head, *map(str, rows)]) + "\n")


PARTS: dict[str, Callable[[BenchBroker, Mapping[str, Path]], Iterator[Row]]] = {
    part.__name__: part for part in (memory, engine, single, decoder, push, triggers)
}

if __name__ == "__main__":
    main()
