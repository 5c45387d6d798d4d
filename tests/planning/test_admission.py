"""Admission applies the limits of a batch, and the target of availableNow."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rocketmq.planning.admission import Admission, Limits, admit, clip_to_target, share_cap
from tests.planning.fixtures import lengths, queue


def admitted(backlogs: list[int], limits: Limits, waited_s: float = 0.0) -> list[int]:
    """Return the number of offsets that each queue gets in a batch, for queues with these backlogs."""
    starts = {queue(number): 100 for number in range(len(backlogs))}
    latest = {queue(number): 100 + backlog for number, backlog in enumerate(backlogs)}
    return [end - 100 for end in admit(starts, latest, limits, waited_s=waited_s).ends.values()]


@pytest.mark.parametrize(
    ("backlogs", "cap", "shares"),
    [
        ([100, 300], 400, [100, 300]),
        ([100, 300], 100, [25, 75]),
        ([10, 10, 10], 10, [4, 3, 3]),
        ([1000, 1, 1], 3, [1, 1, 1]),
        ([1000, 1, 0, 1], 10, [8, 1, 0, 1]),
        ([5, 0, 7, 9], 1, [1, 0, 1, 1]),
        ([2**62, 2**62], 2**62 + 1, [2**61 + 1, 2**61]),
        ([60, 25, 15], 10, [6, 3, 1]),
        ([60, 23, 17], 10, [6, 2, 2]),
        ([5] * 8 + [18, 42], 15, [1] * 8 + [2, 5]),
    ],
)
def test_cap_is_shared_in_proportion(backlogs: list[int], cap: int, shares: list[int]) -> None:
    """Queues share `max_per_trigger` in proportion to backlogs, and each queue with data gets at least one offset."""
    assert admitted(backlogs, Limits(max_per_trigger=cap)) == shares


@given(lengths, st.integers(1, 20_000))
def test_nobody_starves_and_the_cap_holds(backlogs: list[int], cap: int) -> None:
    """A batch has `max_per_trigger` offsets, or one per queue with data if that is more, or all if that is less."""
    shares = admitted(backlogs, Limits(max_per_trigger=cap))

    with_data = sum(backlog > 0 for backlog in backlogs)
    assert sum(shares) == min(sum(backlogs), max(cap, with_data))
    assert all(min(backlog, 1) <= share <= backlog for share, backlog in zip(shares, backlogs, strict=True))


@given(lengths, st.integers(1, 20_000))
def test_a_larger_backlog_never_gets_less(backlogs: list[int], cap: int) -> None:
    """A queue with a larger backlog gets at least as many offsets as a queue with a smaller one."""
    shares = admitted(backlogs, Limits(max_per_trigger=cap))

    by_backlog = sorted(zip(backlogs, shares, strict=True))
    assert all(a[1] <= b[1] for a, b in pairwise(by_backlog) if a[0] < b[0])


@given(lengths, st.integers(1, 20_000))
def test_equal_backlogs_get_equal_plans(backlogs: list[int], cap: int) -> None:
    """The order of the queues in the input does not change their shares."""
    by_queue = {queue(number): backlog for number, backlog in enumerate(backlogs)}

    assert share_cap(by_queue, cap) == share_cap(dict(reversed(by_queue.items())), cap)


def test_cap_per_queue_comes_first() -> None:
    """If both limits are set, `max_per_trigger` is shared among backlogs that `max_per_queue` has limited."""
    assert admitted([1000, 10], Limits(max_per_queue=30)) == [30, 10]
    assert admitted([1000, 10], Limits(max_per_trigger=20, max_per_queue=30)) == [15, 5]


def test_floor_holds_back_until_enough_came() -> None:
    """If the backlog is smaller than `min_per_trigger`, nothing is admitted; if it is equal, everything is."""
    limits = Limits(min_per_trigger=50, max_delay_s=900)

    assert admitted([20, 29], limits, waited_s=899) == [0, 0]
    assert admitted([20, 30], limits, waited_s=0) == [20, 30]


def test_floor_gives_up_after_its_delay() -> None:
    """After `max_delay_s` a backlog below the floor is admitted; with availableNow it is admitted at once."""
    limits = Limits(min_per_trigger=50, max_delay_s=900)

    assert admitted([20, 29], limits, waited_s=900) == [20, 29]
    assert admitted([20, 29], limits.without_floor()) == [20, 29]


def test_the_floor_waits_a_quarter_of_an_hour_by_default() -> None:
    """Without `max_delay_s`, a backlog below the floor is admitted after 900 seconds."""
    limits = Limits(min_per_trigger=50)

    assert admitted([20, 29], limits, waited_s=899.9) == [0, 0]
    assert admitted([20, 29], limits, waited_s=900) == [20, 29]


@pytest.mark.parametrize(("max_delay_s", "is_held_back"), [(0, False), (0.5, True)])
def test_no_time_has_passed_unless_it_is_told(max_delay_s: float, is_held_back: bool) -> None:
    """Without `waited_s`, a batch below the floor waits if there is any delay."""
    limits = Limits(min_per_trigger=2, max_delay_s=max_delay_s)

    assert admit({queue(0): 5}, {queue(0): 6}, limits).held_back is is_held_back


def test_floor_looks_at_the_backlog_and_not_at_the_caps() -> None:
    """The floor does not delay a batch whose backlog is large enough, even if `max_per_queue` makes it smaller."""
    assert admitted([1000, 1000], Limits(max_per_queue=10, min_per_trigger=50)) == [10, 10]


def test_held_back_is_told() -> None:
    """If the floor delays a batch, `held_back` is true; if there is no data, it is false."""
    starts, latest = {queue(0): 5}, {queue(0): 6}

    assert admit(starts, latest, Limits(min_per_trigger=2)) == Admission({queue(0): 5}, True)
    assert admit(starts, starts, Limits()) == Admission({queue(0): 5}, False)


def test_queues_without_a_latest_offset_stay() -> None:
    """A queue without an end, or with an end below its start, ends at its start; a queue without a start is ignored."""
    starts = {queue(0): 5, queue(1): 5}

    assert admit(starts, {queue(1): 3, queue(2): 9}, Limits()).ends == starts


def test_available_now_sees_its_frozen_target_only() -> None:
    """With a target, each queue ends at its target or earlier, and queues that the target lacks are not read."""
    latest = {queue(0): 50, queue(1): 7, queue(2): 9}

    clipped = clip_to_target(latest, {queue(0): 40, queue(1): 10})

    assert clipped == {queue(0): 40, queue(1): 7}
    assert admit({queue(0): 0, queue(2): 9}, clipped, Limits(max_per_queue=100)).ends == {queue(0): 40, queue(2): 9}
