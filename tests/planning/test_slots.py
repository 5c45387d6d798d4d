"""Allocation strategies assign queues to slots."""

from __future__ import annotations

import pytest

from pyspark_rocketmq.allocation import AllocationSettings, ConsistentHash, build_strategy
from pyspark_rocketmq.allocation.strategy_names import parse_strategy
from pyspark_rocketmq.errors import OptionError
from pyspark_rocketmq.model import MessageQueue, QueueRange
from pyspark_rocketmq.planning.ranges import assign_slots, covered_queues, name_slots, unlisted_queues
from tests.planning.fixtures import queue, ranges_of


def settings(strategy: str, **others: object) -> AllocationSettings:
    """Return allocation settings with this strategy."""
    return AllocationSettings(parse_strategy(strategy), **others)  # type: ignore[arg-type]  # each test gives its own


def numbers(slots: list[list[QueueRange]]) -> list[list[int]]:
    """Return the queue numbers of each slot, as given to the fixture `queue`."""
    order = {queue(number): number for number in range(100)}
    return [[order[each.queue] for each in slot] for slot in slots]


def test_one_slot_per_queue_with_data() -> None:
    """Without `maxPartitions` each queue with data gets a slot of its own, and an empty range gets none."""
    assert numbers(assign_slots(ranges_of([5, 0, 7, 1]), AllocationSettings())) == [[0], [2], [3]]
    assert assign_slots(ranges_of([0]), AllocationSettings()) == []


@pytest.mark.parametrize(
    ("strategy", "dealt"), [("AVG", [[0, 1, 2], [3, 4], [5, 6]]), ("AVG_BY_CIRCLE", [[0, 3, 6], [1, 4], [2, 5]])]
)
def test_queues_share_slots(strategy: str, dealt: list[list[int]]) -> None:
    """With `maxPartitions` = 3, RocketMQ's strategy assigns all queues to three slots, for any order of the ranges."""
    ranges = ranges_of([5] * 7)

    assert numbers(assign_slots(reversed(ranges), settings(strategy), 3)) == dealt


def test_consistent_hash_uses_the_slot_names() -> None:
    """CONSISTENT_HASH assigns queues by the slots' names and the number of virtual nodes; empty slots are dropped."""
    ranges = ranges_of([5] * 10)
    shares = ConsistentHash(2).allocate_all([each.queue for each in ranges], ["slot-00000", "slot-00001", "slot-00002"])

    slots = assign_slots(ranges, settings("CONSISTENT_HASH", virtual_node_count=2), 3)

    assert [[each.queue for each in slot] for slot in slots] == [share for share in shares if share]


@pytest.mark.parametrize("count", [1, 10, 100_000, 100_001])
def test_text_order_of_slots_is_number_order(count: int) -> None:
    """The names of slots are unique and sort like their numbers, for any number of slots."""
    names = name_slots(count)

    assert names == sorted(names) and len(set(names)) == count


@pytest.mark.parametrize(
    ("count", "first", "last"),
    [(1, "slot-00000", "slot-00000"), (100_000, "slot-00000", "slot-99999"), (100_001, "slot-000000", "slot-100000")],
)
def test_slots_have_five_digits_or_as_many_as_they_need(count: int, first: str, last: str) -> None:
    """The names of slots stay the same from release to release, because CONSISTENT_HASH assigns queues by them."""
    names = name_slots(count)

    assert (names[0], names[-1]) == (first, last)


def test_config_brings_its_slots() -> None:
    """With CONFIG each entry becomes a slot with its queues in the listed order, except queues without data."""
    lists = ((queue(2), queue(0)), (queue(9),), (queue(1), queue(3)))

    slots = assign_slots(ranges_of([5, 5, 5, 0]), settings("CONFIG", queue_lists=lists))

    assert numbers(slots) == [[2, 0], [1]]


def test_unlisted_queues_join_the_smallest_slot() -> None:
    """Each queue that CONFIG does not list is added to the slot that has the fewest queues then."""
    lists = ((queue(0), queue(1)), (queue(2),))

    slots = assign_slots(ranges_of([5] * 6), settings("CONFIG", queue_lists=lists))

    assert numbers(slots) == [[0, 1, 4], [2, 3, 5]]
    assert unlisted_queues([queue(0), queue(3)], lists) == [queue(3)]


def test_a_slot_counts_each_queue_that_joins_it() -> None:
    """A slot with two queues fewer than another gets two unlisted queues before the other gets one."""
    lists = ((queue(0), queue(1), queue(2)), (queue(3),))

    slots = assign_slots(ranges_of([5] * 7), settings("CONFIG", queue_lists=lists))

    assert numbers(slots) == [[0, 1, 2, 6], [3, 4, 5]]


def test_config_without_a_list() -> None:
    """If CONFIG is chosen without `messageQueueList`, the error names this option."""
    with pytest.raises(OptionError, match=r"\[OPTION_MISSING\] messageQueueList"):
        assign_slots(ranges_of([1]), settings("CONFIG"))


def test_machine_room_covers_its_rooms_only() -> None:
    """With MACHINE_ROOM only queues in the listed rooms are read; with another strategy all queues are."""
    queues = [queue(number) for number in range(12)]

    assert covered_queues(queues, settings("MACHINE_ROOM", machine_rooms=("room1",))) == queues[4:8]
    assert covered_queues(queues, AllocationSettings()) == queues


def test_nearby_gives_each_slot_one_room() -> None:
    """With MACHINE_ROOM_NEARBY slots get the brokers' rooms in turn, and each slot has queues of one room only."""
    slots = assign_slots(ranges_of([5] * 12), settings("MACHINE_ROOM_NEARBY"), 5)

    rooms = [{each.queue.broker_name.partition("@")[0] for each in slot} for slot in slots]
    assert rooms == [{"room0"}, {"room1"}, {"room2"}, {"room0"}, {"room1"}]


def test_nearby_with_the_users_rooms() -> None:
    """If rooms are listed for MACHINE_ROOM_NEARBY, slots get these rooms and share the queues of other rooms."""
    slots = assign_slots(ranges_of([5] * 12), settings("MACHINE_ROOM_NEARBY", machine_rooms=("room1", "room2")), 2)

    assert numbers(slots) == [[4, 5, 6, 7, 0, 1], [8, 9, 10, 11, 2, 3]]


def test_nearby_and_a_broker_without_room() -> None:
    """If MACHINE_ROOM_NEARBY does not know a broker's room, the error names the broker."""
    lost = QueueRange(MessageQueue("T", "broker-a", 0), 0, 5)

    with pytest.raises(OptionError, match="brokerRooms: no room for broker broker-a"):
        assign_slots([lost, *ranges_of([5])], settings("MACHINE_ROOM_NEARBY"))
    with pytest.raises(OptionError, match="brokerRooms: no room for broker broker-a"):
        assign_slots([lost], settings("MACHINE_ROOM_NEARBY"))


@pytest.mark.parametrize("name", ["AVG", "AVG_BY_CIRCLE"])
def test_as_many_slots_as_queues_need_no_dealing(name: str) -> None:
    """If there are as many slots as queues, each slot gets one queue, just as the strategy assigns them."""
    ranges = ranges_of([*range(1, 8)])
    allocation = settings(name)
    dealt = build_strategy(allocation).allocate_all([each.queue for each in ranges], name_slots(7))
    assert [[each.queue for each in slot] for slot in assign_slots(ranges, allocation)] == dealt
