"""Resolve requested offsets to an offset for each queue.

Each option is a *layer* (see `requested`). Layers are resolved by rank, each only for the queues that no higher layer
resolved. Each request to the `OffsetSource` names all queues that it concerns, so that an implementation can send one
burst per broker.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, Protocol

from ..errors import NoBrokerAvailable, OptionError
from ..model import MessageQueue, QueueBounds, QueueRange
from .loss import LossWarning, settle_ranges, settle_starts
from .position import Positions
from .requested import AtTime, Keyword, RequestedOffsets, Target

__all__ = [
    "BatchPlan",
    "OffsetSource",
    "Resolved",
    "opened_if_late",
    "resolve_batch",
    "resolve_offsets",
]


QueueBoundsMap = Mapping[MessageQueue, QueueBounds]


class OffsetSource(Protocol):
    """A source of offsets: brokers, or a local file for committed positions; methods raise on failure.

    Only `fetch_first_readable` may return the minimum offsets instead.
    """

    def fetch_bounds(self, queues: Collection[MessageQueue]) -> QueueBoundsMap:
        """Return the bounds of each queue."""

    def fetch_offsets_at(self, times_ms: Mapping[MessageQueue, int]) -> Mapping[MessageQueue, int]:
        """Return, for each queue, the offset of the first message stored at or after its time; without one, the end."""

    def fetch_committed(self, queues: Collection[MessageQueue]) -> Mapping[MessageQueue, int]:
        """Return the group's position in each queue in which it has one."""

    def fetch_first_readable(self, bounds: QueueBoundsMap) -> Mapping[MessageQueue, int]:
        """Return the offset of the first readable message within each queue's bounds; the end if there is none."""


class Resolved(NamedTuple):
    """An offset for each queue, and the options without effect: for every queue, other options outranked them."""

    positions: dict[MessageQueue, int]
    outranked: tuple[str, ...]
    opened: Positions = MappingProxyType({})
    """The offsets of queues that start at their first readable message and are not empty."""


def resolve_offsets(
    requested: RequestedOffsets,
    queues: Collection[MessageQueue],
    bounds: QueueBoundsMap,
    source: OffsetSource,
) -> Resolved:
    """Return an offset for each queue: from the highest-ranked option that names one, else from the fallback.

    An offset may lie outside `bounds`. "Earliest" is the first message that can be read: a broker's minimum may still
    name deleted messages. Raise `OptionError` for an unknown queue in the request, or a queue that nothing resolves.
    """
    requested.require_known(queues)
    positions: dict[MessageQueue, _Offset] = {}
    outranked = []
    for layer in requested.layers:
        targets = {queue: requested.target(layer, queue) for queue in queues if queue not in positions}
        wanted = {queue: target for queue, target in targets.items() if target is not None}
        positions |= _LayerRequest(requested, layer.option, wanted, bounds, source).resolve()
        if not wanted:
            outranked.append(layer.option)
    positions |= _fall_back(requested, [queue for queue in queues if queue not in positions], bounds, source)
    opened = _open(positions, bounds, source)
    settled = {queue: at if isinstance(at, int) else bounds[queue].min_offset for queue, at in positions.items()}
    return Resolved({queue: opened.get(queue, settled[queue]) for queue in queues}, tuple(outranked), opened)


def opened_if_late(bounds: QueueBoundsMap) -> dict[MessageQueue, int]:
    """Return the minimum offset of each new queue in `bounds` whose first messages are deleted already.

    If more of these queues' messages are deleted before they are read, that is no loss. A queue whose minimum is 0 is
    left out: every message of it must be read.
    """
    return {queue: each.min_offset for queue, each in bounds.items() if each.min_offset > 0}


_Offset = int | Keyword
"""An offset, or EARLIEST for the first message that can be read."""


def _open(
    positions: Mapping[MessageQueue, _Offset], bounds: QueueBoundsMap, source: OffsetSource
) -> dict[MessageQueue, int]:
    """Return the first readable offset of each non-empty queue that starts at EARLIEST.

    Raise `NoBrokerAvailable` if only a replica reports the minimum of a queue and its master may hold earlier messages.
    """
    at_first = {queue: bounds[queue] for queue, at in positions.items() if at is Keyword.EARLIEST}
    for queue, each in at_first.items():
        if each.has_unknown_front:
            raise NoBrokerAvailable(
                f"the queue's first message is not known: a replica begins at {each.min_offset}, and its master, which "
                "may hold earlier messages, is away",
                advice="bring the master back, or start at an offset",
                topic=queue.topic,
                broker=queue.broker_name,
                queue_id=queue.queue_id,
            )
    holding = {queue: each for queue, each in at_first.items() if each.min_offset < each.max_offset}
    return dict(source.fetch_first_readable(holding)) if holding else {}


def _fall_back(
    requested: RequestedOffsets,
    queues: Sequence[MessageQueue],
    bounds: QueueBoundsMap,
    source: OffsetSource,
) -> dict[MessageQueue, _Offset]:
    """Return offsets for queues that no option resolved; raise `OptionError` if the request has no fallback.

    A queue of the retry topic starts at the group's position, or at its first message.
    """
    retries = [queue for queue in queues if queue.topic == requested.retry_topic]
    committed: Mapping[MessageQueue, int] = source.fetch_committed(retries) if retries else {}
    positions = {queue: committed.get(queue, Keyword.EARLIEST) for queue in retries}
    left = [queue for queue in queues if queue not in positions]
    if requested.fallback is None and left:
        what = f"no offset and no committed position for {left[0]} ({len(left)} such queues)"
        advice = f"name the queues, or set {requested.option}Default to earliest or latest"
        raise OptionError(requested.option, None, what, advice=advice)
    if requested.fallback is Keyword.EARLIEST:
        return {**positions, **dict.fromkeys(left, Keyword.EARLIEST)}
    return {**positions, **{queue: bounds[queue].max_offset for queue in left}}


@dataclass(frozen=True, slots=True)
class _LayerRequest:
    """The targets that one option requests, for the queues that no higher-ranked option resolved."""

    requested: RequestedOffsets
    option: str
    wanted: Mapping[MessageQueue, Target]
    bounds: QueueBoundsMap
    source: OffsetSource

    def resolve(self) -> dict[MessageQueue, _Offset]:
        exact = {queue: target for queue, target in self.wanted.items() if isinstance(target, int)}
        earliest = dict.fromkeys(self._asking(Keyword.EARLIEST), Keyword.EARLIEST)
        latest = {queue: self.bounds[queue].max_offset for queue in self._asking(Keyword.LATEST)}
        return {**exact, **earliest, **latest, **self._committed(), **self._at_time()}

    def _asking(self, keyword: Keyword) -> list[MessageQueue]:
        return [queue for queue, target in self.wanted.items() if target is keyword]

    def _committed(self) -> dict[MessageQueue, int]:
        queues = self._asking(Keyword.GROUP)
        return dict(self.source.fetch_committed(queues)) if queues else {}

    def _at_time(self) -> dict[MessageQueue, _Offset]:
        times = {queue: target.time_ms for queue, target in self.wanted.items() if isinstance(target, AtTime)}
        found = self.source.fetch_offsets_at(times) if times else {}
        return {queue: self._place_in_time(queue, found[queue], time_ms) for queue, time_ms in times.items()}

    def _place_in_time(self, queue: MessageQueue, found: int, time_ms: int) -> _Offset:
        """Return the offset for a requested time, given the offset `found` that brokers report for it.

        Return EARLIEST if that is the queue's first message. Brokers report the queue's end if no message is stored at
        or after the time: then return the end if `if_too_young` of the request is LATEST, else raise `OptionError`.
        """
        smallest, following, _ = self.bounds[queue]
        if found <= smallest < following:
            return Keyword.EARLIEST
        if found < following:
            return found
        if self.requested.if_too_young is Keyword.LATEST:
            return following
        what = f"no message of {queue} is stored at or after {time_ms} ms"
        advice = f"set {self.requested.option}ByTimestampStrategy=latest, or give an earlier time"
        raise OptionError(self.option, None, what, advice=advice)


@dataclass(frozen=True, slots=True)
class _WithCommitted:
    """Wraps a source of offsets, but returns committed positions that were fetched before."""

    source: OffsetSource
    committed: Mapping[MessageQueue, int]

    def fetch_bounds(self, queues: Collection[MessageQueue]) -> QueueBoundsMap:
        return self.source.fetch_bounds(queues)

    def fetch_offsets_at(self, times_ms: Mapping[MessageQueue, int]) -> Mapping[MessageQueue, int]:
        return self.source.fetch_offsets_at(times_ms)

    def fetch_committed(self, queues: Collection[MessageQueue]) -> Mapping[MessageQueue, int]:
        return {queue: self.committed[queue] for queue in queues if queue in self.committed}

    def fetch_first_readable(self, bounds: QueueBoundsMap) -> Mapping[MessageQueue, int]:
        return self.source.fetch_first_readable(bounds)


class BatchPlan(NamedTuple):
    """The ranges of a batch read, the warnings about losses, and the options without effect."""

    ranges: list[QueueRange]
    warnings: list[LossWarning]
    outranked: tuple[str, ...]
    replica_ends: list[MessageQueue]
    """Queues whose end was reported by a replica, while their masters may hold more."""


def resolve_batch(
    start: RequestedOffsets,
    end: RequestedOffsets,
    queues: Collection[MessageQueue],
    source: OffsetSource,
    *,
    fail_on_data_loss: bool,
) -> BatchPlan:
    """Return the ranges from the requested starts to the requested ends, resolved against the same bounds.

    Bounds are fetched after the group's positions. Positions of a group that reads on could lie beyond older bounds.
    """
    asking = [queue for queue in queues if _asks_group(start, queue) or _asks_group(end, queue)]
    committed = source.fetch_committed(asking) if asking else {}
    bounds = source.fetch_bounds(queues)
    snapshot = _WithCommitted(source, committed)
    requested_starts = resolve_offsets(start, queues, bounds, snapshot)
    ends = resolve_offsets(end, queues, bounds, snapshot)
    starts, moved = settle_starts(requested_starts.positions, bounds, fail_on_data_loss=fail_on_data_loss)
    ranges = [_range_between(queue, starts[queue], ends.positions[queue], requested_starts) for queue in queues]
    kept, cut = settle_ranges(ranges, bounds, fail_on_data_loss=fail_on_data_loss)
    replica_ends = [
        queue for queue, (_, end, from_replica) in bounds.items() if from_replica and ends.positions[queue] == end
    ]
    return BatchPlan(kept, moved + cut, requested_starts.outranked + ends.outranked, replica_ends)


def _asks_group(requested: RequestedOffsets, queue: MessageQueue) -> bool:
    return any(layer.target(queue) is Keyword.GROUP for layer in requested.layers)


def _range_between(queue: MessageQueue, start: int, end: int, requested_starts: Resolved) -> QueueRange:
    """Return the range from start to end; empty if a loss moved the start beyond the end.

    Raise `OptionError` if the user requested an end below the start.
    """
    if end < start and start == requested_starts.positions[queue]:
        raise OptionError(
            "endingOffsets", None, f"the end {end} of {queue} lies below its start {start}", advice="raise it"
        )
    return QueueRange(queue, start, max(start, end), queue in requested_starts.opened)
