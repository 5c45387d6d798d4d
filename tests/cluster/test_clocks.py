"""Test that the time of a broker is read from its figures, and that clocks that may agree count as equal."""

from __future__ import annotations

import pytest

from pyspark_rocketmq.cluster.clocks import broker_time_ms, skew_ms, uptime_s

START_MS = 1_700_000_000_123
FIGURES = {"bootTimestamp": str(START_MS), "runtime": "[ 1 days, 2 hours, 3 minutes, 4 seconds ]"}
UP_S = 86_400 + 2 * 3600 + 3 * 60 + 4
THERE_MS = START_MS + 1000 * UP_S


def test_start_and_uptime_are_the_time() -> None:
    """The uptime is in whole seconds, and the start in milliseconds."""
    assert (uptime_s(FIGURES), broker_time_ms(FIGURES)) == (UP_S, THERE_MS)


@pytest.mark.parametrize(
    "change",
    [
        {"runtime": ""},
        {"runtime": "[ 1 days ]"},
        {"runtime": f"[ {'9' * 5000} days, 2 hours, 3 minutes, 4 seconds ]"},
        {"bootTimestamp": "-1"},
        {"bootTimestamp": "²"},
        {"bootTimestamp": "9" * 5000},
    ],
    ids=["no uptime", "another form", "a number without end", "below 0", "no ASCII digit", "a start without end"],
)
def test_figures_without_a_time_have_none(change: dict[str, str]) -> None:
    """A time that a broker does not report in the usual form and size is unknown."""
    assert broker_time_ms({**FIGURES, **change}) is None
    assert skew_ms({**FIGURES, **change}, 0, 0) is None


@pytest.mark.parametrize(
    ("asked_ms", "answered_ms", "skew"),
    [
        (THERE_MS, THERE_MS, 0),
        (THERE_MS + 999, THERE_MS + 999, 0),
        (THERE_MS - 3000, THERE_MS, 0),
        (THERE_MS + 1000, THERE_MS + 1002, -502),
        (THERE_MS - 7, THERE_MS - 1, 503),
        (THERE_MS - 3_600_010, THERE_MS - 3_600_000, 3_600_504),
    ],
)
def test_clocks_that_may_agree_count_as_equal(asked_ms: int, answered_ms: int, skew: int) -> None:
    """The broker read its clock between request and response, and up to a second after the time that it reports."""
    assert skew_ms(FIGURES, asked_ms, answered_ms) == skew
