"""Assign queues by the machine room of their broker.

MACHINE_ROOM reads only the queues of given rooms; MACHINE_ROOM_NEARBY prefers members in the same room.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from ..errors import OptionError
from ..model import MessageQueue, java_order
from .by_position import assign_all, assign_trailing
from .strategy import AllocateStrategy, Members, Queues, check_listed, require_both

__all__ = ["MachineRoom", "MachineRoomNearby", "RoomOf", "no_match"]

_MOST_NAMES = 10
_log = logging.getLogger(__name__)

_T = TypeVar("_T")

RoomOf = Callable[[str], str | None]
"""A function that returns the room of a broker name or client id; None if the room is unknown."""


@dataclass(frozen=True, slots=True)
class MachineRoom:
    """RocketMQ's MACHINE_ROOM: only queues of brokers named `room@name` in the given rooms are assigned."""

    rooms: frozenset[str]
    name: str = "MACHINE_ROOM"

    def eligible(self, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        """Return the queues whose brokers are in the given rooms."""
        return [queue for queue in queues if _room_prefix(queue.broker_name) in self.rooms]

    def allocate(self, current: str, queues: Queues, members: Members) -> list[MessageQueue]:
        """Return the queues of the member `current`; the room in which this member runs does not matter."""
        if not check_listed(current, queues, members):
            return []
        if not (eligible := self.eligible(queues)):
            _warn_of_no_match(self.rooms, frozenset(queues))
        return assign_trailing(eligible, members.index(current), len(members))

    def allocate_all(self, queues: Queues, members: Members) -> list[list[MessageQueue]]:
        """Return one list of queues for each member, in the order of `members`."""
        require_both(queues, members)
        return assign_all(assign_trailing, self.eligible(queues), members)


def _room_prefix(broker_name: str) -> str | None:
    """Return the room in a broker name `room@name`, else None; as in Java, every `@` at the end is ignored."""
    parts = broker_name.rstrip("@").split("@")
    return parts[0] if len(parts) == 2 else None


def no_match(rooms: Iterable[str], queues: Iterable[MessageQueue]) -> OptionError:
    """Return the error that none of these queues is in the given rooms; it names the rooms of their brokers."""
    brokers = sorted({queue.broker_name for queue in queues}, key=java_order)
    found = sorted({room for name in brokers if (room := _room_prefix(name)) is not None}, key=java_order)
    topics = sorted({queue.topic for queue in queues}, key=java_order)
    if found:
        what, advice = f"its brokers are in {_enumerate(found)}", f"list some of {_enumerate(found)} in machineRooms"
    else:
        what = "none of its brokers has a name of the form room@name"
        advice = "name brokers room@name (brokerName in broker.conf)"
    return OptionError(
        "machineRooms",
        ",".join(sorted(rooms, key=java_order)),
        f"no broker of {_enumerate(topics)} is in these rooms: {what} (brokers: {_enumerate(brokers)})",
        advice=f"{advice}, or set another allocateMessageQueueStrategy; MACHINE_ROOM_NEARBY takes brokerRooms",
    )


def _enumerate(names: list[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


@lru_cache(maxsize=256)  # Called in every round of rebalancing; logs once for each set of queues.
def _warn_of_no_match(rooms: frozenset[str], queues: frozenset[MessageQueue]) -> None:
    _log.warning("no queue is assigned: %s", no_match(rooms, queues))


@dataclass(frozen=True, slots=True)
class MachineRoomNearby:
    """RocketMQ's MACHINE_ROOM_NEARBY: queues go to members in the same room, or to all members if the room has none."""

    inner: AllocateStrategy
    room_of_broker: RoomOf
    room_of_member: RoomOf

    @property
    def name(self) -> str:
        """Name of the strategy, including the inner strategy's name."""
        return f"MACHINE_ROOM_NEARBY-{self.inner.name}"

    def allocate(self, current: str, queues: Queues, members: Members) -> list[MessageQueue]:
        """Return one member's share of the queues in its own room, then its shares of the rooms without members.

        All members share a room without members. Such rooms are sorted by name.
        """
        if not check_listed(current, queues, members):
            return []
        rounds = [(local, takers) for local, takers in self._rounds(queues, members) if current in takers]
        return [queue for local, takers in rounds for queue in self.inner.allocate(current, local, takers)]

    def allocate_all(self, queues: Queues, members: Members) -> list[list[MessageQueue]]:
        """Return one list of queues for each member, in the order of `members`."""
        require_both(queues, members)
        assigned: dict[str, list[MessageQueue]] = {member: [] for member in members}
        for local, takers in self._rounds(queues, members):
            # A dict, so that a member listed twice gets its queues only once.
            for member, own in dict(zip(takers, self.inner.allocate_all(local, takers), strict=True)).items():
                assigned[member].extend(own)
        return [list(assigned[member]) for member in members]

    def _rounds(self, queues: Queues, members: Members) -> list[tuple[list[MessageQueue], Members]]:
        """Return for each room its queues and the members that share them; rooms with members come first.

        The queues of a room without members are shared by all members.
        """
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
