"""Are contenders measured in fair turns?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.bench.rounds import Contender, Run, Spread, interleave


def _contender(name: str, calls: list[tuple[str, int]], drains: int = 100) -> Contender:
    def run(count: int) -> Run:
        calls.append((name, count))
        return Run(drains, 2.0)

    return Contender(name, run, {}, 100, 7)


def test_everybody_runs_once_a_round_in_an_order_that_turns() -> None:
    """After one warm-up each."""
    calls: list[tuple[str, int]] = []
    contenders = [_contender("a", calls), _contender("b", calls)]

    outcomes = interleave(contenders, 2, settle=lambda: None)

    assert calls[:2] == [("a", 7), ("b", 7)]
    assert [name for name, _ in calls[2:]] == ["a", "b", "b", "a"]
    assert {outcome.rate for outcome in outcomes} == {50.0}


def test_who_fell_asleep_is_woken_before_each_measured_run() -> None:
    """And not for the warm-up, which wakes by itself."""
    calls: list[tuple[str, int]] = []
    contender = replace(_contender("a", calls), wake=lambda: calls.append(("wake", 0)))

    interleave([contender], 2, settle=lambda: None)

    assert [name for name, _ in calls] == ["a", "wake", "a", "wake", "a"]


def test_who_drains_too_little_is_not_measured() -> None:
    """A rate over missing messages would be a lie."""
    with pytest.raises(AssertionError, match="a drained 99 of 100"):
        interleave([_contender("a", [], drains=99)], 1, settle=lambda: None)


def test_a_spread_shows_median_and_range() -> None:
    """As a reader sees it."""
    assert str(Spread.of([3000, 1000, 2000])) == "2,000 (1,000..3,000)"
