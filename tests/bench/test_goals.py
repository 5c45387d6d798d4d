"""Test the goals, the saved figures and the plots of the benchmarks."""

from __future__ import annotations

from pathlib import Path

from tests.bench.bench_settings import LARGE
from tests.bench.contenders import ENGINE, JAVA_LITE, JAVA_PUSH, SPARK, TASKS
from tests.bench.goals import GOALS, at_full_use, ratio, rows
from tests.bench.plots import bar_chart
from tests.bench.report import summary
from tests.bench.results import Result, load_all, save
from tests.bench.rounds import Spread

ORIGIN = {"messages": "up to 9", "commit": "abc", "day": "2026-11-18"}


def _result() -> Result:
    result = Result("memory", ORIGIN)
    for name, rates in {ENGINE: (400, 500, 600), JAVA_PUSH: (90, 100, 110), JAVA_LITE: (40, 50, 60)}.items():
        result.add(f"{LARGE}/{name}/rate", rates, "/s")
    return result


def test_the_best_of_the_others_is_what_counts() -> None:
    """A ratio divides by the highest median rate of the other contenders."""
    assert ratio(LARGE, ENGINE, JAVA_LITE, JAVA_PUSH)(_result()) == 5.0
    assert ratio(LARGE, "absent", JAVA_PUSH)(_result()) is None


def test_a_limit_is_what_busy_cores_leave_room_for() -> None:
    """If a message costs 4 µs, two cores do 500,000 a second: 5 times the rate of a contender with 100,000."""
    result = Result("memory", {"machine": "some, 2 cores, 1 GiB"})
    for name, value in {"bare/cpu broker": 3, "ready/cpu JVM": 1, f"{JAVA_PUSH}/rate": 100_000}.items():
        result.add(f"{LARGE}/{name}", [value])

    assert at_full_use(LARGE, [("bare", "broker"), ("ready", "JVM")])(result) == 5.0
    assert at_full_use(LARGE, [("bare", "broker"), ("ready", "Python")])(result) is None


def test_saved_figures_are_loaded_unchanged(tmp_path: Path) -> None:
    """Figures that were saved in a folder are loaded from it unchanged."""
    save(_result(), tmp_path)

    assert load_all(tmp_path) == {"memory": _result()}


def test_the_page_of_ratios_says_what_is_reached_and_what_is_missing() -> None:
    """Each goal has a row, which shows whether the goal is reached, or that it was not measured."""
    found = rows({"memory": _result()})

    assert len(found) == len(GOALS)
    assert found[0][1:] == ("≥ 4", "5.00", "", "yes", "[memory](memory.md): up to 9, abc, 2026-11-18")
    assert {row[2] for row in found if row[5] == "disk"} == {"not measured"}


def test_a_plot_has_a_bar_for_each_contender() -> None:
    """A plot has one bar for each contender, and special characters in names are escaped."""
    chart = bar_chart("t", [(f"{name} & co", Spread(2, 1, 3)) for name in TASKS])

    assert chart.count(" &amp; co</text>") == len(TASKS)


def test_the_page_of_ratios_opens_with_one_figure() -> None:
    """The overview opens with the rate of a Spark batch read and its ratio to the best Java consumer, if measured."""
    result = _result()
    assert summary({"memory": result}).startswith("# Benchmarks\n\nRatios of medians")

    result = Result("memory", {**ORIGIN, "machine": "some, 2 cores, 1 GiB", "RocketMQ": "5.3.3"}, result.figures)
    result.add(f"{LARGE}/{SPARK}/rate", [124_000, 125_000, 126_000])
    opening = summary({"memory": result}).split("\n\n")[1]

    assert opening.startswith("A Spark batch read takes **125,000 rows a second** from a broker, **1250.00 times** ")
    assert "(some, 2 cores, 1 GiB; 8 queues, 1 KiB" in opening and "RocketMQ 5.3.3, 2026-11-18, commit abc;" in opening
