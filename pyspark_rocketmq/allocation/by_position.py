"""Which share falls to place i of c, when only a member's place in the list counts?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..model import MessageQueue
from .strategy import Members, Queues, is_listed, require_both

__all__ = ["AVERAGELY", "AVERAGELY_BY_CIRCLE", "ByPosition", "Share", "share_all", "trailing_share"]

Share = Callable[[Queues, int, int], list[MessageQueue]]
"""Queues, place, number of places: the queues of that place. Costs no more than what it returns."""


@dataclass(frozen=True, slots=True)
class ByPosition:
    """A strategy made of a share. Nobody reads the second place of a member listed twice, as in RocketMQ."""

    name: str
    share: Share

    def allocate(self, current: str, queues: Queues, members: Members) -> list[MessageQueue]:
        """The share of one member."""
        if not is_listed(current, queues, members):
            return []
        return self.share(queues, members.index(current), len(members))

    def allocate_all(self, queues: Queues, members: Members) -> list[list[MessageQueue]]:
        """The share of each member."""
        require_both(queues, members)
        return share_all(self.share, queues, members)


def share_all(share: Share, queues: Queues, members: Members) -> list[list[MessageQueue]]:
    """Every member's share; one listed again gets what its first place gives."""
    first_place = dict(zip(reversed(members), range(len(members) - 1, -1, -1), strict=True))
    return [share(queues, first_place[member], len(members)) for member in members]


def _block_share(queues: Queues, place: int, places: int) -> list[MessageQueue]:
    """A contiguous block; the first places take one more until the remainder is used up."""
    size, spare = divmod(len(queues), places)
    start = place * size + min(place, spare)
    return list(queues[start : start + size + (place < spare)])


def _circle_share(queues: Queues, place: int, places: int) -> list[MessageQueue]:
    """Every c-th queue, as cards are dealt."""
    return list(queues[place::places])


def trailing_share(queues: Queues, place: int, places: int) -> list[MessageQueue]:
    """A contiguous block of equal size for all; the remainder is dealt singly from the end of the list."""
    size, spare = divmod(len(queues), places)
    block = list(queues[place * size : (place + 1) * size])
    return [*block, queues[size * places + place]] if place < spare else block


AVERAGELY = ByPosition("AVG", _block_share)
AVERAGELY_BY_CIRCLE = ByPosition("AVG_BY_CIRCLE", _circle_share)
