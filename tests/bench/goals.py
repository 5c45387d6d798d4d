"""Define the goals of the project: ratios between figures, their wanted values, and their limits.

A limit is the value that the ratio would have if the code of this project took no time. Outside Spark it comes from the
rate of raw sockets. Inside Spark it comes from the rate at which all cores would be busy with nothing but the broker's
sends, the receives of raw sockets, and Spark's own work for ready rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tests.bench.bench_settings import LARGE, SINGLE, SMALL, Shape
from tests.bench.contenders import (
    ARROW,
    ENGINE,
    JAVA,
    RAW_SOCKETS,
    READY,
    READY_NO_MAP,
    SPARK,
    SPARK_NO_MAP,
    SPARK_STREAM,
)
from tests.bench.results import Result
from tests.bench.sink_contenders import (
    DISCARDED,
    JAVA_ASYNC,
    JAVA_SYNC,
    RAW_SENDS,
    SEND_ENGINE,
    SPARK_WRITE,
    Writing,
)

DISK = f"{LARGE}, from disk"
JAVA_DECODER = "Java MessageDecoder.decodes"
COPIED = "copied, not decoded"

Value = Callable[[Result], float | None]


@dataclass(frozen=True)
class Goal:
    """A value computed from the figures of one part, such as a ratio, and the value that it should reach."""

    figure: str
    wanted: float
    part: str
    value: Value
    at_most: bool = False
    unit: str = ""
    limit: Value | None = None

    @property
    def target(self) -> str:
        """The wanted value with its comparison sign and unit, such as "≥ 4"."""
        return f"{'≤' if self.at_most else '≥'} {self.wanted:g}{self.unit}"

    def holds(self, value: float) -> bool:
        """Return whether `value` is at least the wanted value, or with `at_most` at most the wanted value."""
        return value <= self.wanted if self.at_most else value >= self.wanted


def ratio(setting: object, name: str, *others: str) -> Value:
    """Return a function of a `Result`: the median rate of contender `name` ÷ the best median rate of `others`."""

    def value(result: Result) -> float | None:
        own, best = result.median(f"{setting}/{name}/rate"), _best_rate(result, setting, others)
        return own / best if own and best else None

    return value


def cpu(setting: object, *parts: tuple[str, str]) -> Value:
    """Return a function of a `Result`: the µs of processor time per message, summed over `parts`.

    A part is the name of a contender and the label of some of its processes.
    """

    def value(result: Result) -> float | None:
        found = [result.median(f"{setting}/{name}/cpu {group}") for name, group in parts]
        return None if None in found else sum(filter(None, found))

    return value


def at_full_use(setting: object, costs: Sequence[tuple[str, str]], *others: str) -> Value:
    """Return a function of a `Result`: the rate of all cores if a message costs `costs`, ÷ the best of `others`."""

    def value(result: Result) -> float | None:
        needed, best = cpu(setting, *costs)(result), _best_rate(result, setting, others or JAVA)
        return _cores(result) * 1e6 / needed / best if needed and best else None

    return value


def _best_rate(result: Result, setting: object, names: Sequence[str]) -> float | None:
    return max((found for name in names if (found := result.median(f"{setting}/{name}/rate"))), default=None)


def _cores(result: Result) -> int:
    found = re.search(r"(\d+) cores", result.surroundings["machine"])
    assert found, result.surroundings
    return int(found[1])


def alone(name: str) -> Value:
    """Return a function of a `Result`: the median of the figure `name`."""
    return lambda result: result.median(name)


def _drain(
    figure: str, wanted: float, part: str, setting: object, name: str, *others: str, limit: Value | None = None
) -> Goal:
    return Goal(figure, wanted, part, ratio(setting, name, *(others or JAVA)), limit=limit)


def _decoding(figure: str, wanted: float, setting: str, name: str) -> Goal:
    limit = ratio(setting, COPIED, JAVA_DECODER)
    return Goal(
        f"decoder, {figure} ÷ Java decoder, {setting}",
        wanted,
        "decoder",
        ratio(setting, name, JAVA_DECODER),
        limit=limit,
    )


def _python_us(setting: Shape, wanted: float, size: str) -> Goal:
    value = cpu(setting, (SPARK_NO_MAP, "Python"))
    limit = cpu(setting, (RAW_SOCKETS, "Python"), (READY_NO_MAP, "Python"))
    return Goal(f"Python µs per row inside Spark, no map, {size}", wanted, "memory", value, True, " µs", limit)


def _kafka(setting: str, wanted: float) -> Goal:
    limit = at_full_use(setting, [(SPARK_NO_MAP, "JVM"), (SPARK_NO_MAP, "broker")], _KAFKA)
    figure = f"Spark batch, no map ÷ Spark's Kafka source, {setting}"
    return Goal(figure, wanted, "kafka", ratio(setting, SPARK_NO_MAP, _KAFKA), limit=limit)


def spark_write_limit(writing: Writing, *others: str) -> Value:
    """Return a function of a `Result`: the highest rate of a write from Spark, ÷ the best rate of `others`.

    The cores are busy with the broker, with raw sockets, and with Spark's own work for rows that are discarded.
    """
    return at_full_use(writing, [*_WRITING_IN_SPARK], *others)


def _sending(wanted: float, writing: Writing, other: str) -> Goal:
    limit = None if other == RAW_SENDS else ratio(writing, RAW_SENDS, other)
    return Goal(f"encode + send ÷ {other}, {writing}", wanted, "sink", ratio(writing, SEND_ENGINE, other), limit=limit)


def _writing_us(wanted: float, writing: Writing) -> Goal:
    limit = cpu(writing, (RAW_SENDS, "Python"), (DISCARDED, "Python"))
    value = cpu(writing, (SPARK_WRITE, "Python"))
    return Goal(f"Python µs per row written from Spark, {writing}", wanted, "sink", value, True, " µs", limit)


def _bare(setting: object) -> Value:
    return ratio(setting, RAW_SOCKETS, *JAVA)


_KAFKA = "Kafka batch"
_IN_SPARK = [(RAW_SOCKETS, "Python"), (RAW_SOCKETS, "broker"), (READY, "Python"), (READY, "JVM")]
_WRITING_IN_SPARK = [(RAW_SENDS, "Python"), (RAW_SENDS, "broker"), (DISCARDED, "Python"), (DISCARDED, "JVM")]
_BEST = "best Java consumer"
_ARROW = f"pull engine + Arrow, default columns ÷ {_BEST}"
_SPARK_BATCH = f"Spark batch, default columns ÷ {_BEST}"

GOALS: Sequence[Goal] = (
    _drain(f"pull engine, nothing decoded ÷ {_BEST}, {LARGE}", 4.0, "memory", LARGE, ENGINE, limit=_bare(LARGE)),
    _drain("pull engine, nothing decoded ÷ raw sockets, window of 32", 0.9, "memory", LARGE, ENGINE, RAW_SOCKETS),
    _drain(f"{_ARROW}, {LARGE}", 2.8, "memory", LARGE, ARROW, limit=_bare(LARGE)),
    _drain(f"{_ARROW}, {SMALL}", 2.0, "memory", SMALL, ARROW, limit=_bare(SMALL)),
    _drain(f"{_ARROW}, {SINGLE}", 4.0, "single", SINGLE, ARROW, limit=_bare(SINGLE)),
    _drain(f"{_ARROW}, {DISK}", 4.0, "disk", DISK, ARROW, limit=_bare(DISK)),
    _decoding("full map", 1.0, "1 KiB", "full map"),
    _decoding("full map", 0.8, "100 B", "full map"),
    _decoding("no map", 2.0, "1 KiB", "no map"),
    _decoding("no map", 1.6, "100 B", "no map"),
    _drain(
        f"{_SPARK_BATCH}, {LARGE}",
        2.5,
        "memory",
        LARGE,
        SPARK,
        limit=at_full_use(LARGE, _IN_SPARK),
    ),
    _drain(f"{_SPARK_BATCH}, {SMALL}", 1.8, "memory", SMALL, SPARK, limit=at_full_use(SMALL, _IN_SPARK)),
    _drain(
        f"Spark availableNow with its start, default columns ÷ {_BEST}, 1 KiB",
        1.8,
        "memory",
        LARGE,
        SPARK_STREAM,
        limit=at_full_use(LARGE, _IN_SPARK),
    ),
    _kafka("1 KiB", 1.4),
    _kafka("100 B", 0.9),
    _python_us(LARGE, 1.6, "1 KiB"),
    _python_us(SMALL, 1.0, "100 B"),
    *(_sending(0.8, Writing(batch, size), RAW_SENDS) for size in (1024, 100) for batch in (32, 128)),
    *(_sending(2.0, Writing(batch, 1024), JAVA_SYNC) for batch in (32, 128)),
    *(_sending(3.0, Writing(batch, 100), JAVA_SYNC) for batch in (32, 128)),
    *(_sending(4.0, Writing(1, size), JAVA_SYNC) for size in (1024, 100)),
    *(_sending(0.9, Writing(1, size), JAVA_ASYNC) for size in (1024, 100)),
    *(_writing_us(1.5, Writing(batch, 1024)) for batch in (32, 128)),
    *(_writing_us(0.8, Writing(batch, 100)) for batch in (32, 128)),
    Goal("worker's peak memory, 5 GB written ÷ 0.5 GB", 1.1, "sink", alone("5 GB ÷ 0.5 GB"), at_most=True),
    Goal("trigger without tasks ÷ rate-micro-batch of one row", 1.3, "triggers", alone("empty ÷ rate"), at_most=True),
    Goal(
        "one message, p50 ÷ trigger without tasks, p50",
        1.2,
        "triggers",
        alone("latency ÷ empty"),
        at_most=True,
        limit=alone("a row at hand ÷ empty"),
    ),
    Goal("latestOffset", 3.0, "triggers", alone("latestOffset"), at_most=True, unit=" ms"),
    Goal(
        "query with LagListener and Prometheus ÷ without",
        0.98,
        "monitor",
        alone("watched ÷ alone"),
        limit=alone("only heard ÷ alone"),
    ),
    Goal("planning 10,000 queues, pure", 0.3, "planning", alone("10,000 queues, pure"), at_most=True, unit=" s"),
    Goal("planning 10,000 queues, with latestOffset", 1.0, "planning", alone("10,000 queues, asked"), True, " s"),
    Goal("stub, 16 in flight, 8 queues, 1 KiB", 150_000, "stub", alone("served"), unit="/s"),
    Goal("stub, fill of 1,000,000 of 1 KiB", 5, "stub", alone("fill"), at_most=True, unit=" s"),
    Goal("stub, peak memory of that fill", 1536, "stub", alone("fill peak"), at_most=True, unit=" MiB"),
    Goal("stub, start with 10,000 queues", 2, "stub", alone("start"), at_most=True, unit=" s"),
    _drain("push consumer ÷ Java push, 32 at a time", 1.0, "push", "32 at a time", "our push", "Java push"),
    _drain("push consumer ÷ Java push, one at a time", 0.5, "push", "one at a time", "our push", "Java push"),
)


def rows(results: Mapping[str, Result]) -> list[tuple[str, ...]]:
    """Return a table row for each goal: figure, target, measured value, limit, whether it is reached, its page."""
    return [_row(goal, results.get(goal.part)) for goal in GOALS]


def _row(goal: Goal, result: Result | None) -> tuple[str, ...]:
    value = goal.value(result) if result else None
    if result is None or value is None:
        return goal.figure, goal.target, "not measured", "", "", goal.part
    limit = goal.limit(result) if goal.limit else None
    facts = ", ".join(result.surroundings[fact] for fact in ("messages", "commit", "day"))
    origin = f"[{goal.part}]({goal.part}.md): {facts}"
    return (
        goal.figure,
        goal.target,
        _format_value(value, goal),
        _format_value(limit, goal),
        _verdict(goal, value),
        origin,
    )


def _format_value(value: float | None, goal: Goal) -> str:
    if value is None:
        return ""
    return (f"{value:,.2f}" if abs(value) < 1000 else f"{value:,.0f}") + goal.unit


def _verdict(goal: Goal, value: float) -> str:
    return "yes" if goal.holds(value) else "**no**"
