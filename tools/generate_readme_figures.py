"""Write the figures of README.md, between two comments, and docs/benchmarks/README.md, the overview of all goals.

Both are made from the saved results of the benchmarks. With `--check` nothing is written; the exit status is 1 if one
is out of date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.bench.bench_settings import LARGE, SMALL  # noqa: E402  # the script runs from a plain checkout
from tests.bench.contenders import JAVA, SPARK, SPARK_NO_MAP  # noqa: E402
from tests.bench.goals import rows  # noqa: E402
from tests.bench.report import summary  # noqa: E402
from tests.bench.results import Result, load_all  # noqa: E402
from tests.bench.sink_contenders import JAVA_SYNC, SPARK_WRITE, Writing  # noqa: E402
from tools.generated import keep  # noqa: E402

README = ROOT / "README.md"
FOLDER = "docs/benchmarks"
BEGIN, END = "<!-- figures: written by tools/generate_readme_figures.py -->\n", "<!-- end of figures -->"


class Line(NamedTuple):
    """A line of the table: a contender of ours beside others, in a setting of a part of the benchmarks."""

    what: str
    part: str
    setting: object
    ours: str
    label: str
    others: tuple[str, ...]


_JAVA, _KAFKA, _PRODUCER = (
    "the fastest official Java consumer",
    "Spark's Kafka source",
    "the official Java producer, synchronous",
)
LINES = (
    Line("read 1 KiB into Spark", "memory", LARGE, SPARK, _JAVA, JAVA),
    Line("read 100 B into Spark", "memory", SMALL, SPARK, _JAVA, JAVA),
    Line("read 1 KiB, without the map of properties", "kafka", "1 KiB", SPARK_NO_MAP, _KAFKA, ("Kafka batch",)),
    Line("read 100 B, without the map of properties", "kafka", "100 B", SPARK_NO_MAP, _KAFKA, ("Kafka batch",)),
    Line("write 1 KiB from Spark, 32 in a request", "sink", Writing(32, 1024), SPARK_WRITE, _PRODUCER, (JAVA_SYNC,)),
    Line(
        "write 1 KiB from Spark", "kafka_sink", Writing(32, 1024), SPARK_WRITE, "Spark's Kafka sink", ("Kafka write",)
    ),
    Line(
        "push consumer without Spark, a call per message", "push", "one at a time", "our push", "Java's", ("Java push",)
    ),
)
"""The lines in their order; those that were not measured are left out."""


def figures(results: Mapping[str, Result]) -> str:
    """Return the table, with a sentence about the goals."""
    table = ["| | rows a second | beside | ratio |", "|---|---|---|---|", *_table(results)]
    goals = [row[4] for row in rows(results) if row[4]]
    reached = sum(cell == "yes" for cell in goals)
    about = f"[All figures]({FOLDER}/README.md), with machine, commit and range; "
    about += f"{reached} of {len(goals)} goals are reached."
    return "\n".join([*table, "", about, ""])


def _table(results: Mapping[str, Result]) -> Iterator[str]:
    for line in LINES:
        result = results.get(line.part)
        ours = result.median(f"{line.setting}/{line.ours}/rate") if result else None
        if result is None or ours is None:
            continue
        other = max(filter(None, (result.median(f"{line.setting}/{name}/rate") for name in line.others)))
        page = f"[{line.part}]({FOLDER}/{line.part}.md)"
        yield f"| {line.what} ({page}) | {ours:,.0f} | {line.label}: {other:,.0f} | {ours / other:.2f} |"


def main() -> int:
    """Write or check the figures of README.md and the overview."""
    results, text = load_all(ROOT / FOLDER / "results"), README.read_text()
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin and end, f"README.md has no {BEGIN.strip()} or no {END}"
    overview = keep(ROOT / FOLDER / "README.md", summary(results) + "\n")
    return max(overview, keep(README, before + begin + figures(results) + end + after))


if __name__ == "__main__":
    sys.exit(main())
