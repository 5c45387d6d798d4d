"""Which slot reads which queue?

A slot is what becomes a task. RocketMQ's strategies deal queues to slots as they deal them to the members of a group;
slots that get nothing are dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heapify, heapreplace

from ..allocation import AllocationSettings, MachineRoom, build_strategy
from ..errors import OptionError
from ..model import MessageQueue, QueueRange, java_order, sort_queues

__all__ = ["Slot", "covered_queues", "deal_slots", "name_slots", "unlisted_queues"]

Slot = list[QueueRange]
"""Ranges in the order in which they are read."""


def deal_slots(
    ranges: Iterable[QueueRange], allocation: AllocationSettings, max_partitions: int | None = None
) -> list[Slot]:
    """One slot per queue with data, at most `max_partitions`; CONFIG brings its own slots."""
    by_queue = {each.queue: each for each in ranges if each.offset_count > 0}
    if not by_queue:
        return []
    dealt = _deal(sort_queues(by_queue), allocation, max_partitions)
    return [[by_queue[queue] for queue in slot] for slot in dealt if slot]


def _deal(
    queues: Sequence[MessageQueue], allocation: AllocationSettings, max_partitions: int | None
) -> list[list[MessageQueue]]:
    if allocation.strategy.outer == "CONFIG":
        return _deal_listed(queues, allocation.queue_lists)
    slots = name_slots(min(len(queues), max_partitions or len(queues)))
    rooms = _rooms_of_slots(queues, slots, allocation) if allocation.strategy.outer == "MACHINE_ROOM_NEARBY" else {}
    return build_strategy(allocation, rooms.get).allocate_all(queues, slots)


def name_slots(count: int) -> list[str]:
    """Names whose text order is number order; they are what CONSISTENT_HASH puts on its ring."""
    digits = max(5, len(str(count - 1)))
    return [f"slot-{number:0{digits}}" for number in range(count)]


def _rooms_of_slots(
    queues: Sequence[MessageQueue], slots: Sequence[str], allocation: AllocationSettings
) -> dict[str, str]:
    """Slots stand for rooms in turn: those the user lists, else all the brokers are in."""
    of_brokers = {allocation.room_of_broker(queue.broker_name) for queue in queues}
    rooms = allocation.machine_rooms or sorted((room for room in of_brokers if room), key=java_order)
    return {slot: rooms[number % len(rooms)] for number, slot in enumerate(slots)} if rooms else {}


def covered_queues(queues: Iterable[MessageQueue], allocation: AllocationSettings) -> list[MessageQueue]:
    """The queues that are read at all; MACHINE_ROOM leaves out those of other rooms, which get no position either."""
    if allocation.strategy.outer != "MACHINE_ROOM":
        return list(queues)
    return MachineRoom(frozenset(allocation.machine_rooms)).eligible(queues)


def unlisted_queues(
    queues: Iterable[MessageQueue], queue_lists: Iterable[Iterable[MessageQueue]]
) -> list[MessageQueue]:
    """Queues that no entry of CONFIG names: they came after the query was written."""
    listed = {queue for each in queue_lists for queue in each}
    return [queue for queue in queues if queue not in listed]


def _deal_listed(
    queues: Sequence[MessageQueue], queue_lists: Sequence[Sequence[MessageQueue]]
) -> list[list[MessageQueue]]:
    """Entry i is slot i; each unlisted queue joins the slot with the fewest queues, listed or joined."""
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
