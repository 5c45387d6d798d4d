"""Measure contenders in rounds: in each round every contender runs once, one after another.

So a disturbance of the machine affects all contenders alike. The contender that begins a round is another one in the
next round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from tests.bench.idle_machine import wait_until_idle
from tests.bench.usage import Groups, Meter, Usage


class Run(NamedTuple):
    """The number of messages that a contender read, and the seconds that it took."""

    messages: int
    seconds: float


@dataclass(frozen=True)
class Contender:
    """One way to read a topic, whose speed is compared with that of others."""

    name: str
    run: Callable[[int], Run]
    """Read the given number of messages."""
    processes: Groups
    """The processes whose processor time and memory are measured, by label."""
    messages: int
    warm_up: int
    """The number of messages to read once before the measurement."""
    wake: Callable[[], object] = lambda: None
    """Start processes again that ended while other contenders ran; called before each measured run."""


@dataclass(frozen=True)
class Measurement:
    """The result of one contender in one round, with the processor time and memory of its processes."""

    contender: str
    number: int
    run: Run
    usage: dict[str, Usage]

    @property
    def rate(self) -> float:
        """Messages per second."""
        return self.run.messages / self.run.seconds


class Spread(NamedTuple):
    """The median, minimum and maximum of several measurements."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """Return the median, minimum and maximum of one or more values."""
        found = list(values)
        return cls(median(found), min(found), max(found))

    def __str__(self) -> str:
        return f"{self.median:,.0f} ({self.least:,.0f}..{self.most:,.0f})"


def measure_in_rounds(
    contenders: Sequence[Contender], rounds: int, settle: Callable[[], object] = wait_until_idle
) -> list[Measurement]:
    """Run each contender once as warm-up, call `settle`, and run the rounds; return all measurements."""
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
