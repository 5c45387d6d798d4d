"""Cut a batch into tasks.

RocketMQ's strategies assign queues with data to slots as they assign them to the members of a group; slots without
queues are dropped. Then slots are cut into tasks. A slot's ranges are put in a row of L offsets. To make k tasks of
them, the row is cut at ⌊L·i/k⌋, also inside a queue's range. So tasks differ by at most one offset, and together they
read each offset of the slot once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heapreplace
from itertools import pairwise

from ..allocation import AllocationSettings, MachineRoom, build_strategy
from ..errors import OptionError, PlanTooLarge
from ..model import MessageQueue, QueueRange, java_order, sort_queues

__all__ = [
    "PlanSettings",
    "Task",
    "assign_slots",
    "count_parts",
    "covered_queues",
    "cut",
    "name_slots",
    "plan_tasks",
    "unlisted_queues",
]

MOST_TASKS = 100_000
"""The largest number of tasks in a batch: Spark cannot schedule more in reasonable time.

It also limits the memory of a plan that a wrong offset has made too large.
"""

Slot = list[QueueRange]
"""The ranges of the queues that one slot was assigned, in the order in which they are read."""

Task = tuple[QueueRange, ...]
"""The ranges that one Spark task reads, in this order."""


_EVEN_STRATEGIES = ("AVG", "AVG_BY_CIRCLE")
"""The strategies that assign n queues to n slots one by one, in order."""


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """The settings by which a batch is cut into tasks."""

    allocation: AllocationSettings = field(default_factory=AllocationSettings)
    min_partitions: int = 1
    max_partitions: int | None = None
    max_records_per_partition: int | None = None


def plan_tasks(ranges: Iterable[QueueRange], settings: PlanSettings) -> list[Task]:
    """Return the tasks that read these ranges; raise `PlanTooLarge` if the settings ask for too many.

    Queues are assigned to slots. Slots are cut until there are `min_partitions` tasks. Then each task with more offsets
    than `max_records_per_partition` is cut again.
    """
    least, most = settings.min_partitions, settings.max_records_per_partition
    slots = assign_slots(ranges, settings.allocation, settings.max_partitions)
    _refuse_too_many(f"minPartitions={least}", min(least, sum(map(_count_offsets, slots))), slots)
    parts = count_parts([_count_offsets(slot) for slot in slots], least)
    tasks = [task for slot, count in zip(slots, parts, strict=True) for task in cut(slot, count)]
    if most is None:
        return tasks
    pieces = [-(-_count_offsets(task) // most) for task in tasks]
    _refuse_too_many(f"maxRecordsPerPartition={most}", sum(pieces), tasks)
    return [piece for task, count in zip(tasks, pieces, strict=True) for piece in cut(task, count)]


def _refuse_too_many(option: str, count: int, tasks: Iterable[Sequence[QueueRange]]) -> None:
    """Raise `PlanTooLarge` if `count`, the number of tasks that `option` demands, is over `MOST_TASKS`.

    `tasks` is the plan before it is cut that far; the error names its longest range.
    """
    if count <= MOST_TASKS:
        return
    longest = max((each for task in tasks for each in task), key=lambda each: each.end - each.start)
    raise PlanTooLarge(
        f"{option} cuts the batch into {count} tasks, the limit is {MOST_TASKS}; the longest range has "
        f"{longest.end - longest.start} offsets and ends at {longest.end}",
        advice="raise maxRecordsPerPartition, lower minPartitions, or limit batches with maxOffsetsPerTrigger",
        topic=longest.queue.topic,
        broker=longest.queue.broker_name,
        queue_id=longest.queue.queue_id,
        offset=longest.start,
    )


def count_parts(lengths: Sequence[int], wanted: int) -> list[int]:
    """Return into how many parts each slot is cut; `lengths` has the number of offsets of each slot.

    There are `wanted` parts in all, but at least one per slot and at most one per offset. Parts are added one by one:
    each time the slot whose parts are longest gets one more; of equal slots, the first.
    """
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
    """Return `parts` tasks that read these ranges in order; their sizes differ by at most one offset."""
    if parts == 1:
        return [tuple(ranges)]
    length = _count_offsets(ranges)
    cuts = [length * number // parts for number in range(parts + 1)]
    rest = list(reversed(ranges))
    return [tuple(_take(rest, end - start)) for start, end in pairwise(cuts)]


def _take(rest: list[QueueRange], offset_count: int) -> Iterator[QueueRange]:
    """Yield the next ranges to be read, `offset_count` offsets in total, and remove these offsets from `rest`.

    `rest` has the ranges in reverse order: the next one to be read is its last. A range may be split.
    """
    while offset_count:
        whole = rest.pop()
        middle = min(whole.end, whole.start + offset_count)
        if middle < whole.end:
            rest.append(whole._replace(start=middle, is_front_open=False))
        offset_count -= middle - whole.start
        yield whole._replace(end=middle)


def _count_offsets(ranges: Iterable[QueueRange]) -> int:
    return sum(each.end - each.start for each in ranges)


# --- slots ------------------------------------------------------------------------------------------------------------


def assign_slots(
    ranges: Iterable[QueueRange], allocation: AllocationSettings, max_partitions: int | None = None
) -> list[Slot]:
    """Return the ranges of each slot, by the allocation strategy; leave out empty ranges and slots.

    There is a slot for each queue with data, but at most `max_partitions`. With the strategy CONFIG the user lists the
    slots.
    """
    by_queue = {each.queue: each for each in ranges if each.offset_count > 0}
    if not by_queue:
        return []
    dealt = _assign(sort_queues(by_queue), allocation, max_partitions)
    return [[by_queue[queue] for queue in slot] for slot in dealt if slot]


def _assign(
    queues: Sequence[MessageQueue], allocation: AllocationSettings, max_partitions: int | None
) -> list[list[MessageQueue]]:
    if allocation.strategy.outer == "CONFIG":
        return _assign_listed(queues, allocation.queue_lists)
    slots = name_slots(min(len(queues), max_partitions or len(queues)))
    if len(slots) == len(queues) and allocation.strategy.outer in _EVEN_STRATEGIES:
        return [[queue] for queue in queues]
    rooms = _rooms_of_slots(queues, slots, allocation) if allocation.strategy.outer == "MACHINE_ROOM_NEARBY" else {}
    return build_strategy(allocation, rooms.get).allocate_all(queues, slots)


def name_slots(count: int) -> list[str]:
    """Return names for `count` slots, sorted as text; the strategy CONSISTENT_HASH hashes these names."""
    digits = max(5, len(str(count - 1)))
    return [f"slot-{number:0{digits}}" for number in range(count)]


def _rooms_of_slots(
    queues: Sequence[MessageQueue], slots: Sequence[str], allocation: AllocationSettings
) -> dict[str, str]:
    """Return {name of a slot: its machine room}; the dict is empty if no room is known.

    The slots get the configured rooms in turn; if no rooms are configured, those of the queues' brokers in turn.
    """
    of_brokers = {allocation.room_of_broker(queue.broker_name) for queue in queues}
    rooms = allocation.machine_rooms or sorted((room for room in of_brokers if room), key=java_order)
    return {slot: rooms[number % len(rooms)] for number, slot in enumerate(slots)} if rooms else {}


def covered_queues(queues: Iterable[MessageQueue], allocation: AllocationSettings) -> list[MessageQueue]:
    """Return those of `queues` that a query reads: all, or with MACHINE_ROOM only those in the configured rooms."""
    if allocation.strategy.outer != "MACHINE_ROOM":
        return list(queues)
    return MachineRoom(frozenset(allocation.machine_rooms)).eligible(queues)


def unlisted_queues(
    queues: Iterable[MessageQueue], queue_lists: Iterable[Iterable[MessageQueue]]
) -> list[MessageQueue]:
    """Return the queues that are in none of CONFIG's lists: those created after the user wrote the lists."""
    listed = {queue for each in queue_lists for queue in each}
    return [queue for queue in queues if queue not in listed]


def _assign_listed(
    queues: Sequence[MessageQueue], queue_lists: Sequence[Sequence[MessageQueue]]
) -> list[list[MessageQueue]]:
    """Return the queues of each slot for the strategy CONFIG: those of `queues` that the slot's list has.

    Each queue in no list is added to the slot that has the fewest queues at that time; listed queues count even if they
    are not in `queues`.
    """
    if not queue_lists:
        raise OptionError(
            "messageQueueList", None, "required by CONFIG", advice="list each slot", code="OPTION_MISSING"
        )
    present = set(queues)
    slots = [[queue for queue in listed if queue in present] for listed in queue_lists]
    sizes = [(len(listed), number) for number, listed in enumerate(queue_lists)]
    heapify(sizes)
    for queue in unlisted_queues(queues, queue_lists):
        size, number = sizes[0]
        slots[number].append(queue)
        heapreplace(sizes, (size + 1, number))
    return slots
