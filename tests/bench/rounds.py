"""Measure contenders in rounds: each runs once in every round, one after the other, in one run.

A disturbance of the machine so hits all contenders. The order turns by one from round to round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from tests.bench.idle_machine import wait_until_idle
from tests.bench.usage import Groups, Meter, Usage


class Run(NamedTuple):
    """The messages and seconds that a contender reports."""

    messages: int
    seconds: float


@dataclass(frozen=True)
class Contender:
    """One way to drain a topic."""

    name: str
    run: Callable[[int], Run]
    """Drain the given number of messages."""
    processes: Groups
    """The processes whose time and memory count."""
    messages: int
    warm_up: int
    """The number of messages of one drain that is not measured."""
    wake: Callable[[], object] = lambda: None
    """Start processes again that ended while others had their turns; called before each run."""


@dataclass(frozen=True)
class Measurement:
    """One run of one contender in one round."""

    contender: str
    number: int
    run: Run
    usage: dict[str, Usage]

    @property
    def rate(self) -> float:
        """Messages a second."""
        return self.run.messages / self.run.seconds


class Spread(NamedTuple):
    """The median and the range of several measurements."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """Return the spread of at least one value."""
        found = list(values)
        return cls(median(found), min(found), max(found))

    def __str__(self) -> str:
        return f"{self.median:,.0f} ({self.least:,.0f}..{self.most:,.0f})"


def measure_in_rounds(
    contenders: Sequence[Contender], rounds: int, settle: Callable[[], object] = wait_until_idle
) -> list[Measurement]:
    """Warm all contenders up, wait for an idle machine, then measure in rounds."""
    for contender in contenders:
        contender.run(contender.warm_up)
    settle()
    return [_measure(contender, number) for number in range(rounds) for contender in _turned(contenders, number)]


def _turned(contenders: Sequence[Contender], by: int) -> Sequence[Contender]:
    first = by % len(contenders)
    return [*contenders[first:], *contenders[:first]]


def _measure(contender: Contender, number: int) -> Measurement:
    contender.wake()
    meter = Meter(contender.processes)
    run = contender.run(contender.messages)
    assert run.messages >= contender.messages, f"{contender.name} drained {run.messages} of {contender.messages}"
    measurement = Measurement(contender.name, number, run, meter.read())
    used = ", ".join(f"{name} {usage.cpu_s:.2f} s" for name, usage in measurement.usage.items())
    print(f"  round {number + 1}: {contender.name}: {measurement.rate:,.0f}/s, CPU {used}", flush=True)
    return measurement
