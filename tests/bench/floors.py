"""Which ratios are to be reached, and which figures of which part are they made of?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tests.bench.archive import Result
from tests.bench.contenders import (
    ARROW,
    ENGINE,
    FLOOR,
    JAVA,
    SPARK,
    SPARK_NO_MAP,
    SPARK_STREAM,
)
from tests.bench.plan import LARGE, SINGLE, SMALL

DISK = f"{LARGE}, from disk"


@dataclass(frozen=True)
class Floor:
    """One ratio: what to reach, and how it comes from the figures of one part."""

    figure: str
    wanted: float
    part: str
    value: Callable[[Result], float | None]
    at_most: bool = False
    unit: str = ""

    @property
    def goal(self) -> str:
        """As a reader wants it."""
        return f"{'≤' if self.at_most else '≥'} {self.wanted:g}{self.unit}"

    def holds(self, value: float) -> bool:
        """Whether it is reached."""
        return value <= self.wanted if self.at_most else value >= self.wanted


def ratio(setting: object, name: str, *others: str, what: str = "rate") -> Callable[[Result], float | None]:
    """A contender's median over that of the best of others."""

    def value(result: Result) -> float | None:
        own = result.median(f"{setting}/{name}/{what}")
        measured = [found for other in others if (found := result.median(f"{setting}/{other}/{what}"))]
        return own / max(measured) if own and measured else None

    return value


def alone(name: str) -> Callable[[Result], float | None]:
    """A figure that is its own measure."""
    return lambda result: result.median(name)


def _drain(figure: str, wanted: float, part: str, setting: object, name: str, *others: str) -> Floor:
    return Floor(figure, wanted, part, ratio(setting, name, *(others or JAVA)))


_JAVA_DECODER = "Java MessageDecoder.decodes"
_BEST = "best Java consumer"

FLOORS: Sequence[Floor] = (
    _drain(f"pull engine, nothing decoded ÷ {_BEST}, {LARGE}", 4.0, "memory", LARGE, ENGINE),
    _drain("pull engine, nothing decoded ÷ raw sockets, window of 32", 0.9, "memory", LARGE, ENGINE, FLOOR),
    _drain(f"pull engine + Arrow, default columns ÷ {_BEST}, {LARGE}", 2.8, "memory", LARGE, ARROW),
    _drain(f"the same, {SMALL}", 2.0, "memory", SMALL, ARROW),
    _drain(f"the same, {SINGLE}", 4.0, "single", SINGLE, ARROW),
    _drain(f"the same, {DISK}", 4.0, "disk", DISK, ARROW),
    Floor("decoder, full map ÷ Java decoder, 1 KiB", 1.0, "decoder", ratio("1 KiB", "full map", _JAVA_DECODER)),
    Floor("decoder, full map ÷ Java decoder, 100 B", 0.8, "decoder", ratio("100 B", "full map", _JAVA_DECODER)),
    Floor("decoder, no map ÷ Java decoder, 1 KiB", 2.0, "decoder", ratio("1 KiB", "no map", _JAVA_DECODER)),
    Floor("decoder, no map ÷ Java decoder, 100 B", 1.6, "decoder", ratio("100 B", "no map", _JAVA_DECODER)),
    _drain(f"Spark batch, default columns ÷ {_BEST}, {LARGE}", 2.5, "memory", LARGE, SPARK),
    _drain(f"the same, {SMALL}", 1.8, "memory", SMALL, SPARK),
    _drain(f"Spark availableNow with its start, default columns ÷ {_BEST}, 1 KiB", 1.8, "memory", LARGE, SPARK_STREAM),
    Floor(
        "Spark batch, no map ÷ Spark's Kafka source, 1 KiB", 1.4, "kafka", ratio("1 KiB", SPARK_NO_MAP, "Kafka batch")
    ),
    Floor(
        "Spark batch, no map ÷ Spark's Kafka source, 100 B", 0.9, "kafka", ratio("100 B", SPARK_NO_MAP, "Kafka batch")
    ),
    Floor(
        "Python µs per row inside Spark, no map, 1 KiB",
        1.6,
        "memory",
        alone(f"{LARGE}/{SPARK_NO_MAP}/cpu Python"),
        at_most=True,
        unit=" µs",
    ),
    Floor(
        "Python µs per row inside Spark, no map, 100 B",
        1.0,
        "memory",
        alone(f"{SMALL}/{SPARK_NO_MAP}/cpu Python"),
        at_most=True,
        unit=" µs",
    ),
    Floor("trigger without tasks ÷ rate-micro-batch of one row", 1.3, "triggers", alone("empty ÷ rate"), at_most=True),
    Floor("one message, p50 ÷ trigger without tasks, p50", 1.2, "triggers", alone("latency ÷ empty"), at_most=True),
    Floor("latestOffset", 3.0, "triggers", alone("latestOffset"), at_most=True, unit=" ms"),
    Floor("planning 10,000 queues, pure", 0.3, "planning", alone("10,000 queues, pure"), at_most=True, unit=" s"),
    Floor("planning 10,000 queues, with latestOffset", 1.0, "planning", alone("10,000 queues, asked"), True, " s"),
    Floor("stub, 16 in flight, 8 queues, 1 KiB", 150_000, "stub", alone("served"), unit="/s"),
    Floor("stub, fill of 1,000,000 of 1 KiB", 5, "stub", alone("fill"), at_most=True, unit=" s"),
    Floor("stub, peak memory of that", 1536, "stub", alone("fill peak"), at_most=True, unit=" MiB"),
    Floor("stub, start with 10,000 queues", 2, "stub", alone("start"), at_most=True, unit=" s"),
    _drain("push consumer ÷ Java push, 32 at a time", 1.0, "push", "32 at a time", "our push", "Java push"),
    _drain("push consumer ÷ Java push, one at a time", 0.5, "push", "one at a time", "our push", "Java push"),
)


def rows(results: Mapping[str, Result]) -> list[tuple[str, str, str, str, str]]:
    """Figure, goal, what was measured, whether it holds, and where that comes from."""
    return [_row(floor, results.get(floor.part)) for floor in FLOORS]


def _row(floor: Floor, result: Result | None) -> tuple[str, str, str, str, str]:
    value = floor.value(result) if result else None
    if result is None or value is None:
        return floor.figure, floor.goal, "not measured", "", floor.part
    told = f"{value:,.2f}" if abs(value) < 1000 else f"{value:,.0f}"
    facts = ", ".join(result.surroundings[fact] for fact in ("messages", "commit", "day"))
    origin = f"[{floor.part}]({floor.part}.md): {facts}"
    return floor.figure, floor.goal, told + floor.unit, "yes" if floor.holds(value) else "**no**", origin
