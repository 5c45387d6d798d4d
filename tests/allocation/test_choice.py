"""The settings choose the allocation strategy."""

from __future__ import annotations

import pytest

from pyspark_rocketmq.allocation import (
    AVERAGELY,
    AllocationSettings,
    ByConfig,
    ConsistentHash,
    MachineRoom,
    build_strategy,
    room_in_name,
)
from pyspark_rocketmq.allocation.strategy_names import parse_strategy
from pyspark_rocketmq.errors import OptionError
from tests.allocation.fixtures import make_queues


def test_settings_reach_the_strategy() -> None:
    """Each strategy uses its own settings and ignores those of the others."""
    queues = tuple(make_queues(2))
    settings = {
        name: AllocationSettings(parse_strategy(name), 7, (queues,), ("room1",))
        for name in ("AVG", "CONSISTENT_HASH", "CONFIG", "MACHINE_ROOM")
    }

    built = [build_strategy(each) for each in settings.values()]

    assert built == [AVERAGELY, ConsistentHash(7), ByConfig(queues), MachineRoom(frozenset({"room1"}))]


def test_nearby_knows_rooms_by_setting_and_by_name() -> None:
    """If a broker's room is configured, it outranks the room in the broker's name."""
    settings = AllocationSettings(parse_strategy("MACHINE_ROOM_NEARBY"), broker_rooms={"room1@b": "room0"})
    strategy = build_strategy(settings, room_of_member=lambda member: member)
    queues = make_queues(4, brokers=2)

    assert strategy.name == "MACHINE_ROOM_NEARBY-AVG"
    assert strategy.allocate("room0", queues, ["room0", "room1"]) == queues


@pytest.mark.parametrize(
    ("name", "option"),
    [("CONFIG", "messageQueueList"), ("MACHINE_ROOM", "machineRooms"), ("MACHINE_ROOM_NEARBY", "consumerRooms")],
)
def test_missing_settings_are_named(name: str, option: str) -> None:
    """If a setting of a strategy is missing, the error names the option that gives it."""
    with pytest.raises(OptionError, match=rf"\[OPTION_MISSING\] {option}: required by strategy {name}"):
        build_strategy(AllocationSettings(parse_strategy(name)))


@pytest.mark.parametrize(("name", "room"), [("r@b", "r"), ("b", None), ("r@b@c", None), ("@b", "")])
def test_room_in_name(name: str, room: str | None) -> None:
    """A broker's name holds its room if it contains exactly one at-sign."""
    assert room_in_name(name) == room
