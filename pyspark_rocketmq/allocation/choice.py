"""Build the allocation strategy that the settings name, with the settings that it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ..errors import OptionError
from ..model import MessageQueue
from .by_config import ByConfig
from .by_position import AVERAGELY, AVERAGELY_BY_CIRCLE
from .consistent_hash import ConsistentHash
from .machine_room import MachineRoom, MachineRoomNearby, RoomOf
from .strategy import AllocateStrategy

__all__ = ["AllocationSettings", "StrategyName", "build_strategy", "room_in_name"]


class StrategyName(NamedTuple):
    """The name of a strategy; `inner` names the strategy that MACHINE_ROOM_NEARBY uses inside a room."""

    outer: str
    inner: str = ""

    def __str__(self) -> str:
        return f"{self.outer}-{self.inner}" if self.inner else self.outer


_DEFAULT = StrategyName("AVG")


@dataclass(frozen=True, slots=True)
class AllocationSettings:
    """The name of the strategy, and the settings of all strategies."""

    strategy: StrategyName = _DEFAULT
    virtual_node_count: int = 10
    queue_lists: tuple[tuple[MessageQueue, ...], ...] = ()
    """For CONFIG: the queues of each slot; a group member has only one list."""
    machine_rooms: tuple[str, ...] = ()
    """MACHINE_ROOM: the rooms whose queues are read. MACHINE_ROOM_NEARBY in Spark: the rooms of the slots."""
    broker_rooms: Mapping[str, str] = field(default_factory=dict)

    def room_of_broker(self, broker_name: str) -> str | None:
        """Return the machine room of a broker: the configured one, else the one in the broker's name, else None."""
        return self.broker_rooms.get(broker_name) or room_in_name(broker_name)


def room_in_name(broker_name: str) -> str | None:
    """Return the room in a broker name of the form `room@name`; None for any other name."""
    return broker_name.partition("@")[0] if broker_name.count("@") == 1 else None


def build_strategy(settings: AllocationSettings, room_of_member: RoomOf | None = None) -> AllocateStrategy:
    """Return the strategy that the settings name; only MACHINE_ROOM_NEARBY uses `room_of_member`."""
    return _BUILDERS[settings.strategy.outer](settings, room_of_member)


def _build_config(settings: AllocationSettings, _: RoomOf | None) -> AllocateStrategy:
    if not settings.queue_lists:
        raise _missing("messageQueueList", settings, "list the queues")
    return ByConfig(settings.queue_lists[0])


def _build_machine_room(settings: AllocationSettings, _: RoomOf | None) -> AllocateStrategy:
    if not settings.machine_rooms:
        raise _missing("machineRooms", settings, "list the rooms to read")
    return MachineRoom(frozenset(settings.machine_rooms))


def _build_nearby(settings: AllocationSettings, room_of_member: RoomOf | None) -> AllocateStrategy:
    if room_of_member is None:
        raise _missing("consumerRooms", settings, "say in which room each member runs")
    inner = _BUILDERS[settings.strategy.inner](settings, None)
    return MachineRoomNearby(inner, settings.room_of_broker, room_of_member)


def _missing(option: str, settings: AllocationSettings, advice: str) -> OptionError:
    return OptionError(option, None, f"required by strategy {settings.strategy}", advice=advice, code="OPTION_MISSING")


_BUILDERS: Mapping[str, Callable[[AllocationSettings, RoomOf | None], AllocateStrategy]] = {
    "AVG": lambda settings, _: AVERAGELY,
    "AVG_BY_CIRCLE": lambda settings, _: AVERAGELY_BY_CIRCLE,
    "CONSISTENT_HASH": lambda settings, _: ConsistentHash(settings.virtual_node_count),
    "CONFIG": _build_config,
    "MACHINE_ROOM": _build_machine_room,
    "MACHINE_ROOM_NEARBY": _build_nearby,
}
