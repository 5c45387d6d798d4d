"""Measure the lag from standings: ask for the next messages, for brokers' clocks, and how long they keep messages.

The next message of every queue that is behind is pulled, a portion of all queues at a time, under the group for readers
without one. Its store time gives the age, its size and those of a few more give the bytes. Pulls under the measured
group's name would take away an administrator's reset from it.

A broker stamps messages with its own clock. So ages are by that clock, which one request to each broker reads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from ..broker_errors import PullNotFound, PullOffsetMoved, PullRetryImmediately
from ..cluster.broker import to_queue
from ..cluster.clocks import skew_ms
from ..cluster.cluster import Cluster
from ..cluster.names import READER_GROUP
from ..cluster.routes import BrokerEndpoints
from ..cluster.servers import Reply
from ..cluster.survey import number_in
from ..errors import AnswerMismatch, MalformedFrame, RocketMQError, located
from ..model import MessageQueue, is_light, sort_queues
from ..pull.remoting import pull_header
from ..pull.settings import Subscription
from ..wire.record import Record, decode_records, message_count_of
from .figures import Figure, Lag, QueueLag, TotalLag
from .standings import NO_POSITION, Standing, Standings, fetch_group_standings, fetch_query_standings

__all__ = ["deletes_by_force", "measure_group", "measure_positions"]

_SAMPLE = 32
"""Number of messages whose mean size is taken, for each topic at each broker."""
_PORTION = 64
"""Queues that are pulled at a time: a reply may have 4 MiB, and is dropped when it is read."""
_CLOCK_TOLERANCE_MS = 1000
_HOUR_S = 3600
_FORCED_AT_PERCENT = 85
"""Disk usage from which brokers delete messages of any age, unless they are told otherwise."""
_VANISHED = "no broker reports this queue any more: its broker is not registered, or the queue was removed"
_NOTHING = Figure()
_ZERO = Figure(0)

_Clock = Callable[[], int]
"""A function that returns the time by the clock of this machine, in milliseconds since 1970."""


def measure_group(
    cluster: Cluster, group: str, topic: str | None = None, *, now_ms: int, known: Collection[MessageQueue] = ()
) -> Lag:
    """Return the lag of a group in one topic, or in all topics in which it has a position.

    Raise if no broker answers; a broker that does not answer makes the figures of its queues unknown. A broker that is
    not registered any more is not asked; its queues are found only in `known`, queues that were measured before.
    """
    clock = _clock_from(now_ms)
    brokers = cluster.survey.fetch_brokers()
    standings, unanswered = fetch_group_standings(cluster, brokers, group, topic)
    vanished = {queue: _vanished(unanswered.get(queue.broker_name)) for queue in known}
    missing = next((f"{name} may have more queues: {error}" for name, error in unanswered.items()), None)
    return replace(_measure(cluster, brokers, {**vanished, **standings}, clock, missing), unanswered=unanswered)


def _vanished(error: RocketMQError | None) -> Standing:
    unknown = Figure(unknown=str(error or _VANISHED))
    return Standing(unknown, unknown)


def measure_positions(
    cluster: Cluster, positions: Mapping[MessageQueue, int], *, now_ms: int, missing: str | None = None
) -> Lag:
    """Return the lag of these positions, the next offset to read of each queue.

    `missing` is the reason why further positions are not known.
    """
    clock = _clock_from(now_ms)
    brokers = cluster.survey.fetch_brokers()
    return _measure(cluster, brokers, fetch_query_standings(cluster, positions), clock, missing)


def _clock_from(now_ms: int) -> _Clock:
    """Return a clock that shows `now_ms` now."""
    started = time.monotonic()
    return lambda: now_ms + int(1000 * (time.monotonic() - started))


class _Next(NamedTuple):
    """The next message of a queue."""

    first_offset: int
    """The offset at which the queue began when the pull asked for a deleted message, else that of the pull."""
    store_ms: int
    sizes: tuple[int, int]
    """Bytes and number of the messages in the response."""


class _Emptied(NamedTuple):
    """A queue in which retention has deleted everything from the position on."""

    end: int
    """The queue's end when it was found empty."""


_Found = _Next | _Emptied | RocketMQError | None
"""The next message, or what deletion left; an error; None if the broker returns none from the position on."""


class _Keeper(NamedTuple):
    """A broker's time, and for how long it keeps messages."""

    now_ms: int
    kept_s: Figure
    """Seconds; 0 if the broker deletes messages of any age."""


def _measure(
    cluster: Cluster,
    brokers: Iterable[BrokerEndpoints],
    standings: Standings,
    clock: _Clock,
    missing: str | None,
) -> Lag:
    behind = {queue: int(each.position.value or 0) for queue, each in standings.items() if _is_behind(each)}
    found = _fetch_next(cluster, behind, _largest(standings, behind))
    holding = {queue.broker_name for queue in behind}
    keepers, without_clock = _fetch_keepers(cluster, [each for each in brokers if each.broker_name in holding], clock)
    mean_sizes = _mean_sizes(found)
    queues = tuple(
        _queue_lag(queue, standings[queue], found.get(queue), mean_sizes, keepers.get(queue.broker_name))
        for queue in sort_queues(standings)
    )
    return Lag(queues, TotalLag.of(queues, missing), without_clock=without_clock)


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
    """Return the first message from each position on; where it is deleted, the first one that is left, if one is."""
    found = _pull_each(cluster, positions, sampled)
    moved = [queue for queue, each in found.items() if isinstance(each, PullOffsetMoved)]
    try:
        bounds = cluster.offsets.fetch_bounds(moved) if moved else {}
    except RocketMQError as error:
        return found | dict.fromkeys(moved, error)
    begins = {queue: each.min_offset for queue, each in bounds.items() if positions[queue] < each.min_offset}
    left = _pull_each(cluster, begins, sampled)
    empty = [queue for queue in begins if left[queue] is None and bounds[queue].min_offset == bounds[queue].max_offset]
    return found | left | {queue: _Emptied(bounds[queue].max_offset) for queue in empty}


def _pull_each(
    cluster: Cluster, offsets: Mapping[MessageQueue, int], sampled: Collection[MessageQueue]
) -> dict[MessageQueue, _Found]:
    found: dict[MessageQueue, _Found] = {}
    for portion in _portions(offsets):
        requests = {}
        for queue in portion:
            count = _SAMPLE if queue in sampled else 1
            requests[queue] = to_queue(queue, pull_header(queue, READER_GROUP, Subscription(), offsets[queue], count))
        results = cluster.brokers.try_all(requests)
        wrap = cluster.settings.namespace.wrap_queue
        found |= {queue: _read_next(result, wrap(queue), offsets[queue]) for queue, result in results.items()}
    return found


def _portions(queues: Iterable[MessageQueue]) -> Iterator[list[MessageQueue]]:
    """Yield the queues in portions, in each of which all brokers have their share."""
    spread = sorted(queues, key=lambda queue: (queue.queue_id, queue))
    return (spread[start : start + _PORTION] for start in range(0, len(spread), _PORTION))


def _read_next(result: Reply | RocketMQError, queue: MessageQueue, offset: int) -> _Found:
    if isinstance(result, PullNotFound | PullRetryImmediately):
        return None
    if isinstance(result, RocketMQError):
        return result
    try:
        with located(result.request.where()):
            records = decode_records(result.command.body)
            _require_queue(records, queue)
            count = sum(map(message_count_of, records))
    except RocketMQError as error:
        return error
    if not records:
        return None
    return _Next(offset, records[0].store_timestamp, (len(result.command.body), count))


def _require_queue(records: Iterable[Record], queue: MessageQueue) -> None:
    """Raise `AnswerMismatch` if a record names another queue; those of a light topic name any."""
    if is_light(queue):
        return
    for record in records:
        if (record.topic, record.queue_id) != (queue.topic, queue.queue_id):
            raise AnswerMismatch(f"the response holds a message of {record.topic}, queue {record.queue_id}")


def _mean_sizes(found: Mapping[MessageQueue, _Found]) -> dict[tuple[str, str], float]:
    """Return the mean stored size of the messages that were pulled, by topic and broker."""
    sums: dict[tuple[str, str], tuple[int, int]] = {}
    for queue, each in found.items():
        if isinstance(each, _Next):
            size, count = sums.get((queue.topic, queue.broker_name), (0, 0))
            sums[queue.topic, queue.broker_name] = size + each.sizes[0], count + each.sizes[1]
    return {part: size / max(1, count) for part, (size, count) in sums.items()}


# --- clocks and retention --------------------------------------------------------------------------------------------


def _fetch_keepers(
    cluster: Cluster, brokers: Collection[BrokerEndpoints], clock: _Clock
) -> tuple[dict[str, _Keeper], dict[str, RocketMQError]]:
    """Return time and retention of each broker, and the errors of those that do not tell their time."""
    asked_ms = clock()
    figures = cluster.survey.fetch_master_infos(brokers)
    answered_ms = clock()
    settings = cluster.survey.fetch_broker_configs(brokers)
    skews = {name: _skew_ms(name, each, asked_ms, answered_ms) for name, each in figures.items()}
    now_ms = clock()
    keepers = {
        name: _Keeper(now_ms + (skew if isinstance(skew, int) else 0), _kept_s(settings[name], figures[name]))
        for name, skew in skews.items()
    }
    return keepers, {name: skew for name, skew in skews.items() if isinstance(skew, RocketMQError)}


def _skew_ms(
    name: str, figures: Mapping[str, str] | RocketMQError, asked_ms: int, answered_ms: int
) -> int | RocketMQError:
    if isinstance(figures, RocketMQError):
        return figures
    skew = skew_ms(figures, asked_ms, answered_ms)
    return MalformedFrame("the broker does not report its start and uptime", broker=name) if skew is None else skew


def _kept_s(settings: Mapping[str, str] | RocketMQError, figures: Mapping[str, str] | RocketMQError) -> Figure:
    """Return for how many seconds a broker keeps messages, given its settings and runtime figures."""
    if isinstance(settings, RocketMQError):
        return Figure(unknown=str(settings))
    if not isinstance(figures, RocketMQError) and deletes_by_force(settings, figures):
        return _ZERO
    hours = number_in(settings, "fileReservedTime")
    if hours is None:
        return Figure(unknown="the broker does not report fileReservedTime")
    return Figure(hours * _HOUR_S)


def deletes_by_force(settings: Mapping[str, str], figures: Mapping[str, str]) -> bool:
    """Return whether a broker deletes messages of any age, because its disk is nearly full."""
    percent = number_in(settings, "diskSpaceCleanForciblyRatio") or _FORCED_AT_PERCENT
    try:
        used = float(figures.get("commitLogDiskRatio", ""))
    except ValueError:
        return False
    return settings.get("cleanFileForciblyEnable", "true") == "true" and 100 * used > percent


# --- one queue -------------------------------------------------------------------------------------------------------


def _queue_lag(
    queue: MessageQueue,
    standing: Standing,
    found: _Found,
    mean_sizes: Mapping[tuple[str, str], float],
    keeper: _Keeper | None,
) -> QueueLag:
    messages = _messages(standing)
    mean = mean_sizes.get((queue.topic, queue.broker_name))
    gone, seconds, retention = _judge_next(standing, messages, found, keeper)
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
    if end.value == 0 and position.unknown == NO_POSITION:
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
        return Figure(unknown=_reason(found))
    return Figure(round(int(messages.value) * mean))


def _judge_next(
    standing: Standing, messages: Figure, found: _Found, keeper: _Keeper | None
) -> tuple[Figure, Figure, Figure]:
    """Return what the next message tells: how many are gone before it, its age, and its time to retention."""
    if messages.is_unknown:
        return messages, messages, messages
    if not messages.value:
        return _ZERO, _ZERO, _NOTHING
    if isinstance(found, _Emptied) and found.end >= int(standing.end.value or 0):
        return messages, _ZERO, _ZERO
    if not isinstance(found, _Next) or keeper is None:
        unknown = Figure(unknown=_VANISHED if keeper is None else _reason(found))
        return unknown, unknown, unknown
    gone = found.first_offset - int(standing.position.value or 0)
    age = _age(found, keeper.now_ms)
    return Figure(gone), age, _retention(age, gone, keeper.kept_s)


def _reason(found: _Found) -> str:
    if isinstance(found, RocketMQError):
        return str(found)
    if isinstance(found, _Emptied):
        return "all messages from the position on are deleted already"
    return "the broker returned no message at the position"


def _age(found: _Next, now_ms: int) -> Figure:
    age_ms = now_ms - found.store_ms
    if age_ms < -_CLOCK_TOLERANCE_MS:
        ahead = -age_ms / 1000
        return Figure(unknown=f"the next message is {ahead:.1f} s younger than now: the clocks differ")
    return Figure(max(0, age_ms) / 1000)


def _retention(age: Figure, gone: int, kept_s: Figure) -> Figure:
    if gone or kept_s.value == 0:
        return _ZERO
    if age.value is None or kept_s.value is None:
        return kept_s if kept_s.is_unknown else age
    return Figure(max(0, kept_s.value - age.value))
