"""The search by time finds the first message at or after a time, from any message nearby."""

from __future__ import annotations

from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rocketmq.cluster.searches import search_first_since


def search(times: list[int], min_offset: int, sought: int, nearest: int) -> tuple[int, int]:
    """Return the offset that the search finds, and its number of probes; `times` are the store times of the queue."""
    steps = search_first_since(sought, nearest, min_offset, min_offset + len(times))
    looks, sent = 0, None
    try:
        while True:
            probe = next(steps) if sent is None else steps.send(sent)
            looks, sent = looks + 1, times[probe - min_offset]
    except StopIteration as end:
        return end.value, looks


@given(st.lists(st.integers(0, 50)).map(sorted), st.integers(0, 9), st.integers(-1, 52), st.integers(-5, 70))
def test_it_is_the_first_at_or_after(times: list[int], start: int, sought: int, nearest: int) -> None:
    """From any start, the search finds the first message stored at or after a time, or the end if there is none."""
    assert search(times, start, sought, nearest)[0] == start + bisect_left(times, sought)


@pytest.mark.parametrize("nearest", [499, 500])
def test_a_neighbour_is_put_right_in_two_looks(nearest: int) -> None:
    """If the search starts at the message sought or at the one before, two probes are enough."""
    assert search(list(range(0, 10_000, 10)), 0, 4_991, nearest) == (500, 2)


def test_a_long_run_of_one_time_takes_few_looks() -> None:
    """If 100,000 messages have the same store time, the search finds the first of them in few probes."""
    found, looks = search([1] * 5 + [2] * 100_000, 0, 2, 90_000)
    assert found == 5 and looks < 40
