"""Narrow a batch read to the messages that a condition keeps.

Only messages that the condition excludes may be left out; not all of them need be, because Spark applies the condition
again to the rows.

Brokers search by store time in the order of offsets, and store times rise with offsets only as long as the broker's
clock does. If no clock was ever set back by more than `CLOCK_STEP_MS`, a message stored before the message at offset x
is at most that much younger. So the search is for a time so much earlier, or later, and no wanted message is left out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ..cluster.names import is_system_topic
from ..errors import RocketMQError
from ..model import MessageQueue, QueueRange
from ..options.reader_options import ReaderOptions

if TYPE_CHECKING:
    from ..cluster.cluster import Cluster

__all__ = ["CLOCK_STEP_MS", "EVERYTHING", "Narrowed", "Narrowing", "Span", "narrow_read"]

CLOCK_STEP_MS = 60_000
"""Milliseconds by which a broker's clock may have been set back without a row being left out."""

_log = logging.getLogger(__name__)
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
    """The messages that a condition may keep; None, and a span without limits, stand for all."""

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
        plain = _find_plain_topics(cluster, [each.queue for each in kept])

    def search(times_ms: Mapping[MessageQueue, int]) -> Mapping[MessageQueue, int]:
        return cluster.offsets.search_masters({queue: at for queue, at in times_ms.items() if queue.topic in plain})

    kept = _cut_by_time(kept, narrowing.times_ms, search)
    tags = _tags_to_ask_for(narrowing, options) if {each.queue.topic for each in kept} <= plain else NO_TAGS
    if narrowing != EVERYTHING:
        count, whole = (sum(each.offset_count for each in part) for part in (kept, ranges))
        asked = f", with tags {sorted(tags)}" if tags else ""
        _log.info("the condition leaves %d of %d offsets to be read%s", count, whole, asked)
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


def _find_plain_topics(cluster: Cluster, queues: Collection[MessageQueue]) -> set[str]:
    """Return the topics that are known to have one message in each record, and all messages in their queues.

    Brokers do not look at the tags within batches. Of a compacted topic, their search by time knows only the messages
    that are not compacted yet. In their own topics they put other numbers in place of the tags.
    """
    brokers: dict[str, set[str]] = {}
    for queue in queues:
        brokers.setdefault(queue.topic, set()).add(queue.broker_name)
    return {topic for topic, names in brokers.items() if _is_plain_topic(cluster, topic, names)}


def _is_plain_topic(cluster: Cluster, topic: str, broker_names: set[str]) -> bool:
    """Return whether all of these brokers say that the topic is plain; brokers before 5.0 and proxies do not say it."""
    if is_system_topic(topic):
        return False
    try:
        configs = cluster.admin.fetch_topic_config(topic)
    except RocketMQError:
        return False
    is_special = any(_SPECIAL.items() & (config.attributes or {}).items() for config in configs.values())
    return broker_names <= configs.keys() and not is_special
