"""Save the figures of each part of the benchmarks as JSON, and load them for pages.

A part saves its figures in `results/<part>.json`, with machine, versions and commit. So parts can be measured at
different times, and the page of all goals shows for each figure what it comes from.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench.bench_settings import RESULTS
from tests.bench.rounds import Measurement, Spread


@dataclass(frozen=True)
class Figure:
    """A measured value: its median and range over all rounds, and its unit."""

    spread: Spread
    unit: str = ""


@dataclass(frozen=True)
class Result:
    """The figures of one part of the benchmarks, such as `memory`, with its machine and versions.

    The name of a contender's figure is `<setting>/<contender>/<what>`.
    """

    part: str
    surroundings: Mapping[str, str]
    figures: dict[str, Figure] = field(default_factory=dict)

    def add(self, name: str, values: Iterable[float], unit: str = "") -> None:
        """Add a figure whose values were measured in several rounds."""
        self.figures[name] = Figure(Spread.of(values), unit)

    def add_measurements(self, setting: str, measurements: Iterable[Measurement]) -> None:
        """Add the rate, the processor time per message and the peak memory of each contender."""
        by_name: dict[str, list[Measurement]] = {}
        for measurement in measurements:
            by_name.setdefault(measurement.contender, []).append(measurement)
        for name, rounds in by_name.items():
            self.add(f"{setting}/{name}/rate", (each.rate for each in rounds), "/s")
            for group in rounds[0].usage:
                used = [(each.usage[group], each.run.messages) for each in rounds]
                self.add(f"{setting}/{name}/cpu {group}", (use.cpu_s / count * 1e6 for use, count in used), "µs")
                self.add(f"{setting}/{name}/peak {group}", (use.peak_mib for use, _ in used), "MiB")

    def median(self, name: str) -> float | None:
        """Return the median of the figure `name`, or None if it was not measured."""
        return self.figures[name].spread.median if name in self.figures else None

    def contenders(self, setting: str) -> list[str]:
        """Return the names of the contenders measured in a setting, in the order of their first round."""
        names = (name.split("/") for name in self.figures)
        return [parts[1] for parts in names if parts[0] == setting and parts[-1] == "rate"]


def save(result: Result, folder: Path = RESULTS) -> None:
    """Write the figures of one part to `<folder>/<part>.json`."""
    figures = {name: [*figure.spread, figure.unit] for name, figure in result.figures.items()}
    text = json.dumps({"surroundings": dict(result.surroundings), "figures": figures}, indent=1, ensure_ascii=False)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{result.part}.json").write_text(text + "\n", encoding="utf-8")


def load_all(folder: Path = RESULTS) -> dict[str, Result]:
    """Return {part: its saved figures} for every part that has been measured."""
    return {path.stem: _load(path.stem, json.loads(path.read_text("utf-8"))) for path in sorted(folder.glob("*.json"))}


def _load(part: str, stored: Mapping[str, Any]) -> Result:
    figures = {name: Figure(Spread(*values[:3]), values[3]) for name, values in stored["figures"].items()}
    return Result(part, stored["surroundings"], figures)
