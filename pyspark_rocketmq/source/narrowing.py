"""Narrow a batch read by the conditions of its WHERE.

A condition may leave out only messages that it excludes; it need not leave out all of them, because Spark applies each
condition again to the rows. A condition that this module does not know leaves out nothing.

Brokers search by store time in the order of offsets, and store times rise with offsets only as long as the broker's
clock does. If no clock was ever set back by more than `CLOCK_STEP_MS`, a message stored before the message at offset x
is at most that much younger. So the search is for a time so much earlier, or later, and no wanted message is left out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql.datasource import (
    ColumnPath,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from ..broker_errors import RequestCodeNotSupported
from ..errors import RocketMQError
from ..model import MessageQueue, QueueRange
from ..options.reader_options import ReaderOptions

if TYPE_CHECKING:
    from ..cluster.cluster import Cluster

__all__ = ["CLOCK_STEP_MS", "EVERYTHING", "Narrowed", "Narrowing", "Span", "narrow_read", "narrowing_of"]

CLOCK_STEP_MS = 60_000
"""Milliseconds by which a broker's clock may have been set back without a row being left out."""

_log = logging.getLogger(__name__)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_TAGS = 32
"""The most tags by which brokers are asked to filter; every pull carries them."""
_SPECIAL = {"queue.type": "BatchCQ", "cleanup.policy": "COMPACTION"}
"""Attributes of topics whose messages brokers do not find by time or tag."""
NO_TAGS: frozenset[str] = frozenset()

Search = Callable[[Mapping[MessageQueue, int]], Mapping[MessageQueue, int]]
"""A function that takes a time for each queue, and returns the offset of the first message stored at or after it.

It leaves out queues of which this is not known for certain.
"""


class Span(NamedTuple):
    """Integers from `start` to before `end`; None: no limit."""

    start: int | None = None
    end: int | None = None

    def meet(self, other: Span) -> Span:
        """Return the integers that are in both spans."""
        starts = [each for each in (self.start, other.start) if each is not None]
        ends = [each for each in (self.end, other.end) if each is not None]
        return Span(max(starts, default=None), min(ends, default=None))

    def cut(self, whole: QueueRange) -> QueueRange:
        """Return the offsets of a range that are in the span; its front stays open only if it is not moved."""
        start = min(whole.end, whole.start if self.start is None else max(whole.start, self.start))
        end = max(start, whole.end if self.end is None else min(whole.end, self.end))
        return QueueRange(whole.queue, start, end, whole.is_front_open and start == whole.start)


WHOLE = Span()


@dataclass(frozen=True, slots=True)
class Narrowing:
    """The messages that a WHERE may keep; None, and a span without limits, stand for all."""

    topics: frozenset[str] | None = None
    broker_names: frozenset[str] | None = None
    queue_ids: frozenset[int] | None = None
    tags: frozenset[str] | None = None
    offsets: Span = WHOLE
    times_ms: Span = WHOLE

    def meet(self, other: Narrowing) -> Narrowing:
        """Return the narrowing by both."""
        return Narrowing(
            topics=_meet(self.topics, other.topics),
            broker_names=_meet(self.broker_names, other.broker_names),
            queue_ids=_meet(self.queue_ids, other.queue_ids),
            tags=_meet(self.tags, other.tags),
            offsets=self.offsets.meet(other.offsets),
            times_ms=self.times_ms.meet(other.times_ms),
        )

    @property
    def needs_brokers(self) -> bool:
        """Whether brokers must filter or search for the narrowing."""
        return self.tags is not None or self.times_ms != WHOLE

    def takes(self, queue: MessageQueue) -> bool:
        """Return whether messages of a queue may be kept."""
        wanted = ((self.topics, queue.topic), (self.broker_names, queue.broker_name), (self.queue_ids, queue.queue_id))
        return all(names is None or name in names for names, name in wanted)


EVERYTHING = Narrowing()


def _meet(one: frozenset[Any] | None, other: frozenset[Any] | None) -> frozenset[Any] | None:
    return other if one is None else one if other is None else one & other


# --- conditions ------------------------------------------------------------------------------------------------------


class _Near(NamedTuple):
    """The integers next to a value: the largest that is not above it, and the smallest that is not below it."""

    floor: int
    ceiling: int


class _Choice(NamedTuple):
    """A column that narrows a read if it equals some values of its type."""

    type: type
    narrow: Callable[[frozenset[Any]], Narrowing]


class _Order(NamedTuple):
    """A column that narrows a read also by `<`, `<=`, `>` and `>=`."""

    place: Callable[[Any], _Near | None]
    """Function that returns the integers next to a value; None for a value of another type."""
    narrow: Callable[[Span], Narrowing]


def _place_number(value: Any) -> _Near | None:
    return _Near(value, value) if isinstance(value, int) and not isinstance(value, bool) else None


def _place_time(value: Any) -> _Near | None:
    """Return the whole milliseconds next to an instant; Spark passes times with their zone, and with microseconds."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    since, millisecond = value - _EPOCH, timedelta(milliseconds=1)
    return _Near(since // millisecond, -(-since // millisecond))


_QUEUE_IDS = _Choice(int, lambda found: Narrowing(queue_ids=found))
_OFFSETS = _Order(_place_number, lambda span: Narrowing(offsets=span))
_TIMES = _Order(_place_time, lambda span: Narrowing(times_ms=span))

_COLUMNS: Mapping[str, _Choice | _Order] = {
    "topic": _Choice(str, lambda found: Narrowing(topics=found)),
    "brokerName": _Choice(str, lambda found: Narrowing(broker_names=found)),
    "queueId": _QUEUE_IDS,
    "partition": _QUEUE_IDS,
    "tags": _Choice(str, lambda found: Narrowing(tags=found)),
    "queueOffset": _OFFSETS,
    "offset": _OFFSETS,
    "storeTimestamp": _TIMES,
    "timestamp": _TIMES,
}
"""The columns of both layouts whose conditions narrow a read."""


def narrowing_of(conditions: Iterable[Filter]) -> Narrowing:
    """Return the narrowing by conditions that must all hold."""
    narrowing = EVERYTHING
    for condition in conditions:
        narrowing = narrowing.meet(_narrow_by(condition))
    return narrowing


def _narrow_by(condition: Filter) -> Narrowing:
    match condition:
        case EqualTo(column, value) | EqualNullSafe(column, value):
            return _among(column, [value])
        case In(column, values):
            return _among(column, values)
        case GreaterThan(column, value):
            return _between(column, value, lambda near: Span(start=near.floor + 1))
        case GreaterThanOrEqual(column, value):
            return _between(column, value, lambda near: Span(start=near.ceiling))
        case LessThan(column, value):
            return _between(column, value, lambda near: Span(end=near.ceiling))
        case LessThanOrEqual(column, value):
            return _between(column, value, lambda near: Span(end=near.floor + 1))
    return EVERYTHING


def _among(path: ColumnPath, values: Iterable[Any]) -> Narrowing:
    """Return the narrowing if a column equals one of some values; none of these columns equals NULL."""
    known = [value for value in values if value is not None]
    column = _COLUMNS.get(".".join(path)) if known else None
    if isinstance(column, _Choice) and all(type(value) is column.type for value in known):
        return column.narrow(frozenset(known))
    if isinstance(column, _Order):
        near = [each for each in map(column.place, known) if each]
        return column.narrow(_hull(near)) if len(near) == len(known) else EVERYTHING
    return EVERYTHING


def _hull(near: Collection[_Near]) -> Span:
    """Return the integers from the smallest of some values to the largest."""
    return Span(min(each.ceiling for each in near), max(each.floor for each in near) + 1)


def _between(path: ColumnPath, value: Any, limit: Callable[[_Near], Span]) -> Narrowing:
    column = _COLUMNS.get(".".join(path))
    near = column.place(value) if isinstance(column, _Order) else None
    return column.narrow(limit(near)) if isinstance(column, _Order) and near else EVERYTHING


# --- the read --------------------------------------------------------------------------------------------------------


class Narrowed(NamedTuple):
    """The rest of a read: its ranges, and the tags that are asked for; no tags stand for those of the options."""

    ranges: list[QueueRange]
    tags: frozenset[str] = NO_TAGS


def narrow_read(ranges: list[QueueRange], narrowing: Narrowing, cluster: Cluster, options: ReaderOptions) -> Narrowed:
    """Return what is left of planned ranges; losses were judged on the whole ranges before."""
    taken = [each for each in ranges if narrowing.takes(each.queue)]
    kept = _fill([narrowing.offsets.cut(each) for each in taken])
    plain: set[str] = set()
    if narrowing.needs_brokers:
        plain = _find_plain_topics(cluster, {each.queue.topic for each in kept})

    def search(times_ms: Mapping[MessageQueue, int]) -> Mapping[MessageQueue, int]:
        return cluster.offsets.search_masters({queue: at for queue, at in times_ms.items() if queue.topic in plain})

    kept = _cut_by_time(kept, narrowing.times_ms, search)
    tags = _tags_to_ask_for(narrowing, options) if {each.queue.topic for each in kept} <= plain else NO_TAGS
    if narrowing != EVERYTHING:
        count, whole = (sum(each.offset_count for each in part) for part in (kept, ranges))
        asked = f", with tags {sorted(tags)}" if tags else ""
        _log.info("the WHERE leaves %d of %d offsets to be read%s", count, whole, asked)
    return Narrowed(kept, tags)


def _fill(ranges: Iterable[QueueRange]) -> list[QueueRange]:
    return [each for each in ranges if each.offset_count > 0]


def _cut_by_time(ranges: list[QueueRange], times_ms: Span, search: Search) -> list[QueueRange]:
    """Return the parts of ranges that may have messages stored in a span of time."""
    if times_ms.start is not None:
        ranges = _cut_at(ranges, times_ms.start - CLOCK_STEP_MS, search, lambda found: Span(start=found))
    if times_ms.end is not None:
        ranges = _cut_at(ranges, times_ms.end + CLOCK_STEP_MS, search, lambda found: Span(end=found))
    return ranges


def _cut_at(ranges: list[QueueRange], time_ms: int, search: Search, limit: Callable[[int], Span]) -> list[QueueRange]:
    """Return ranges cut at the first message stored at or after a time, where brokers know it."""
    found = search({each.queue: time_ms for each in ranges}) if ranges and time_ms > 0 else {}
    return _fill(limit(found[each.queue]).cut(each) if each.queue in found else each for each in ranges)


def _tags_to_ask_for(narrowing: Narrowing, options: ReaderOptions) -> frozenset[str]:
    """Return the tags by which brokers can filter; none if they cannot, or if the options have a filter by SQL."""
    if narrowing.tags is None or options.pull.subscription.expression_type != "TAG":
        return NO_TAGS
    tags = narrowing.tags & options.content.tags if options.content.tags else narrowing.tags
    return tags if len(tags) <= _MOST_TAGS and all(map(_is_plain_tag, tags)) else NO_TAGS


def _is_plain_tag(tag: str) -> bool:
    """Return whether brokers find a tag as it is in a list of tags, which they split at `||` and strip of blanks."""
    return bool(tag) and tag == tag.strip() and tag.isprintable() and tag != "*" and "|" not in tag


def _find_plain_topics(cluster: Cluster, topics: Iterable[str]) -> set[str]:
    """Return the topics that are known to have one message in each record, and all messages in their queues.

    Brokers do not look at the tags within batches. Of a compacted topic, their search by time knows only the messages
    that are not compacted yet.
    """
    return {topic for topic in topics if _is_plain_topic(cluster, topic)}


def _is_plain_topic(cluster: Cluster, topic: str) -> bool:
    try:
        configs = cluster.admin.fetch_topic_config(topic)
    except RequestCodeNotSupported:
        return True  # Brokers before 5.0 know neither batches nor compaction.
    except RocketMQError:
        return False
    return not any(_SPECIAL.items() & (config.attributes or {}).items() for config in configs.values())
