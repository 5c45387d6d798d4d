"""In what form are measurements kept, and what must stand beside them to be understood?

A report is a page of `docs/benchmarks`: what was measured on which machine, with which versions, at which commit, then
tables and plots. Its figures stay beside it, and the page of all ratios is written anew with every part.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

from tests.bench.archive import Result, keep, load_all
from tests.bench.contenders import JAVA
from tests.bench.floors import rows
from tests.bench.plan import MESSAGES, PAGES, ROOT, ROUNDS
from tests.bench.plots import Bar, bar_chart
from tests.bench.quiet import wait_quiet
from tests.bench.rounds import Outcome
from tests.real.artefacts import java_home_tool

PACKAGES = ("pyspark-rocketmq", "pyspark", "pyarrow", "numpy")


class Report:
    """One page of measurements, section by section."""

    def __init__(self, title: str, about: str, result: Result) -> None:
        self.result = result
        self._parts = [f"# {title}", about, _bullets(result.surroundings)]
        self._collected: dict[tuple[str, str], list[float]] = {}

    def add_text(self, text: str) -> None:
        """A paragraph."""
        self._parts.append(text)

    def add_table(self, title: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """One table under a heading of its own."""
        self._parts += [f"## {title}", _table(head, rows)]

    def collect(self, name: str, value: float, unit: str = "") -> None:
        """One more measurement of a thing."""
        self._collected.setdefault((name, unit), []).append(value)

    def add_collected(self, title: str) -> None:
        """Everything collected, as figures and as a table."""
        for (name, unit), values in self._collected.items():
            self.result.add(name, values, unit)
        figures = self.result.figures
        rows = [(name, *map(_shown, figures[name].spread), unit) for name, unit in self._collected]
        self.add_table(title, ["", "median", "least", "most", ""], rows)

    def add_outcomes(self, setting: str, outcomes: Iterable[Outcome], best_of: Sequence[str] = JAVA) -> None:
        """A table and a plot of contenders, compared with the best of some."""
        result = self.result
        result.add_outcomes(setting, outcomes)
        names = result.contenders(setting)
        rates = {name: result.figures[f"{setting}/{name}/rate"].spread for name in names}
        best = max((rates[name].median for name in names if name in best_of), default=0.0)
        table = [
            (
                name,
                rates[name],
                f"{rates[name].median / best:.2f}" if best else "",
                self._by_group(setting, name, "cpu", 2),
                self._by_group(setting, name, "peak", 0),
            )
            for name in names
        ]
        compared = f"÷ {best_of[0]}" if len(best_of) == 1 else "÷ best Java"
        head = ["", "messages a second", compared, "CPU µs a message", "peak MiB"]
        self.add_table(setting, head, table)
        self._add_plot(setting, [(name, rates[name]) for name in names], [name for name in names if name in best_of])

    def write(self) -> None:
        """Print the page, keep it and its figures, and write the page of ratios anew."""
        keep(self.result)
        _write_page(self.result.part, "\n\n".join(self._parts))
        _write_page("README", _summary())

    def _by_group(self, setting: str, name: str, what: str, digits: int) -> str:
        start = f"{setting}/{name}/{what} "
        found = {
            key.removeprefix(start): figure for key, figure in self.result.figures.items() if key.startswith(start)
        }
        shown = {group: figure for group, figure in found.items() if (what, group) != ("peak", "broker")}
        return ", ".join(f"{group} {figure.spread.median:,.{digits}f}" for group, figure in shown.items())

    def _add_plot(self, setting: str, bars: Sequence[Bar], others: Sequence[str]) -> None:
        name = re.sub(r"\W+", "-", f"{self.result.part} {setting}").strip("-").lower()
        PAGES.mkdir(parents=True, exist_ok=True)
        title = f"Messages a second: {setting}"
        (PAGES / f"{name}.svg").write_text(bar_chart(title, bars, others=others), encoding="utf-8")
        self.add_text(f"![{title}]({name}.svg)")


@contextmanager
def report_of(part: str, title: str, about: str, **facts: str) -> Iterator[Report]:
    """A page, begun when the machine is quiet and written when the block has ended well."""
    quiet = wait_quiet()
    report = Report(title, about, Result(part, {**surroundings(), "machine when it began": quiet, **facts}))
    yield report
    report.write()


def surroundings() -> dict[str, str]:
    """What figures depend on."""
    return {
        "machine": f"{_processor()}, {os.cpu_count()} cores, {_memory_gib()} GiB, {platform.system()}",
        "Python": platform.python_version(),
        "Java": _java_version(),
        "packages": ", ".join(f"{name} {version(name)}" for name in PACKAGES),
        "PySpark's archive": "unpacked" if _pyspark_archive().is_dir() else "packed",
        "messages": f"up to {MESSAGES:,}",
        "rounds": str(ROUNDS),
        "commit": _commit(),
        "day": date.today().isoformat(),
    }


def per_second(count: int, seconds: float) -> str:
    """A rate with thousands separated."""
    return f"{count / seconds:,.0f}"


def _summary() -> str:
    about = (
        "Ratios of medians, both sides measured in one run on one machine, and what is wanted of them. "
        "The best Java consumer is the quickest of the official push, lite pull and pull consumers in the same run. "
        "Each line names the page with the whole measurement; `make bench` takes all of them anew.\n\n"
        "*Limit* is what the machine of that page leaves room for if nothing that this project does took any time: "
        "outside Spark, bare sockets; in Spark, all cores busy with the broker's own work, bare sockets and handing "
        "over rows that were ready; beside Kafka, the broker and Spark's JVM; for the decoder, copying what was "
        "received and the bodies; for one message, a Python source that has its row at hand. Where it is empty, it "
        "was not measured."
    )
    results = load_all()
    table = _table(("figure", "wanted", "measured", "limit", "reached", "from"), rows(results))
    return f"# Benchmarks\n\n{about}\n\n{table}"


def _write_page(name: str, text: str) -> None:
    PAGES.mkdir(parents=True, exist_ok=True)
    path = PAGES / f"{name}.md"
    path.write_text(text + "\n", encoding="utf-8")
    print(f"\n{text}\n\nwritten to {path}", flush=True)


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _bullets(facts: Mapping[str, str]) -> str:
    return "\n".join(f"- {name}: {fact}" for name, fact in facts.items())


def _processor() -> str:
    found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found[1] if found else platform.machine()


def _memory_gib() -> int:
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)


def _pyspark_archive() -> Path:
    """What Spark's processes import PySpark from; packed, each of them compiles it anew."""
    return Path(str(files("pyspark"))) / "python" / "lib" / "pyspark.zip"


def _java_version() -> str:
    done = subprocess.run([java_home_tool("java"), "-version"], capture_output=True, text=True, timeout=60)
    return done.stderr.splitlines()[0]


def _commit() -> str:
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    return done.stdout.strip() or "unknown"
