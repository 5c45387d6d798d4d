"""Test that delays between attempts grow, stay bounded, and are shortened at random."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rocketmq.net.backoff import Backoff, Jitter


def longest_chance() -> float:
    """Return the random number that leaves a delay at its full length."""
    return 0.0


def test_delays_double_up_to_the_longest() -> None:
    """If no delay is shortened at random, each is twice the previous one, up to the longest."""
    backoff = Backoff(first_s=0.5, longest_s=3.0)

    assert [backoff.delay_s(attempt, longest_chance) for attempt in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]


@pytest.mark.parametrize(("jitter", "shortest"), [(Jitter.FULL, 0.0), (Jitter.EQUAL, 0.5)])
def test_chance_shortens_a_delay_within_its_jitter(jitter: Jitter, shortest: float) -> None:
    """At most, full jitter shortens a delay to 0, and equal jitter shortens it to half."""
    backoff = Backoff(first_s=1.0, jitter=jitter)

    assert backoff.delay_s(0, lambda: 1.0) == shortest


@given(st.integers(0, 10**6), st.floats(0, 1, exclude_max=True), st.sampled_from(Jitter))
def test_every_delay_is_within_its_bounds(attempt: int, draw: float, jitter: Jitter) -> None:
    """After any number of attempts the delay is finite, positive and not above the longest."""
    delay = Backoff(first_s=0.1, longest_s=10.0, jitter=jitter).delay_s(attempt, lambda: draw)

    assert 0.0 < delay <= 10.0
