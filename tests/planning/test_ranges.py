"""Slots are cut into tasks that read every offset once, within the limits of the settings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rocketmq.allocation import AllocationSettings
from pyspark_rocketmq.allocation.strategy_names import parse_strategy
from pyspark_rocketmq.errors import PlanTooLarge
from pyspark_rocketmq.model import QueueRange, sort_queues
from pyspark_rocketmq.planning.ranges import PlanSettings, Task, count_parts, cut, plan_tasks
from tests.peak import MOST_MIB, run_apart
from tests.planning.fixtures import lengths, queue, ranges_of

allocations = st.builds(
    AllocationSettings,
    st.sampled_from(["AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH", "MACHINE_ROOM_NEARBY"]).map(parse_strategy),
)
counts = st.none() | st.integers(1, 50)


def size(ranges: Iterable[QueueRange]) -> int:
    """Return the number of offsets in these ranges."""
    return sum(each.offset_count for each in ranges)


def join(tasks: Iterable[Task]) -> list[QueueRange]:
    """Return the ranges of all tasks in queue order; ranges of a queue that touch are joined into one."""
    joined: list[QueueRange] = []
    for each in sorted(each for task in tasks for each in task):
        if joined and joined[-1].queue == each.queue and joined[-1].end == each.start:
            joined[-1] = joined[-1]._replace(end=each.end)
        else:
            joined.append(each)
    return joined


@given(lengths, allocations, st.integers(1, 100), counts, counts)
def test_tasks_tile_the_ranges_exactly(
    sizes: list[int], allocation: AllocationSettings, least: int, most: int | None, records: int | None
) -> None:
    """With any settings, each offset is read by exactly one task, and no task and no range is empty."""
    ranges = ranges_of(sizes)

    tasks = plan_tasks(ranges, PlanSettings(allocation, least, most, records))

    assert join(tasks) == [each for each in ranges if each.offset_count]
    assert all(task and all(each.offset_count > 0 for each in task) for task in tasks)


@given(lengths, st.integers(1, 100), counts)
def test_number_of_tasks(sizes: list[int], least: int, most: int | None) -> None:
    """There is one task for each slot, or more up to `minPartitions`, but never more than there are offsets."""
    with_data = sum(length > 0 for length in sizes)

    tasks = plan_tasks(ranges_of(sizes), PlanSettings(min_partitions=least, max_partitions=most))

    slots = min(with_data, most or with_data)
    assert len(tasks) == max(slots, min(least, sum(sizes)))


@given(lengths.filter(any), st.integers(1, 60))
def test_equal_limits_give_that_number(sizes: list[int], wanted: int) -> None:
    """If `minPartitions` and `maxPartitions` are both k and there are at least k offsets, there are k tasks."""
    tasks = plan_tasks(ranges_of(sizes), PlanSettings(min_partitions=wanted, max_partitions=wanted))

    assert len(tasks) == min(wanted, sum(sizes))


@given(lengths, counts, st.integers(1, 300))
def test_most_records(sizes: list[int], most: int | None, records: int) -> None:
    """Each task has at most `maxRecordsPerPartition` offsets, and tasks are cut into as few parts as that needs."""
    whole = plan_tasks(ranges_of(sizes), PlanSettings(max_partitions=most))

    tasks = plan_tasks(ranges_of(sizes), PlanSettings(max_partitions=most, max_records_per_partition=records))

    assert all(size(task) <= records for task in tasks)
    assert len(tasks) == sum(-(-size(task) // records) for task in whole)


@given(lengths, allocations, st.integers(1, 100), counts)
def test_equal_inputs_give_equal_plans(
    sizes: list[int], allocation: AllocationSettings, least: int, most: int | None
) -> None:
    """The order of the ranges in the input does not change the tasks."""
    settings = PlanSettings(allocation, least, most, 77)

    assert plan_tasks(ranges_of(sizes), settings) == plan_tasks(reversed(ranges_of(sizes)), settings)


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=8), st.integers(1, 40))
def test_further_parts_go_where_parts_are_longest(sizes: list[int], wanted: int) -> None:
    """Each further part goes to the slot with the most offsets per part, and of equal slots to the first."""
    parts = [1] * len(sizes)
    while sum(parts) < min(wanted, sum(sizes)):
        ratios = [Fraction(length, count) for length, count in zip(sizes, parts, strict=True)]
        parts[ratios.index(max(ratios))] += 1

    assert count_parts(sizes, wanted) == parts


@given(lengths.filter(any), st.data())
def test_cuts_fall_where_they_should(sizes: list[int], data: st.DataObject) -> None:
    """If a slot of L offsets is cut into k parts, the first i parts have ⌊L·i/k⌋ offsets, and ranges stay in order."""
    ranges = [each for each in ranges_of(sizes) if each.offset_count]
    parts = data.draw(st.integers(1, min(size(ranges), 50)))

    tasks = cut(ranges, parts)

    ends = [size(each for task in tasks[:number] for each in task) for number in range(1, parts + 1)]
    assert ends == [size(ranges) * number // parts for number in range(1, parts + 1)]
    assert [each.queue for task in tasks for each in task] == sort_queues(each.queue for task in tasks for each in task)


@pytest.mark.parametrize(
    ("sizes", "parts", "cuts"),
    [
        ([10], 1, [[(0, 100, 110)]]),
        ([10], 3, [[(0, 100, 103)], [(0, 103, 106)], [(0, 106, 110)]]),
        ([4, 4], 2, [[(0, 100, 104)], [(1, 100, 104)]]),
        ([3, 5], 2, [[(0, 100, 103), (1, 100, 101)], [(1, 101, 105)]]),
        ([1, 1, 1], 3, [[(0, 100, 101)], [(1, 100, 101)], [(2, 100, 101)]]),
    ],
)
def test_cut_by_example(sizes: Sequence[int], parts: int, cuts: list[list[tuple[int, int, int]]]) -> None:
    """Ranges are cut inside a queue's range or between two queues, wherever parts of equal size end."""
    expected = [tuple(QueueRange(queue(number), start, end) for number, start, end in part) for part in cuts]

    assert cut(ranges_of(sizes), parts) == expected


def test_only_the_first_part_of_a_range_begins_at_its_open_front() -> None:
    """If a range with an open front is cut, messages that are missing at the start of a later part are a loss."""
    ((first,), (second,)) = cut([QueueRange(queue(0), 100, 110, is_front_open=True)], 2)

    assert (first, second) == (QueueRange(queue(0), 100, 105, True), QueueRange(queue(0), 105, 110, False))


def test_a_large_slot_is_split_first() -> None:
    """If one slot has most of the offsets, all further tasks are cut from it."""
    tasks = plan_tasks(ranges_of([1000, 10]), PlanSettings(min_partitions=5))

    assert [size(task) for task in tasks] == [250, 250, 250, 250, 10]


def test_nothing_to_read() -> None:
    """Without ranges there is no task, whatever `minPartitions` is."""
    assert plan_tasks([], PlanSettings(min_partitions=8, max_records_per_partition=1)) == []


@pytest.mark.parametrize("setting", ["max_records_per_partition=1000", "min_partitions=10**9"])
def test_a_plan_of_too_many_tasks_is_refused_before_it_is_made(setting: str) -> None:
    """If a range needs too many tasks, planning fails without using much memory; the error names option and range."""
    said, peak = run_apart(
        f"""
from pyspark_rocketmq.model import MessageQueue, QueueRange
from pyspark_rocketmq.planning.ranges import PlanSettings, plan_tasks
plan_tasks([QueueRange(MessageQueue("T", "b", 3), 7, 2**62)], PlanSettings({setting}))
"""
    )

    assert peak < MOST_MIB
    assert "[PLAN_TOO_LARGE]" in said and "the limit is 100000" in said and "(topic T, broker b, queue 3" in said
    assert ("maxRecordsPerPartition=1000" if "max" in setting else "minPartitions=1000000000") in said
    assert f"ends at {2**62}" in said


def test_a_plan_of_many_tasks_is_made() -> None:
    """A batch of 100000 tasks is planned, however many offsets it has, and a batch of 100001 tasks is refused."""
    settings = PlanSettings(max_records_per_partition=10)

    assert len(plan_tasks(ranges_of([1_000_000]), settings)) == 100_000
    with pytest.raises(PlanTooLarge, match="cuts the batch into 100001 tasks"):
        plan_tasks(ranges_of([1_000_001]), settings)


def test_many_partitions_are_refused_if_there_are_offsets_for_them() -> None:
    """If `minPartitions` is too large, a batch that has an offset for each of them is refused; a smaller one is not."""
    settings = PlanSettings(min_partitions=200_000)

    assert len(plan_tasks(ranges_of([1_000]), settings)) == 1_000
    with pytest.raises(PlanTooLarge, match="minPartitions=200000 cuts the batch into 100001 tasks"):
        plan_tasks(ranges_of([100_000, 1]), settings)


def test_the_longest_range_is_named_wherever_it_lies() -> None:
    """The error about too many tasks names the range with the most offsets, not the one with the highest."""
    ranges = [QueueRange(queue(0), 7, 300_007), QueueRange(queue(1), 10**9, 10**9 + 1)]

    with pytest.raises(PlanTooLarge, match="the longest range has 300000 offsets and ends at 300007"):
        plan_tasks(ranges, PlanSettings(max_records_per_partition=1))


def test_a_queue_is_one_task_by_default() -> None:
    """Without further settings, one queue with data is read by one task."""
    assert plan_tasks(ranges_of([10]), PlanSettings()) == [tuple(ranges_of([10]))]
