"""Write the results of a benchmark as a page of `docs/benchmarks`.

A page begins with machine, versions and commit, and then shows tables and plots. Its figures are also saved as JSON,
and with every page the overview of all goals (`README.md`) is written again.
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

from tests.bench.bench_settings import LARGE, MESSAGES, PAGES, ROOT, ROUNDS
from tests.bench.contenders import JAVA, SPARK
from tests.bench.goals import ratio, rows
from tests.bench.idle_machine import wait_until_idle
from tests.bench.plots import Bar, bar_chart
from tests.bench.results import Result, load_all, save
from tests.bench.rounds import Measurement
from tests.real.artefacts import java_home_tool

PACKAGES = ("pyspark-rocketmq", "pyspark", "pyarrow", "numpy")


class Report:
    """A page of results under construction, to which benchmarks add text, tables and plots."""

    def __init__(self, title: str, about: str, result: Result) -> None:
        self.result = result
        self._parts = [f"# {title}", about, _bullets(result.surroundings)]
        self._collected: dict[tuple[str, str], list[float]] = {}

    def add_text(self, text: str) -> None:
        """Add a paragraph to the page."""
        self._parts.append(text)

    def add_table(self, title: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Add a table with a heading above it to the page."""
        self._parts += [f"## {title}", _table(head, rows)]

    def collect(self, name: str, value: float, unit: str = "") -> None:
        """Record one measured value of a figure; a figure may have several."""
        self._collected.setdefault((name, unit), []).append(value)

    def add_collected(self, title: str) -> None:
        """Add the median and range of all collected figures to the page as a table, and to the saved figures."""
        for (name, unit), values in self._collected.items():
            self.result.add(name, values, unit)
        figures = self.result.figures
        rows = [(name, *map(_shown, figures[name].spread), unit) for name, unit in self._collected]
        self.add_table(title, ["", "median", "least", "most", ""], rows)

    def add_measurements(
        self, setting: str, measurements: Iterable[Measurement], best_of: Sequence[str] = JAVA
    ) -> None:
        """Add a table and a plot of contenders to the page, with their rates ÷ the best rate of `best_of`."""
        result = self.result
        result.add_measurements(setting, measurements)
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
        """Save the figures, print and write the page, and write the overview of all goals again."""
        save(self.result)
        _write_page(self.result.part, "\n\n".join(self._parts))
        _write_page("README", summary(load_all()))

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
    """Yield a new page as soon as the machine is idle; write the page if the `with` block ends without an error."""
    quiet = wait_until_idle()
    report = Report(title, about, Result(part, {**surroundings(), "machine when it began": quiet, **facts}))
    yield report
    report.write()


def surroundings() -> dict[str, str]:
    """Return the facts that results depend on: machine, versions, number of messages and rounds, commit, day."""
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
    """Return `count` ÷ `seconds` as text with thousands separators."""
    return f"{count / seconds:,.0f}"


def summary(results: Mapping[str, Result]) -> str:
    """Return the page of all goals, which opens with one figure."""
    about = (
        "Ratios of medians, both sides measured in one run on one machine, and their goals. "
        "The best Java consumer is the fastest of the official push, lite pull and pull consumers in the same run. "
        "Each line names the page with the whole measurement; `make bench` measures all of them again.\n\n"
        "*Limit* is the value that the machine of that page could reach if the code of this project took no time: "
        "outside Spark, raw sockets; in Spark, all cores busy with the broker's own work, raw sockets and handing "
        "over ready rows (or, for writing, rows that are discarded); beside Kafka, the broker and Spark's JVM; for the "
        "decoder, copying the responses and the bodies; for one message, a Python source that makes its row at once. "
        "An empty limit was not measured."
    )
    table = _table(("figure", "goal", "measured", "limit", "reached", "page"), rows(results))
    return "\n\n".join(filter(None, ("# Benchmarks", _opening(results.get("memory")), about, table)))


def _opening(memory: Result | None) -> str:
    """Return the figure that most readers come for, with its circumstances; an empty text if it was not measured."""
    rate = memory.median(f"{LARGE}/{SPARK}/rate") if memory else None
    versus = ratio(LARGE, SPARK, *JAVA)(memory) if memory else None
    if memory is None or rate is None or versus is None:
        return ""
    facts = memory.surroundings
    return (
        f"A Spark batch read takes **{rate:,.0f} rows a second** from a broker, **{versus:.2f} times** the rate of the "
        f"best official Java consumer, which does nothing with its messages. That is on one machine for all: broker, "
        f"Spark and Python ({facts['machine']}; {LARGE}, default columns; RocketMQ {facts.get('RocketMQ')}, "
        f"{facts['day']}, commit {facts['commit']}; [the whole measurement](memory.md))."
    )


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
    """Return the path of PySpark's archive; while it is packed, each Python process of Spark compiles PySpark again."""
    return Path(str(files("pyspark"))) / "python" / "lib" / "pyspark.zip"


def _java_version() -> str:
    done = subprocess.run([java_home_tool("java"), "-version"], capture_output=True, text=True, timeout=60)
    return done.stderr.splitlines()[0]


def _commit() -> str:
    """Return the commit, with `-dirty` if anything but pages of benchmarks has changed since."""
    changed = _git("status", "--porcelain", "--", ".", ":!docs/benchmarks")
    return f"{_git('describe', '--always') or 'unknown'}{'-dirty' if changed else ''}"


def _git(*words: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, timeout=30)
    return done.stdout.strip()
