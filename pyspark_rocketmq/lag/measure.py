"""Measure the lag from standings: ask for the next messages, and for how long brokers keep messages.

The next message of every queue that is behind is pulled, all in one burst per broker, under the group for readers
without one. Its store time gives the age, its size and those of a few more give the bytes. Pulls under the measured
group's name would take away an administrator's reset from it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from ..broker_errors import PullNotFound, PullOffsetMoved, PullRetryImmediately
from ..cluster.broker import to_queue
from ..cluster.cluster import Cluster
from ..cluster.names import READER_GROUP
from ..cluster.routes import BrokerEndpoints
from ..cluster.servers import Reply
from ..errors import RocketMQError, located
from ..model import MessageQueue, sort_queues
from ..pull.remoting import pull_header
from ..pull.settings import Subscription
from ..wire.record import decode_records, message_count_of
from .figures import Figure, Lag, QueueLag, TotalLag
from .standings import Standing, Standings, fetch_group_standings, fetch_query_standings

__all__ = ["measure_group", "measure_positions"]

_SAMPLE = 32
"""Number of messages whose mean size is taken, for each topic at each broker."""
_CLOCK_TOLERANCE_MS = 1000
_HOUR_S = 3600
_RESERVED = "fileReservedTime"
_VANISHED = "no broker reports this queue any more: its broker is not registered, or the queue was removed"
_NOTHING = Figure()
_ZERO = Figure(0)


def measure_group(
    cluster: Cluster, group: str, topic: str | None = None, *, now_ms: int, known: Collection[MessageQueue] = ()
) -> Lag:
    """Return the lag of a group in one topic, or in all topics in which it has a position.

    Raise if no broker answers; a broker that does not answer makes the figures of its queues unknown. A broker that is
    not registered any more is not asked; its queues are found only in `known`, queues that were measured before.
    """
    brokers = cluster.survey.fetch_brokers()
    standings, unanswered = fetch_group_standings(cluster, brokers, group, topic)
    vanished = {queue: _vanished(unanswered.get(queue.broker_name)) for queue in known}
    missing = next((f"{name} may have more queues: {error}" for name, error in unanswered.items()), None)
    return replace(_measure(cluster, brokers, {**vanished, **standings}, now_ms, missing), unanswered=unanswered)


def _vanished(error: RocketMQError | None) -> Standing:
    unknown = Figure(unknown=str(error or _VANISHED))
    return Standing(unknown, unknown)


def measure_positions(
    cluster: Cluster, positions: Mapping[MessageQueue, int], *, now_ms: int, missing: str | None = None
) -> Lag:
    """Return the lag of these positions, the next offset to read of each queue.

    `missing` is the reason why further positions are not known.
    """
    brokers = cluster.survey.fetch_brokers()
    return _measure(cluster, brokers, fetch_query_standings(cluster, positions), now_ms, missing)


class _Next(NamedTuple):
    """The next message of a queue."""

    first_offset: int
    """The offset at which the queue began when the pull asked for a deleted message, else that of the pull."""
    store_ms: int
    sizes: tuple[int, int]
    """Bytes and number of the messages in the response."""


_Found = _Next | RocketMQError | None
"""The next message; an error; None if the broker holds none from the position on."""


def _measure(
    cluster: Cluster,
    brokers: Iterable[BrokerEndpoints],
    standings: Standings,
    now_ms: int,
    missing: str | None,
) -> Lag:
    behind = {queue: int(each.position.value or 0) for queue, each in standings.items() if _is_behind(each)}
    found = _fetch_next(cluster, behind, _largest(standings, behind))
    holding = {queue.broker_name for queue in behind}
    reserved = _fetch_reserved(cluster, [each for each in brokers if each.broker_name in holding])
    mean_sizes = _mean_sizes(found)
    queues = tuple(
        _queue_lag(queue, standings[queue], found.get(queue), mean_sizes, reserved, now_ms)
        for queue in sort_queues(standings)
    )
    return Lag(queues, TotalLag.of(queues, missing))


def _is_behind(standing: Standing) -> bool:
    position, end = standing.position.value, standing.end.value
    return position is not None and end is not None and position < end


def _largest(standings: Standings, behind: Collection[MessageQueue]) -> set[MessageQueue]:
    """Return the queue that is most behind of each topic at each broker."""
    largest: dict[tuple[str, str], tuple[float, MessageQueue]] = {}
    for queue in behind:
        standing = standings[queue]
        lag = (standing.end.value or 0) - (standing.position.value or 0)
        part = (queue.topic, queue.broker_name)
        largest[part] = max(largest.get(part, (0, queue)), (lag, queue))
    return {queue for _, queue in largest.values()}


# --- the next messages -----------------------------------------------------------------------------------------------


def _fetch_next(
    cluster: Cluster, positions: Mapping[MessageQueue, int], sampled: Collection[MessageQueue]
) -> dict[MessageQueue, _Found]:
    """Return the first message from each position on; where it is deleted, the first one that is left."""
    found = _pull_each(cluster, positions, sampled)
    moved = [queue for queue, each in found.items() if isinstance(each, PullOffsetMoved)]
    try:
        bounds = cluster.offsets.fetch_bounds(moved) if moved else {}
    except RocketMQError as error:
        return found | dict.fromkeys(moved, error)
    begins = {queue: each.min_offset for queue, each in bounds.items() if positions[queue] < each.min_offset}
    return found | _pull_each(cluster, begins, sampled)


def _pull_each(
    cluster: Cluster, offsets: Mapping[MessageQueue, int], sampled: Collection[MessageQueue]
) -> dict[MessageQueue, _Found]:
    requests = {}
    for queue, offset in offsets.items():
        count = _SAMPLE if queue in sampled else 1
        requests[queue] = to_queue(queue, pull_header(queue, READER_GROUP, Subscription(), offset, count))
    results = cluster.brokers.try_all(requests)
    return {queue: _read_next(result, offsets[queue]) for queue, result in results.items()}


def _read_next(result: Reply | RocketMQError, offset: int) -> _Found:
    if isinstance(result, PullNotFound | PullRetryImmediately):
        return None
    if isinstance(result, RocketMQError):
        return result
    try:
        with located(result.request.where()):
            records = decode_records(result.command.body)
            count = sum(map(message_count_of, records))
    except RocketMQError as error:
        return error
    if not records:
        return None
    return _Next(offset, records[0].store_timestamp, (len(result.command.body), count))


def _mean_sizes(found: Mapping[MessageQueue, _Found]) -> dict[tuple[str, str], float]:
    """Return the mean stored size of the messages that were pulled, by topic and broker."""
    sums: dict[tuple[str, str], tuple[int, int]] = {}
    for queue, each in found.items():
        if isinstance(each, _Next):
            size, count = sums.get((queue.topic, queue.broker_name), (0, 0))
            sums[queue.topic, queue.broker_name] = size + each.sizes[0], count + each.sizes[1]
    return {part: size / max(1, count) for part, (size, count) in sums.items()}


# --- retention -------------------------------------------------------------------------------------------------------


def _fetch_reserved(cluster: Cluster, brokers: Collection[BrokerEndpoints]) -> dict[str, Figure]:
    """Return for how many seconds each broker keeps messages."""
    found = cluster.survey.fetch_broker_configs(brokers)
    return {name: _reserved_s(each) for name, each in found.items()}


def _reserved_s(settings: Mapping[str, str] | RocketMQError) -> Figure:
    if isinstance(settings, RocketMQError):
        return Figure(unknown=str(settings))
    text = settings.get(_RESERVED, "")
    if not (text.isascii() and text.isdigit()):
        return Figure(unknown=f"the broker does not report {_RESERVED}")
    return Figure(int(text) * _HOUR_S)


# --- one queue -------------------------------------------------------------------------------------------------------


def _queue_lag(
    queue: MessageQueue,
    standing: Standing,
    found: _Found,
    mean_sizes: Mapping[tuple[str, str], float],
    reserved: Mapping[str, Figure],
    now_ms: int,
) -> QueueLag:
    messages = _messages(standing)
    mean = mean_sizes.get((queue.topic, queue.broker_name))
    gone, seconds, retention = _of_next(standing, messages, found, reserved.get(queue.broker_name, _NOTHING), now_ms)
    return QueueLag(
        topic=queue.topic,
        broker=queue.broker_name,
        queue_id=queue.queue_id,
        position=standing.position,
        end=standing.end,
        messages=messages,
        gone=gone,
        bytes=_bytes(messages, mean, found),
        seconds=seconds,
        retention_seconds=retention,
    )


def _messages(standing: Standing) -> Figure:
    position, end = standing
    if end.value == 0:
        return _ZERO  # An empty queue has nothing to read, wherever the group begins.
    unknown = end.unknown or position.unknown
    if unknown is not None:
        return Figure(unknown=unknown)
    count = int(end.value or 0) - int(position.value or 0)
    if count < 0:
        why = f"the position lies {-count} beyond the end: the topic was created again, or the broker restored"
        return Figure(unknown=why)
    return Figure(count)


def _bytes(messages: Figure, mean: float | None, found: _Found) -> Figure:
    if not messages.value:
        return messages
    if mean is None:
        return Figure(unknown=_why(found))
    return Figure(round(int(messages.value) * mean))


def _of_next(
    standing: Standing, messages: Figure, found: _Found, reserved: Figure, now_ms: int
) -> tuple[Figure, Figure, Figure]:
    """Return what the next message tells: how many are gone before it, its age, and its time to retention."""
    if messages.is_unknown:
        return messages, messages, messages
    if not messages.value:
        return _ZERO, _ZERO, _NOTHING
    if not isinstance(found, _Next):
        unknown = Figure(unknown=_why(found))
        return unknown, unknown, unknown
    gone = found.first_offset - int(standing.position.value or 0)
    return Figure(gone), _age(found, now_ms), _retention(found, gone, reserved, now_ms)


def _why(found: _Found) -> str:
    if isinstance(found, RocketMQError):
        return str(found)
    return "the broker returned no message at the position"


def _age(found: _Next, now_ms: int) -> Figure:
    age_ms = now_ms - found.store_ms
    if age_ms < -_CLOCK_TOLERANCE_MS:
        ahead = -age_ms / 1000
        return Figure(unknown=f"the next message is {ahead:.1f} s younger than now: the clocks differ")
    return Figure(max(0, age_ms) / 1000)


def _retention(found: _Next, gone: int, reserved: Figure, now_ms: int) -> Figure:
    if gone:
        return _ZERO
    if reserved.value is None:
        return reserved
    kept_until_ms = found.store_ms + int(reserved.value) * 1000
    return Figure(max(0, kept_until_ms - now_ms) / 1000)
