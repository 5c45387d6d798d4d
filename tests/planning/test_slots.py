"""Queues are dealt to slots."""

from __future__ import annotations

import pytest

from pyspark_rocketmq.allocation import AllocationSettings, ConsistentHash, build_strategy
from pyspark_rocketmq.allocation.strategy_names import parse_strategy
from pyspark_rocketmq.errors import OptionError
from pyspark_rocketmq.model import MessageQueue, QueueRange
from pyspark_rocketmq.planning.ranges import covered_queues, deal_slots, name_slots, unlisted_queues
from tests.planning.fixtures import queue, ranges_of


def settings(strategy: str, **others: object) -> AllocationSettings:
    """Return the allocation by a named strategy."""
    return AllocationSettings(parse_strategy(strategy), **others)  # type: ignore[arg-type]  # each test gives its own


def numbers(slots: list[list[QueueRange]]) -> list[list[int]]:
    """Return slots with queues as their numbers in order."""
    order = {queue(number): number for number in range(100)}
    return [[order[each.queue] for each in slot] for slot in slots]


def test_one_slot_per_queue_with_data() -> None:
    """Without a limit each queue with data is its own slot; empty ranges take none."""
    assert numbers(deal_slots(ranges_of([5, 0, 7, 1]), AllocationSettings())) == [[0], [2], [3]]
    assert deal_slots(ranges_of([0]), AllocationSettings()) == []


@pytest.mark.parametrize(
    ("strategy", "dealt"), [("AVG", [[0, 1, 2], [3, 4], [5, 6]]), ("AVG_BY_CIRCLE", [[0, 3, 6], [1, 4], [2, 5]])]
)
def test_queues_share_slots(strategy: str, dealt: list[list[int]]) -> None:
    """At most `maxPartitions` slots share the queues in RocketMQ's order, whatever the order of the ranges."""
    ranges = ranges_of([5] * 7)

    assert numbers(deal_slots(reversed(ranges), settings(strategy), 3)) == dealt


def test_consistent_hash_uses_the_slot_names() -> None:
    """The ring holds slot-00000 and so on, with the user's virtual nodes; empty slots are dropped."""
    ranges = ranges_of([5] * 10)
    shares = ConsistentHash(2).allocate_all([each.queue for each in ranges], ["slot-00000", "slot-00001", "slot-00002"])

    slots = deal_slots(ranges, settings("CONSISTENT_HASH", virtual_node_count=2), 3)

    assert [[each.queue for each in slot] for slot in slots] == [share for share in shares if share]


@pytest.mark.parametrize("count", [1, 10, 100_000, 100_001])
def test_text_order_of_slots_is_number_order(count: int) -> None:
    """Names sort like their numbers, for any count."""
    names = name_slots(count)

    assert names == sorted(names) and len(set(names)) == count


def test_config_brings_its_slots() -> None:
    """Entry i is slot i in its own order; queues without data are skipped, and `maxPartitions` has no effect."""
    lists = ((queue(2), queue(0)), (queue(9),), (queue(1), queue(3)))

    slots = deal_slots(ranges_of([5, 5, 5, 0]), settings("CONFIG", queue_lists=lists))

    assert numbers(slots) == [[2, 0], [1]]


def test_unlisted_queues_join_the_smallest_slot() -> None:
    """Later queues join, one after the other, the slot with the fewest queues."""
    lists = ((queue(0), queue(1)), (queue(2),))

    slots = deal_slots(ranges_of([5] * 6), settings("CONFIG", queue_lists=lists))

    assert numbers(slots) == [[0, 1, 4], [2, 3, 5]]
    assert unlisted_queues([queue(0), queue(3)], lists) == [queue(3)]


def test_config_without_a_list() -> None:
    """The error names the option that CONFIG needs."""
    with pytest.raises(OptionError, match=r"\[OPTION_MISSING\] messageQueueList"):
        deal_slots(ranges_of([1]), settings("CONFIG"))


def test_machine_room_covers_its_rooms_only() -> None:
    """Queues of other rooms are not planned; every other strategy plans them."""
    queues = [queue(number) for number in range(12)]

    assert covered_queues(queues, settings("MACHINE_ROOM", machine_rooms=("room1",))) == queues[4:8]
    assert covered_queues(queues, AllocationSettings()) == queues


def test_nearby_gives_each_slot_one_room() -> None:
    """Slots stand for the brokers' rooms in turn, so no slot crosses rooms."""
    slots = deal_slots(ranges_of([5] * 12), settings("MACHINE_ROOM_NEARBY"), 5)

    rooms = [{each.queue.broker_name.partition("@")[0] for each in slot} for slot in slots]
    assert rooms == [{"room0"}, {"room1"}, {"room2"}, {"room0"}, {"room1"}]


def test_nearby_with_the_users_rooms() -> None:
    """Slots may stand for some rooms only; queues of the others are shared by all slots."""
    slots = deal_slots(ranges_of([5] * 12), settings("MACHINE_ROOM_NEARBY", machine_rooms=("room1", "room2")), 2)

    assert numbers(slots) == [[4, 5, 6, 7, 0, 1], [8, 9, 10, 11, 2, 3]]


def test_nearby_and_a_broker_without_room() -> None:
    """The error names a broker whose room is unknown."""
    lost = QueueRange(MessageQueue("T", "broker-a", 0), 0, 5)

    with pytest.raises(OptionError, match="brokerRooms: no room for broker broker-a"):
        deal_slots([lost, *ranges_of([5])], settings("MACHINE_ROOM_NEARBY"))
    with pytest.raises(OptionError, match="brokerRooms: no room for broker broker-a"):
        deal_slots([lost], settings("MACHINE_ROOM_NEARBY"))


@pytest.mark.parametrize("name", ["AVG", "AVG_BY_CIRCLE"])
def test_as_many_slots_as_queues_need_no_dealing(name: str) -> None:
    """One queue for each slot is what the strategy deals."""
    ranges = ranges_of([*range(1, 8)])
    allocation = settings(name)
    dealt = build_strategy(allocation).allocate_all([each.queue for each in ranges], name_slots(7))
    assert [[each.queue for each in slot] for slot in deal_slots(ranges, allocation)] == dealt
