"""Compare two commits of this project, in alternating rounds of one run.

`make bench-versus OLD=<commit>` checks the old commit out below `build/`, starts processes of both, and lets them drain
the same topics in turn. The old code takes part twice, so that the page also says how far one commit is from itself:
a ratio inside that spread is no difference. The page goes to `build/benchmarks/versus.md`.

A process of the old commit runs the old worker, too, so that contenders of both may differ in how they are driven.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tests.bench.contenders import ARROW_GROWN, ARROW_NO_MAP, ENGINE, TASKS
from tests.bench.partners import Partner, on_one_core
from tests.bench.plan import LARGE, MESSAGES, ROOT, ROUNDS, SINGLE, SLOTS, SMALL, Shape, share_of
from tests.bench.quiet import wait_quiet
from tests.bench.rounds import Run
from tests.bench.stage import Stage, open_stage
from tests.real.artefacts import DEFAULT_VERSION

OLD, AGAIN, NEW = "old", "old again", "new"
SIDES = (OLD, AGAIN, NEW)
TRIGGERS = 25
PAGE = ROOT / "build" / "benchmarks" / "versus.md"
RECORDED = 65_536
_NO_MAP = "no map"

Measure = Callable[[str], float]
"""Takes a side; the larger the value, the better."""


class Row(NamedTuple):
    """One compared thing: medians over rounds of new ÷ old, and of old again ÷ old."""

    name: str
    ratio: float
    noise: float
    rounds: int

    def __str__(self) -> str:
        return f"| {self.name} | {self.ratio:.3f} | {self.noise:.3f} | {self.rounds} |"


def main() -> None:
    """Compare the checkout in the first argument with this one, by the parts in the others."""
    old, parts = Path(sys.argv[1]).resolve(), sys.argv[2:]
    if unknown := [part for part in parts if part not in PARTS]:
        raise SystemExit(f"no such part: {', '.join(unknown)}; parts are {', '.join(PARTS)}")
    checkouts = {OLD: old, AGAIN: old, NEW: ROOT}
    rows: list[Row] = []
    with open_stage(DEFAULT_VERSION) as stage:
        for part in parts:
            rows += PARTS[part](stage, checkouts)
            _write(rows)


def memory(stage: Stage, checkouts: Mapping[str, Path]) -> Iterator[Row]:
    """Drain eight queues, with Spark and without."""
    for shape in (LARGE, SMALL):
        yield from _drains(stage, checkouts, shape)
        yield from _spark_drains(stage, checkouts, shape)


def single(stage: Stage, checkouts: Mapping[str, Path]) -> Iterator[Row]:
    """Drain one queue."""
    yield from _drains(stage, checkouts, SINGLE)


def decoder(stage: Stage, checkouts: Mapping[str, Path]) -> Iterator[Row]:
    """Decode the answers kept in a file; each commit keeps its own, because what is kept differs."""
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    for size in (1024, 100):
        shape = Shape(8, size, RECORDED)
        files = {side: str(PAGE.with_name(f"versus-{size}-{side}")) for side in (OLD, NEW)}
        with _workers(stage, {side: checkouts[side] for side in files}) as workers:
            for side, file in files.items():
                workers[side].drain("dump", topic=stage.topic(shape), count=shape.messages, file=file)
        files[AGAIN] = files[OLD]
        with on_one_core(), _workers(stage, checkouts) as workers:
            for columns in ("all properties", "default", _NO_MAP):
                yield _compare(f"decoder, {size} B, {columns}", partial(_decode_rate, workers, files, columns))


def push(stage: Stage, checkouts: Mapping[str, Path]) -> Iterator[Row]:
    """Consume as a group member whose listener does nothing."""
    with _workers(stage, checkouts) as workers:
        wish = {"topic": stage.topic(LARGE), "count": LARGE.messages, "batch": 32}
        yield _compare(f"push, {LARGE}", _drain_rate(workers, "push", wish))


def triggers(stage: Stage, checkouts: Mapping[str, Path]) -> Iterator[Row]:
    """Run small triggers: without tasks, and with one message each."""
    topic = stage.empty_topic("versus_triggers")
    with _spark_drivers(stage, checkouts) as drivers:
        for task in ("empty", "single", "latency"):
            wish = {"topic": topic, "count": TRIGGERS}
            yield _compare(f"trigger, {task}", partial(_inverse_ms, drivers, task, wish))


def _drains(stage: Stage, checkouts: Mapping[str, Path], shape: Shape) -> Iterator[Row]:
    with _workers(stage, checkouts) as workers:
        for name in (ENGINE, ARROW_GROWN, ARROW_NO_MAP):
            task, wish = TASKS[name](shape)
            wish.update(topic=stage.topic(shape), count=shape.messages)
            yield _compare(f"{name}, {shape}", _drain_rate(workers, task, wish))


def _spark_drains(stage: Stage, checkouts: Mapping[str, Path], shape: Shape) -> Iterator[Row]:
    with _spark_drivers(stage, checkouts) as drivers:
        for task in ("batch", "stream"):
            wish = {"topic": stage.topic(shape), "count": shape.messages}
            yield _compare(f"Spark {task}, {shape}", _drain_rate(drivers, task, wish))


def _drain_rate(workers: Mapping[str, Partner], task: str, wish: Mapping[str, object]) -> Measure:
    def rate(side: str) -> float:
        run: Run = workers[side].drain(task, **wish)
        return run.messages / run.seconds

    return rate


def _decode_rate(workers: Mapping[str, Partner], files: Mapping[str, str], columns: str, side: str) -> float:
    run: Run = workers[side].drain("decode", file=files[side], count=share_of(MESSAGES, 2), columns=columns)
    return run.messages / run.seconds


def _inverse_ms(drivers: Mapping[str, Partner], task: str, wish: Mapping[str, object], side: str) -> float:
    return 1 / float(drivers[side].ask(task, **wish)["ms"])


def _compare(name: str, measure: Measure) -> Row:
    """Measure every side once in each round, after one that does not count; who begins changes by round."""
    for side in SIDES:
        measure(side)
    found: defaultdict[str, list[float]] = defaultdict(list)
    for number in range(ROUNDS):
        for side in (*SIDES[number % 3 :], *SIDES[: number % 3]):
            found[side].append(measure(side))
    row = Row(name, _median_ratio(found[NEW], found[OLD]), _median_ratio(found[AGAIN], found[OLD]), ROUNDS)
    print(row, flush=True)
    return row


def _median_ratio(values: Sequence[float], base: Sequence[float]) -> float:
    return median(value / other for value, other in zip(values, base, strict=True))


@contextmanager
def _workers(stage: Stage, checkouts: Mapping[str, Path]) -> Iterator[dict[str, Partner]]:
    """A process of each side that reads without Spark."""
    command = [sys.executable, "-m", "tests.bench.worker", stage.name_server]
    with _partners(checkouts, command) as partners:
        yield partners


@contextmanager
def _spark_drivers(stage: Stage, checkouts: Mapping[str, Path]) -> Iterator[dict[str, Partner]]:
    """A Spark driver of each side; all run this checkout's script."""
    command = [sys.executable, str(Path(__file__).with_name("versus_spark.py")), stage.name_server]
    with _partners(checkouts, command) as partners:
        yield partners


@contextmanager
def _partners(checkouts: Mapping[str, Path], command: Sequence[str]) -> Iterator[dict[str, Partner]]:
    """A process of each side that imports its own checkout."""
    with ExitStack() as stack:
        partners = {
            side: stack.enter_context(Partner(side, command, {"PYTHONPATH": str(checkout)}, folder=checkout))
            for side, checkout in checkouts.items()
        }
        wait_quiet()
        yield partners


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


PARTS: dict[str, Callable[[Stage, Mapping[str, Path]], Iterator[Row]]] = {
    part.__name__: part for part in (memory, single, decoder, push, triggers)
}

if __name__ == "__main__":
    main()
