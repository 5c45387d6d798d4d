"""Rates cover the last minute, and the count of failures covers the last hour."""

from __future__ import annotations

from pyspark_rocketmq.client.statistics import Statistics
from pyspark_rocketmq.wire.bodies import ConsumeStatus
from tests.client.fixtures import ManualClock


def test_rates_and_times_are_means_of_a_minute() -> None:
    """Rates are counts per second over the last minute, and times are mean milliseconds of a pull or a call."""
    statistics = Statistics(ManualClock().now_s)
    statistics.pulled("t", 0.010, messages=90)
    statistics.pulled("t", 0.030, messages=30)
    statistics.consumed("t", 0.5, succeeded=60, failed=6)
    status = statistics.status("t")

    assert (status.pull_rt, status.pull_tps) == (20.0, 2.0)
    assert (status.consume_rt, status.consume_ok_tps, status.consume_failed_tps) == (500.0, 1.0, 0.1)


def test_what_is_old_is_forgotten() -> None:
    """Rates are 0 a minute after the last event, and failures an hour after it; each topic is counted by itself."""
    clock = ManualClock()
    statistics = Statistics(clock.now_s)
    statistics.consumed("t", 0.5, succeeded=1, failed=2)
    assert statistics.status("other").consume_failed_msgs == 0

    clock.advance(61)
    assert (statistics.status("t").consume_ok_tps, statistics.status("t").consume_failed_msgs) == (0.0, 2)
    clock.advance(3600)
    statistics.consumed("t", 0.5, succeeded=1, failed=0)
    assert statistics.status("t").consume_failed_msgs == 0


def test_a_minute_is_counted_in_slots_of_6_s() -> None:
    """Events of 6 s are counted together, and forgotten together a minute after the first of them."""
    clock = ManualClock()
    statistics = Statistics(clock.now_s)
    for pause_s in (0.0, 5.75, 0.25):
        clock.advance(pause_s)
        statistics.consumed("t", 0.5, succeeded=60, failed=0)

    rates = []
    for pause_s in (53.75, 0.25, 5.75, 0.25):
        clock.advance(pause_s)
        rates.append(statistics.status("t").consume_ok_tps)
    assert rates == [3.0, 1.0, 1.0, 0.0]


def test_nothing_is_counted_that_did_not_happen() -> None:
    """A pull without messages counts as a pull; what has not happened has a mean time of 0."""
    statistics = Statistics(ManualClock().now_s)
    assert statistics.status("t") == ConsumeStatus()
    statistics.pulled("t", 0.010)
    assert statistics.status("t") == ConsumeStatus(pull_rt=10.0)
