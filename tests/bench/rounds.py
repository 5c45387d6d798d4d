"""How are contenders compared fairly? In rounds: each runs once in every round, one after the other, in one run.

What disturbs the machine for a while so disturbs all of them, and the order turns by one from round to round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from tests.bench.quiet import wait_quiet
from tests.bench.usage import Groups, Meter, Usage


class Run(NamedTuple):
    """What a contender says of itself."""

    messages: int
    seconds: float


@dataclass(frozen=True)
class Contender:
    """Somebody who can drain a topic."""

    name: str
    run: Callable[[int], Run]
    """Drains so many messages."""
    processes: Groups
    """Whose use of processors and memory counts."""
    messages: int
    warm_up: int
    """How many messages it drains once before anything counts."""
    wake: Callable[[], object] = lambda: None
    """Called before each run: what fell asleep while others had their turns is up again when the clock starts."""


@dataclass(frozen=True)
class Outcome:
    """One contender in one round."""

    contender: str
    number: int
    run: Run
    usage: dict[str, Usage]

    @property
    def rate(self) -> float:
        """Messages a second."""
        return self.run.messages / self.run.seconds


class Spread(NamedTuple):
    """Several measurements of one thing."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """Of at least one value."""
        found = list(values)
        return cls(median(found), min(found), max(found))

    def __str__(self) -> str:
        return f"{self.median:,.0f} ({self.least:,.0f}..{self.most:,.0f})"


def interleave(
    contenders: Sequence[Contender], rounds: int, settle: Callable[[], object] = wait_quiet
) -> list[Outcome]:
    """Warm everybody up, let the machine settle, then measure in rounds."""
    for contender in contenders:
        contender.run(contender.warm_up)
    settle()
    return [_measure(contender, number) for number in range(rounds) for contender in _turned(contenders, number)]


def _turned(contenders: Sequence[Contender], by: int) -> Sequence[Contender]:
    first = by % len(contenders)
    return [*contenders[first:], *contenders[:first]]


def _measure(contender: Contender, number: int) -> Outcome:
    contender.wake()
    meter = Meter(contender.processes)
    run = contender.run(contender.messages)
    assert run.messages >= contender.messages, f"{contender.name} drained {run.messages} of {contender.messages}"
    outcome = Outcome(contender.name, number, run, meter.read())
    used = ", ".join(f"{name} {usage.cpu_s:.2f} s" for name, usage in outcome.usage.items())
    print(f"  round {number + 1}: {contender.name}: {outcome.rate:,.0f}/s, CPU {used}", flush=True)
    return outcome
