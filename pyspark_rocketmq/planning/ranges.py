"""Which ranges does each task read?

A slot's ranges are laid end to end. A slot of L offsets in k parts is cut at ⌊L·i/k⌋, wherever that falls, also inside
a queue's range: parts differ by one offset at most and tile the slot exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heapreplace
from itertools import pairwise

from ..allocation import AllocationSettings
from ..model import QueueRange
from .slots import deal_slots

__all__ = ["PlanSettings", "Task", "count_parts", "cut", "plan_tasks"]

Task = tuple[QueueRange, ...]
"""What one Spark task reads, in this order."""


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """How a batch becomes tasks."""

    allocation: AllocationSettings = field(default_factory=AllocationSettings)
    min_partitions: int = 1
    max_partitions: int | None = None
    max_records_per_partition: int | None = None


def plan_tasks(ranges: Iterable[QueueRange], settings: PlanSettings) -> list[Task]:
    """Deal to slots, split slots up to `min_partitions`, then split tasks above `max_records_per_partition`."""
    slots = deal_slots(ranges, settings.allocation, settings.max_partitions)
    parts = count_parts([_count_offsets(slot) for slot in slots], settings.min_partitions)
    tasks = [task for slot, count in zip(slots, parts, strict=True) for task in cut(slot, count)]
    most = settings.max_records_per_partition
    if most is None:
        return tasks
    return [piece for task in tasks for piece in cut(task, -(-_count_offsets(task) // most))]


def count_parts(lengths: Sequence[int], wanted: int) -> list[int]:
    """One part for each slot; every further one goes where a part is longest now (the lowest slot wins ties)."""
    parts = [1] * len(lengths)
    # Python divides integers exactly before it rounds, so equal ratios stay equal.
    longest = [(-float(length), slot) for slot, length in enumerate(lengths)]
    heapify(longest)
    for _ in range(min(wanted, sum(lengths)) - len(lengths)):
        _, slot = longest[0]
        parts[slot] += 1
        heapreplace(longest, (-(lengths[slot] / parts[slot]), slot))
    return parts


def cut(ranges: Sequence[QueueRange], parts: int) -> list[Task]:
    """The ranges, laid end to end, in parts of nearly equal size."""
    if parts == 1:
        return [tuple(ranges)]
    length = _count_offsets(ranges)
    cuts = [length * number // parts for number in range(parts + 1)]
    rest = list(reversed(ranges))
    return [tuple(_take(rest, end - start)) for start, end in pairwise(cuts)]


def _take(rest: list[QueueRange], offset_count: int) -> Iterator[QueueRange]:
    """Take so many offsets from the end of a list of ranges that is to be read backwards."""
    while offset_count:
        whole = rest.pop()
        middle = min(whole.end, whole.start + offset_count)
        if middle < whole.end:
            rest.append(whole._replace(start=middle, is_front_open=False))
        offset_count -= middle - whole.start
        yield whole._replace(end=middle)


def _count_offsets(ranges: Iterable[QueueRange]) -> int:
    return sum(each.end - each.start for each in ranges)
