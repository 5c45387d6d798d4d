"""Every strategy obeys the same rules for any list of queues and members."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rocketmq.allocation import (
    AVERAGELY,
    AVERAGELY_BY_CIRCLE,
    AllocateStrategy,
    ByConfig,
    ConsistentHash,
    MachineRoom,
    MachineRoomNearby,
    room_in_name,
)
from pyspark_rocketmq.allocation.machine_room import no_match
from pyspark_rocketmq.errors import GroupError
from pyspark_rocketmq.model import MessageQueue
from tests.allocation.fixtures import make_queues

NEARBY = [
    MachineRoomNearby(inner, room_in_name, lambda member: f"room{len(member) % 4}")
    for inner in (AVERAGELY, AVERAGELY_BY_CIRCLE, ConsistentHash(3))
]
COMPLETE: list[AllocateStrategy] = [AVERAGELY, AVERAGELY_BY_CIRCLE, ConsistentHash(), *NEARBY]
PARTIAL: list[AllocateStrategy] = [MachineRoom(frozenset({"room0", "room2"})), ConsistentHash(0), ByConfig(())]

queue_lists = st.builds(make_queues, st.integers(1, 60), st.integers(1, 4))
distinct_members = st.lists(st.text("abc", min_size=1, max_size=4), min_size=1, max_size=12, unique=True)
any_members = st.lists(st.text("abc", min_size=1, max_size=4), min_size=1, max_size=12)


@given(st.sampled_from([*COMPLETE, *PARTIAL]), queue_lists, any_members)
def test_all_at_once_equals_one_by_one(
    strategy: AllocateStrategy, queues: list[MessageQueue], members: list[str]
) -> None:
    """Assigning to all members at once gives each of them what it computes alone, also if it is listed twice."""
    one_by_one = [strategy.allocate(member, queues, members) for member in members]

    assert strategy.allocate_all(queues, members) == one_by_one


@given(st.sampled_from(COMPLETE), queue_lists, distinct_members)
def test_every_queue_goes_to_exactly_one_member(
    strategy: AllocateStrategy, queues: list[MessageQueue], members: list[str]
) -> None:
    """If no member is listed twice, every queue is assigned to exactly one member."""
    dealt = [queue for share in strategy.allocate_all(queues, members) for queue in share]

    assert sorted(dealt) == sorted(queues)


@given(st.sampled_from([AVERAGELY, AVERAGELY_BY_CIRCLE]), queue_lists, distinct_members)
def test_averages_differ_by_one_at_most(
    strategy: AllocateStrategy, queues: list[MessageQueue], members: list[str]
) -> None:
    """With an averaging strategy, the numbers of queues of two members differ by one at most."""
    sizes = [len(share) for share in strategy.allocate_all(queues, members)]

    assert max(sizes) - min(sizes) <= 1
    assert sizes == sorted(sizes, reverse=True)


@given(queue_lists, distinct_members)
def test_only_queues_of_listed_rooms_are_dealt(queues: list[MessageQueue], members: list[str]) -> None:
    """MACHINE_ROOM assigns each queue in the given rooms once, and no other queue."""
    strategy = MachineRoom(frozenset({"room1"}))
    dealt = [queue for share in strategy.allocate_all(queues, members) for queue in share]

    assert sorted(dealt) == sorted(queue for queue in queues if queue.broker_name == "room1@b")
    assert strategy.eligible(queues) == [queue for queue in queues if queue.broker_name == "room1@b"]


@given(queue_lists, distinct_members.filter(lambda members: len(members) > 1))
def test_a_leaving_member_moves_only_its_own_queues(queues: list[MessageQueue], members: list[str]) -> None:
    """With CONSISTENT_HASH, if a member leaves, every queue of another member stays where it is."""
    strategy = ConsistentHash()
    before = dict(zip(members, strategy.allocate_all(queues, members), strict=True))
    stay = members[1:]
    after = dict(zip(stay, strategy.allocate_all(queues, stay), strict=True))

    assert all(set(before[member]) <= set(after[member]) for member in stay)


@pytest.mark.parametrize("strategy", [*COMPLETE, *PARTIAL[:2]], ids=lambda strategy: strategy.name)
def test_dealing_nothing_or_to_nobody_is_refused(strategy: AllocateStrategy) -> None:
    """If there are no queues or no members, an error is raised, for one member and for all at once."""
    with pytest.raises(GroupError, match="no queues"):
        strategy.allocate_all([], ["a"])
    with pytest.raises(GroupError, match="no members"):
        strategy.allocate_all(make_queues(1), [])


@pytest.mark.parametrize("strategy", [*COMPLETE, *PARTIAL[:2]], ids=lambda strategy: strategy.name)
def test_a_member_unknown_to_the_broker_owns_nothing(
    strategy: AllocateStrategy, caplog: pytest.LogCaptureFixture
) -> None:
    """If a client id is not among the members, it gets no queue, and a warning says so."""
    assert strategy.allocate("stranger", make_queues(3), ["a", "b"]) == []
    assert "stranger" in caplog.text


def test_a_member_without_queues_in_its_rooms_is_told_once_which_rooms_there_are(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """If no broker is in the given rooms, a member gets nothing, and one warning for many rounds names the rooms."""
    queues = [MessageQueue("told-once", broker, 0) for broker in ("west@b", "east@a", "c")]

    assert [MachineRoom(frozenset({"north"})).allocate("me", queues, ["me"]) for _ in range(3)] == [[], [], []]
    assert len(caplog.records) == 1
    assert "machineRooms = 'north'" in caplog.text and "are in east, west" in caplog.text


def test_brokers_without_a_room_in_their_names_are_named() -> None:
    """If no broker has a name of the form `room@name`, the error says so; many brokers are cut short."""
    error = no_match({"east"}, [MessageQueue("orders", f"broker-{number:02}", 0) for number in range(12)])

    assert "none of its brokers has a name of the form room@name" in error.what
    assert "broker-00" in error.what and error.what.endswith("and 2 more)") and "brokerName" in error.advice
