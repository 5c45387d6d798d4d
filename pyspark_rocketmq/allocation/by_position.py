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
    """A strategy that depends only on the member's index; for a member listed twice, the first index counts.

    As in RocketMQ, no member then reads the queues of the second index.
    """

    name: str
    assign: QueuesOfPlace

    def allocate(self, current: str, queues: Queues, members: Members) -> list[MessageQueue]:
        """Return the queues of one member."""
        if not check_listed(current, queues, members):
            return []
        return self.assign(queues, members.index(current), len(members))

    def allocate_all(self, queues: Queues, members: Members) -> list[list[MessageQueue]]:
        """Return the queues of each member."""
        require_both(queues, members)
        return assign_all(self.assign, queues, members)


def assign_all(assign: QueuesOfPlace, queues: Queues, members: Members) -> list[list[MessageQueue]]:
    """Return the queues of each member; a member that is listed twice gets the queues of its first index both times."""
    first_place = dict(zip(reversed(members), range(len(members) - 1, -1, -1), strict=True))
    return [assign(queues, first_place[member], len(members)) for member in members]


def _assign_block(queues: Queues, place: int, places: int) -> list[MessageQueue]:
    """Return one member's contiguous block; queues that do not divide equally go to the first members, one each."""
    size, spare = divmod(len(queues), places)
    start = place * size + min(place, spare)
    return list(queues[start : start + size + (place < spare)])


def _assign_circle(queues: Queues, place: int, places: int) -> list[MessageQueue]:
    """Return every n-th queue, starting at the member's index; n is the number of members."""
    return list(queues[place::places])


def assign_trailing(queues: Queues, place: int, places: int) -> list[MessageQueue]:
    """Return one member's contiguous block, of equal size for all; the first members also get one queue of the rest."""
    size, spare = divmod(len(queues), places)
    block = list(queues[place * size : (place + 1) * size])
    return [*block, queues[size * places + place]] if place < spare else block


AVERAGELY = ByPosition("AVG", _assign_block)
AVERAGELY_BY_CIRCLE = ByPosition("AVG_BY_CIRCLE", _assign_circle)
