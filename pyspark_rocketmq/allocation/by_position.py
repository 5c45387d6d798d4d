"""Assign queues by a member's index in the sorted list of members."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..model import MessageQueue
from .strategy import Members, Queues, check_listed, require_both

__all__ = ["AVERAGELY", "AVERAGELY_BY_CIRCLE", "ByPosition", "QueuesOfPlace", "assign_all", "assign_trailing"]

QueuesOfPlace = Callable[[Queues, int, int], list[MessageQueue]]
"""A function that takes all queues, a member's index and the number of members, and returns this member's queues."""


@dataclass(frozen=True, slots=True)
class ByPosition:
    """A strategy that chooses the queues of a member by the member's index in the list of members.

    For a member listed twice, only the first index counts. As in RocketMQ, nobody then reads the queues of the second.
    """

    name: str
    assign: QueuesOfPlace

    def allocate(self, current: str, queues: Queues, members: Members) -> list[MessageQueue]:
        """Return the queues of the member `current`; none if `members` lacks it."""
        if not check_listed(current, queues, members):
            return []
        return self.assign(queues, members.index(current), len(members))

    def allocate_all(self, queues: Queues, members: Members) -> list[list[MessageQueue]]:
        """Return one list of queues for each member, in the order of `members`."""
        require_both(queues, members)
        return assign_all(self.assign, queues, members)


def assign_all(assign: QueuesOfPlace, queues: Queues, members: Members) -> list[list[MessageQueue]]:
    """Return one list of queues for each member; a member listed twice gets the list of its first index both times."""
    first_place = dict(zip(reversed(members), range(len(members) - 1, -1, -1), strict=True))
    return [assign(queues, first_place[member], len(members)) for member in members]


def _assign_block(queues: Queues, place: int, places: int) -> list[MessageQueue]:
    """Return consecutive queues for the member at index `place` of `places` members.

    If the queues do not divide equally, each of the first members gets one more.
    """
    size, spare = divmod(len(queues), places)
    start = place * size + min(place, spare)
    return list(queues[start : start + size + (place < spare)])


def _assign_circle(queues: Queues, place: int, places: int) -> list[MessageQueue]:
    """Return every n-th queue, starting at the member's index `place`; n is `places`, the number of members."""
    return list(queues[place::places])


def assign_trailing(queues: Queues, place: int, places: int) -> list[MessageQueue]:
    """Return consecutive queues for the member at index `place`, equally many for each of `places` members.

    The queues left over at the end go to the first members, one each.
    """
    size, spare = divmod(len(queues), places)
    block = list(queues[place * size : (place + 1) * size])
    return [*block, queues[size * places + place]] if place < spare else block


AVERAGELY = ByPosition("AVG", _assign_block)
AVERAGELY_BY_CIRCLE = ByPosition("AVG_BY_CIRCLE", _assign_circle)
