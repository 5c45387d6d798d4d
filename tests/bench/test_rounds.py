"""Test that contenders are measured in the right order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.bench.rounds import Contender, Run, Spread, measure_in_rounds


def _contender(name: str, calls: list[tuple[str, int]], drains: int = 100) -> Contender:
    def run(count: int) -> Run:
        calls.append((name, count))
        return Run(drains, 2.0)

    return Contender(name, run, {}, 100, 7)


def test_each_contender_runs_once_a_round_in_an_order_that_turns() -> None:
    """After a warm-up each contender runs once in every round, and each round begins with another contender."""
    calls: list[tuple[str, int]] = []
    contenders = [_contender("a", calls), _contender("b", calls)]

    measurements = measure_in_rounds(contenders, 2, settle=lambda: None)

    assert calls[:2] == [("a", 7), ("b", 7)]
    assert [name for name, _ in calls[2:]] == ["a", "b", "b", "a"]
    assert {measurement.rate for measurement in measurements} == {50.0}


def test_wake_is_called_before_each_measured_run() -> None:
    """`wake` is called before each measured run, and not before the warm-up."""
    calls: list[tuple[str, int]] = []
    contender = replace(_contender("a", calls), wake=lambda: calls.append(("wake", 0)))

    measure_in_rounds([contender], 2, settle=lambda: None)

    assert [name for name, _ in calls] == ["a", "wake", "a", "wake", "a"]


def test_a_run_that_drains_too_little_is_an_error() -> None:
    """A run that drains fewer messages than required is an error."""
    with pytest.raises(AssertionError, match="a drained 99 of 100"):
        measure_in_rounds([_contender("a", [], drains=99)], 1, settle=lambda: None)


def test_a_spread_shows_median_and_range() -> None:
    assert str(Spread.of([3000, 1000, 2000])) == "2,000 (1,000..3,000)"
