"""Which offsets does a wish mean, on this cluster, now?

The cluster is asked in bulk: every question names all queues it concerns, so that an implementation can send one
burst per broker. A layer of the wish is resolved for the queues that no higher layer answered.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from ..errors import OptionError
from ..model import MessageQueue, QueueRange
from .loss import Bounds, LossWarning, settle_ranges, settle_starts
from .wish import AtTime, Keyword, Target, Wish

__all__ = ["BatchPlan", "Cluster", "Resolved", "resolve_batch", "resolve_wish"]


class Cluster(Protocol):
    """What brokers (or, for committed positions, a local file) are asked. What cannot be answered raises."""

    def fetch_bounds(self, queues: Collection[MessageQueue]) -> Mapping[MessageQueue, Bounds]:
        """Smallest and next offset of each queue."""

    def fetch_offsets_at(self, times_ms: Mapping[MessageQueue, int]) -> Mapping[MessageQueue, int]:
        """Offset of the first message stored at or after each queue's time; the next offset if there is none."""

    def fetch_committed(self, queues: Collection[MessageQueue]) -> Mapping[MessageQueue, int]:
        """The group's position in each queue that has one."""


class Resolved(NamedTuple):
    """An offset for each queue, and the options that higher-ranked ones left without a say in any queue."""

    positions: dict[MessageQueue, int]
    outranked: tuple[str, ...]


def resolve_wish(
    wish: Wish, queues: Collection[MessageQueue], bounds: Mapping[MessageQueue, Bounds], cluster: Cluster
) -> Resolved:
    """Walk down the layers until every queue has an offset; explicit and committed ones may lie outside the bounds."""
    wish.require_known(queues)
    positions: dict[MessageQueue, int] = {}
    outranked = []
    for layer in wish.layers:
        targets = {queue: layer.target(queue) for queue in queues if queue not in positions}
        wanted = {queue: target for queue, target in targets.items() if target is not None}
        positions |= _Asked(wish, layer.option, wanted, bounds, cluster).answers()
        if not wanted:
            outranked.append(layer.option)
    positions |= _fall_back(wish, [queue for queue in queues if queue not in positions], bounds)
    return Resolved({queue: positions[queue] for queue in queues}, tuple(outranked))


def _fall_back(
    wish: Wish, queues: Sequence[MessageQueue], bounds: Mapping[MessageQueue, Bounds]
) -> dict[MessageQueue, int]:
    """For queues that are left out, or that the group never committed."""
    if wish.fallback is None and queues:
        what = f"no offset and no committed position for {queues[0]} ({len(queues)} such queues)"
        advice = f"name the queues, or set {wish.option}Default to earliest or latest"
        raise OptionError(wish.option, None, what, advice=advice)
    from_start = wish.fallback is Keyword.EARLIEST
    return {queue: bounds[queue].min_offset if from_start else bounds[queue].max_offset for queue in queues}


@dataclass(frozen=True, slots=True)
class _Asked:
    """What one layer wants to know, kind of target by kind."""

    wish: Wish
    option: str
    wanted: Mapping[MessageQueue, Target]
    bounds: Mapping[MessageQueue, Bounds]
    cluster: Cluster

    def answers(self) -> dict[MessageQueue, int]:
        exact = {queue: target for queue, target in self.wanted.items() if isinstance(target, int)}
        earliest = {queue: self.bounds[queue].min_offset for queue in self._asking(Keyword.EARLIEST)}
        latest = {queue: self.bounds[queue].max_offset for queue in self._asking(Keyword.LATEST)}
        return exact | earliest | latest | self._committed() | self._at_time()

    def _asking(self, keyword: Keyword) -> list[MessageQueue]:
        return [queue for queue, target in self.wanted.items() if target is keyword]

    def _committed(self) -> dict[MessageQueue, int]:
        queues = self._asking(Keyword.GROUP)
        return dict(self.cluster.fetch_committed(queues)) if queues else {}

    def _at_time(self) -> dict[MessageQueue, int]:
        times = {queue: target.time_ms for queue, target in self.wanted.items() if isinstance(target, AtTime)}
        found = self.cluster.fetch_offsets_at(times) if times else {}
        return {queue: self._place_in_time(queue, found[queue], time_ms) for queue, time_ms in times.items()}

    def _place_in_time(self, queue: MessageQueue, found: int, time_ms: int) -> int:
        """Brokers answer "nothing that young" with the next offset, which an empty queue shares with its first."""
        smallest, following, _ = self.bounds[queue]
        if max(found, smallest) < following:
            return max(found, smallest)
        if self.wish.if_too_young is Keyword.LATEST:
            return following
        what = f"no message of {queue} is stored at or after {time_ms} ms"
        advice = f"set {self.wish.option}ByTimestampStrategy=latest, or give an earlier time"
        raise OptionError(self.option, None, what, advice=advice)


@dataclass(frozen=True, slots=True)
class _AskedBefore:
    """A cluster of which the group's positions are known."""

    cluster: Cluster
    committed: Mapping[MessageQueue, int]

    def fetch_bounds(self, queues: Collection[MessageQueue]) -> Mapping[MessageQueue, Bounds]:
        return self.cluster.fetch_bounds(queues)

    def fetch_offsets_at(self, times_ms: Mapping[MessageQueue, int]) -> Mapping[MessageQueue, int]:
        return self.cluster.fetch_offsets_at(times_ms)

    def fetch_committed(self, queues: Collection[MessageQueue]) -> Mapping[MessageQueue, int]:
        return {queue: self.committed[queue] for queue in queues if queue in self.committed}


class BatchPlan(NamedTuple):
    """What a batch read covers."""

    ranges: list[QueueRange]
    warnings: list[LossWarning]
    outranked: tuple[str, ...]


def resolve_batch(
    start: Wish, end: Wish, queues: Collection[MessageQueue], cluster: Cluster, *, fail_on_data_loss: bool
) -> BatchPlan:
    """The ranges between two wishes, both seen against the same bounds.

    These are asked for last: a live group may have read what came since, and stand beyond older ones.
    """
    asking = [queue for queue in queues if _asks_group(start, queue) or _asks_group(end, queue)]
    committed = cluster.fetch_committed(asking) if asking else {}
    bounds = cluster.fetch_bounds(queues)
    asked = _AskedBefore(cluster, committed)
    wished = resolve_wish(start, queues, bounds, asked)
    ends = resolve_wish(end, queues, bounds, asked)
    starts, moved = settle_starts(wished.positions, bounds, fail_on_data_loss=fail_on_data_loss)
    ranges = [_range_between(queue, starts[queue], ends.positions[queue], wished.positions[queue]) for queue in queues]
    kept, cut = settle_ranges(ranges, bounds, fail_on_data_loss=fail_on_data_loss)
    return BatchPlan(kept, moved + cut, wished.outranked + ends.outranked)


def _asks_group(wish: Wish, queue: MessageQueue) -> bool:
    return any(layer.target(queue) is Keyword.GROUP for layer in wish.layers)


def _range_between(queue: MessageQueue, start: int, end: int, wished_start: int) -> QueueRange:
    """A start that a loss moved beyond the end leaves nothing to read; one that the user put there is refused."""
    if end < start and start == wished_start:
        raise OptionError(
            "endingOffsets", None, f"the end {end} of {queue} lies below its start {start}", advice="raise it"
        )
    return QueueRange(queue, start, max(start, end))
