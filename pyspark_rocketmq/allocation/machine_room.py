"""Assign the queues of a machine room to members that run in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from ..errors import OptionError
from ..model import MessageQueue, java_order
from .by_position import assign_all, assign_trailing
from .strategy import AllocateStrategy, Members, Queues, check_listed, require_both

__all__ = ["MachineRoom", "MachineRoomNearby", "RoomOf"]

_T = TypeVar("_T")

RoomOf = Callable[[str], str | None]
"""A function from a broker name or client id to its room; None if the room is unknown."""


@dataclass(frozen=True, slots=True)
class MachineRoom:
    """RocketMQ's MACHINE_ROOM: only brokers named `room@name` of the given rooms are read."""

    rooms: frozenset[str]
    name: str = "MACHINE_ROOM"

    def eligible(self, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        """Return the queues that are read."""
        return [queue for queue in queues if _room_prefix(queue.broker_name) in self.rooms]

    def allocate(self, current: str, queues: Queues, members: Members) -> list[MessageQueue]:
        """Return the queues of one member, wherever it runs."""
        if not check_listed(current, queues, members):
            return []
        return assign_trailing(self.eligible(queues), members.index(current), len(members))

    def allocate_all(self, queues: Queues, members: Members) -> list[list[MessageQueue]]:
        """Return the queues of each member."""
        require_both(queues, members)
        return assign_all(assign_trailing, self.eligible(queues), members)


def _room_prefix(broker_name: str) -> str | None:
    """Return the room in a broker name of exactly two parts; as in Java, empty parts at the end do not count."""
    parts = broker_name.rstrip("@").split("@")
    return parts[0] if len(parts) == 2 else None


@dataclass(frozen=True, slots=True)
class MachineRoomNearby:
    """RocketMQ's MACHINE_ROOM_NEARBY: a room's queues go to its members, those of rooms without members to all."""

    inner: AllocateStrategy
    room_of_broker: RoomOf
    room_of_member: RoomOf

    @property
    def name(self) -> str:
        """Name of the strategy, with the inner strategy's."""
        return f"MACHINE_ROOM_NEARBY-{self.inner.name}"

    def allocate(self, current: str, queues: Queues, members: Members) -> list[MessageQueue]:
        """Return the queues of one member: of its own room, then of rooms without members, by name."""
        if not check_listed(current, queues, members):
            return []
        rounds = [(local, takers) for local, takers in self._rounds(queues, members) if current in takers]
        return [queue for local, takers in rounds for queue in self.inner.allocate(current, local, takers)]

    def allocate_all(self, queues: Queues, members: Members) -> list[list[MessageQueue]]:
        """Return the queues of each member."""
        require_both(queues, members)
        assigned: dict[str, list[MessageQueue]] = {member: [] for member in members}
        for local, takers in self._rounds(queues, members):
            # A dict, so that a member listed twice is served once.
            for member, own in dict(zip(takers, self.inner.allocate_all(local, takers), strict=True)).items():
                assigned[member].extend(own)
        return [list(assigned[member]) for member in members]

    def _rounds(self, queues: Queues, members: Members) -> list[tuple[list[MessageQueue], Members]]:
        """Return the queues of each room with the members that they are assigned to."""
        queues_in = _group(queues, self._broker_room)
        members_in = _group(members, self._member_room)
        rooms = sorted(queues_in, key=lambda room: (room not in members_in, java_order(room)))
        return [(queues_in[room], members_in.get(room, members)) for room in rooms]

    def _broker_room(self, queue: MessageQueue) -> str:
        room = self.room_of_broker(queue.broker_name)
        if not room:
            raise OptionError("brokerRooms", None, f"no room for broker {queue.broker_name}", advice="add the broker")
        return room

    def _member_room(self, member: str) -> str:
        room = self.room_of_member(member)
        if not room:
            raise OptionError("consumerRooms", None, f"no room for member {member}", advice="add a matching pattern")
        return room


def _group(things: Iterable[_T], room_of: Callable[[_T], str]) -> dict[str, list[_T]]:
    groups: dict[str, list[_T]] = {}
    for thing in things:
        groups.setdefault(room_of(thing), []).append(thing)
    return groups
