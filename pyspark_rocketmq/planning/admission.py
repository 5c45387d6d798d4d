"""Decide how far each queue is read in this batch.

Caps count offsets, gaps included. `max_per_queue` is applied first. The remaining backlogs then share `max_per_trigger`
in proportion, but a queue with data always gets one offset, so that none starves; only this can exceed the cap. A
floor, `min_per_trigger`, holds a batch back until the backlog is large enough or `max_delay_s` has passed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ..model import MessageQueue
from ..offsets.position import Positions

__all__ = ["Admission", "Limits", "admit", "clip_to_target", "share_cap"]


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one trigger, which reads everything if none is set."""

    max_per_trigger: int | None = None
    max_per_queue: int | None = None
    min_per_trigger: int | None = None
    max_delay_s: float = 900.0

    def without_floor(self) -> Limits:
        """Return the limits for availableNow, which never waits for more data."""
        return replace(self, min_per_trigger=None)


class Admission(NamedTuple):
    """The end of each queue's range, and whether the floor held the batch back."""

    ends: dict[MessageQueue, int]
    held_back: bool


def clip_to_target(latest: Positions, target: Positions) -> dict[MessageQueue, int]:
    """Return the ends for availableNow: never beyond the target of its start, and without later queues."""
    return {queue: min(end, target[queue]) for queue, end in latest.items() if queue in target}


def admit(starts: Positions, latest: Positions, limits: Limits, *, waited_s: float = 0.0) -> Admission:
    """Return ends for all queues of `starts`. Without a latest offset above its start, a queue's end is its start.

    `waited_s` is the time since data was last admitted, or since the query began.
    """
    backlogs = {queue: max(0, latest.get(queue, start) - start) for queue, start in starts.items()}
    if _is_held_back(sum(backlogs.values()), limits, waited_s):
        return Admission(dict(starts), True)
    shares = backlogs
    if limits.max_per_queue is not None:
        shares = {queue: min(backlog, limits.max_per_queue) for queue, backlog in backlogs.items()}
    if limits.max_per_trigger is not None:
        shares = share_cap(shares, limits.max_per_trigger)
    return Admission({queue: start + shares[queue] for queue, start in starts.items()}, False)


def _is_held_back(backlog: int, limits: Limits, waited_s: float) -> bool:
    """Return whether the floor holds the batch back. It compares the backlog before caps, which may lie below it."""
    return limits.min_per_trigger is not None and backlog < limits.min_per_trigger and waited_s < limits.max_delay_s


def share_cap(backlogs: Mapping[MessageQueue, int], cap: int) -> dict[MessageQueue, int]:
    """Divide `cap` in proportion to backlogs. The sum is `cap`, or one for each queue with data if that is more."""
    if sum(backlogs.values()) <= cap:
        return dict(backlogs)
    queues = sorted(backlogs)
    return dict(zip(queues, _share([backlogs[queue] for queue in queues], cap), strict=True))


def _share(backlogs: Sequence[int], cap: int) -> list[int]:
    """Return the share of each place.

    Places are visited by growing backlog. While a place's proportion of the rest is below one, it gets one, and cap and
    total shrink by its share and its backlog. From the first place whose proportion reaches one, all larger ones reach
    it, too, and share the rest by largest remainder.
    """
    left, total = cap, sum(backlogs)
    shares = [0] * len(backlogs)
    growing = sorted((place for place, backlog in enumerate(backlogs) if backlog), key=backlogs.__getitem__)
    taken = 0
    for place in growing:
        if left * backlogs[place] >= total:
            break
        shares[place] = 1
        left -= 1
        total -= backlogs[place]
        taken += 1
    for place, share in _apportion(backlogs, sorted(growing[taken:]), left):
        shares[place] = share
    return shares


def _apportion(weights: Sequence[int], places: Sequence[int], seats: int) -> Iterator[tuple[int, int]]:
    """Yield shares by largest remainder; of equal remainders the larger weight, then the first place, is served."""
    total = sum(weights[place] for place in places)
    quotas = [divmod(seats * weights[place], total) for place in places]
    spare = seats - sum(share for share, _ in quotas)
    order = sorted(range(len(places)), key=lambda number: (quotas[number][1], weights[places[number]]), reverse=True)
    served = set(order[:spare])
    for number, (place, (share, _)) in enumerate(zip(places, quotas, strict=True)):
        yield place, share + (number in served)
