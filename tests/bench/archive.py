"""What was measured, for whoever makes pages of it?

A part keeps its figures in `results/<part>.json`, with machine, versions and commit, so that parts can be taken anew
one by one and the page of ratios still shows all of them, each with its origin.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench.plan import RESULTS
from tests.bench.rounds import Outcome, Spread


@dataclass(frozen=True)
class Figure:
    """One measured thing: its spread over rounds, and what it is counted in."""

    spread: Spread
    unit: str = ""


@dataclass(frozen=True)
class Result:
    """What one part found: figures by name; those of contenders are named `<setting>/<contender>/<what>`."""

    part: str
    surroundings: Mapping[str, str]
    figures: dict[str, Figure] = field(default_factory=dict)

    def add(self, name: str, values: Iterable[float], unit: str = "") -> None:
        """One more figure."""
        self.figures[name] = Figure(Spread.of(values), unit)

    def add_outcomes(self, setting: str, outcomes: Iterable[Outcome]) -> None:
        """Rate, processor time per message and memory of every contender."""
        by_name: dict[str, list[Outcome]] = {}
        for outcome in outcomes:
            by_name.setdefault(outcome.contender, []).append(outcome)
        for name, rounds in by_name.items():
            self.add(f"{setting}/{name}/rate", (each.rate for each in rounds), "/s")
            for group in rounds[0].usage:
                used = [(each.usage[group], each.run.messages) for each in rounds]
                self.add(f"{setting}/{name}/cpu {group}", (use.cpu_s / count * 1e6 for use, count in used), "µs")
                self.add(f"{setting}/{name}/peak {group}", (use.peak_mib for use, _ in used), "MiB")

    def median(self, name: str) -> float | None:
        """The median of a figure, if it was measured."""
        return self.figures[name].spread.median if name in self.figures else None

    def contenders(self, setting: str) -> list[str]:
        """Who was measured in a setting, in the order of the rounds."""
        names = (name.split("/") for name in self.figures)
        return [parts[1] for parts in names if parts[0] == setting and parts[-1] == "rate"]


def keep(result: Result, folder: Path = RESULTS) -> None:
    """Write a part's figures."""
    figures = {name: [*figure.spread, figure.unit] for name, figure in result.figures.items()}
    text = json.dumps({"surroundings": dict(result.surroundings), "figures": figures}, indent=1, ensure_ascii=False)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{result.part}.json").write_text(text + "\n", encoding="utf-8")


def load_all(folder: Path = RESULTS) -> dict[str, Result]:
    """Every part that has been measured."""
    return {path.stem: _load(path.stem, json.loads(path.read_text("utf-8"))) for path in sorted(folder.glob("*.json"))}


def _load(part: str, stored: Mapping[str, Any]) -> Result:
    figures = {name: Figure(Spread(*values[:3]), values[3]) for name, values in stored["figures"].items()}
    return Result(part, stored["surroundings"], figures)
