"""Decide the offset at which each queue's range ends in this batch.

A backlog is the number of offsets from a queue's start to its end, gaps included. First each backlog is limited to
`max_per_queue`. Then the backlogs share `max_per_trigger` in proportion. A queue with data always gets at least one
offset, so that none starves; a batch exceeds `max_per_trigger` only for this reason. The floor, `min_per_trigger`,
delays a batch until the backlog is large enough or `max_delay_s` has passed.
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
    """The limits of one batch, in offsets, and its longest delay; without any limit a batch reads everything."""

    max_per_trigger: int | None = None
    max_per_queue: int | None = None
    min_per_trigger: int | None = None
    max_delay_s: float = 900.0

    def without_floor(self) -> Limits:
        """Return these limits without `min_per_trigger`, because a run of availableNow never waits for more data."""
        return replace(self, min_per_trigger=None)


class Admission(NamedTuple):
    """The end of each queue's range, and whether the batch waits because its backlog is below `min_per_trigger`."""

    ends: dict[MessageQueue, int]
    held_back: bool


def clip_to_target(latest: Positions, target: Positions) -> dict[MessageQueue, int]:
    """Return the end of each queue for a batch with Spark's trigger availableNow: `latest`, but at most `target`.

    Queues that are not in `target` are left out.
    """
    return {queue: min(end, target[queue]) for queue, end in latest.items() if queue in target}


def admit(starts: Positions, latest: Positions, limits: Limits, *, waited_s: float = 0.0) -> Admission:
    """Return where the batch ends in each queue of `starts`, and whether it must wait; then all ends are the starts.

    `latest` has the current ends of the queues; a queue without new data ends at its start. `waited_s` is the time
    since data was last admitted, or since the query began.
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
    """Return whether the batch must wait: the backlog is below `min_per_trigger`, and `max_delay_s` has not passed.

    `backlog` counts all new offsets, even those beyond `max_per_queue` and `max_per_trigger`: limited by these it could
    stay below `min_per_trigger` for ever.
    """
    return limits.min_per_trigger is not None and backlog < limits.min_per_trigger and waited_s < limits.max_delay_s


def share_cap(backlogs: Mapping[MessageQueue, int], cap: int) -> dict[MessageQueue, int]:
    """Return each queue's share of `cap` offsets, in proportion to its backlog, but at least one if it has data.

    The sum of the shares is `cap`, or the number of queues with data if that is more; if `cap` covers all backlogs,
    each share is the whole backlog.
    """
    if sum(backlogs.values()) <= cap:
        return dict(backlogs)
    queues = sorted(backlogs)
    return dict(zip(queues, _divide_cap([backlogs[queue] for queue in queues], cap), strict=True))


def _divide_cap(backlogs: Sequence[int], cap: int) -> list[int]:
    """Return the share of `cap` offsets that each backlog gets, in the order of `backlogs`.

    Shares are proportional, but each backlog above 0 gets at least one offset. So the smallest backlogs come first:
    while the proportional share of the next one is below one offset, it gets one offset, which is taken off the cap, as
    the backlog is off the total. The larger backlogs divide the rest of the cap in proportion (`_apportion`).
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
    """Divide `seats` in proportion to the weights at the indexes in `places`; yield (index, share) for each of them.

    Shares are whole numbers, by the method of largest remainders: each is rounded down, and the seats that are left go
    to the largest remainders. Among equal remainders the larger weight comes first, then the earlier index.
    """
    total = sum(weights[place] for place in places)
    quotas = [divmod(seats * weights[place], total) for place in places]
    spare = seats - sum(share for share, _ in quotas)
    order = sorted(range(len(places)), key=lambda number: (quotas[number][1], weights[places[number]]), reverse=True)
    served = set(order[:spare])
    for number, (place, (share, _)) in enumerate(zip(places, quotas, strict=True)):
        yield place, share + (number in served)
