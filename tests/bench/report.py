"""In what form are measurements kept, and what must stand beside them to be understood?

A report is a page of `docs/benchmarks`: what was measured on which machine, with which versions, at which commit, then
tables. `BENCH_MESSAGES` sets how many messages a measurement takes, `BENCH_DIR` where pages go.
"""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MESSAGES = int(os.environ.get("BENCH_MESSAGES", "400000"))
PAGES = Path(os.environ.get("BENCH_DIR", ROOT / "docs" / "benchmarks"))


class Report:
    """One page of measurements, section by section."""

    def __init__(self, name: str, title: str, about: str) -> None:
        self._path = PAGES / f"{name}.md"
        self._parts = [f"# {title}", about, _surroundings()]

    def add_table(self, title: str, head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """One table under a heading of its own."""
        lines = [head, ["---"] * len(head), *rows]
        table = "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)
        self._parts += [f"## {title}", table]

    def write(self) -> None:
        """Print the page and keep it."""
        text = "\n\n".join(self._parts) + "\n"
        print(f"\n{text}")
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(text, encoding="utf-8")
        print(f"written to {self._path}")


def per_second(count: int, seconds: float) -> str:
    """A rate with thousands separated."""
    return f"{count / seconds:,.0f}"


def _surroundings() -> str:
    facts = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {_memory_gib()} GiB, {platform.system()}",
        "load when it began": f"{os.getloadavg()[0]:.1f}",
        "Python": platform.python_version(),
        "packages": ", ".join(f"{name} {version(name)}" for name in ("pyspark-rocketmq", "pyarrow", "numpy")),
        "commit": _commit(),
        "day": date.today().isoformat(),
    }
    return "\n".join(f"- {name}: {fact}" for name, fact in facts.items())


def _memory_gib() -> int:
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)


def _commit() -> str:
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    return done.stdout.strip() or "unknown"
