"""Commit a query's position from the driver program, and tell how far the query is behind.

A query commits a finished batch when Spark plans the next one, so the last batch of a run is committed in the next run.
A program that needs this commit at once calls `commit_offsets` after `awaitTermination()`, or adds a `CommitListener`,
which commits for every query of its session that has the same group.

    spark.streams.addListener(CommitListener(options))
    commit_offsets(query, options)
    print(lag(query, options).total)
    [status] = planner_status(query)
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol, TypeAlias

from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)
from pyspark.sql.streaming.query import StreamingQuery

from .cluster.cluster import open_cluster
from .errors import OptionError
from .lag.figures import Lag
from .lag.measure import measure_positions
from .model import MessageQueue
from .offsets.position import SENTINEL, Position, parse_position
from .options import HelperOptions, parse_helper_options
from .source.commit import Committer, GroupCheck, OffsetWriter
from .source.reports import PlannerStatus, parse_status

__all__ = ["CommitListener", "Lag", "QueryPosition", "commit_offsets", "lag", "planner_status", "read_position"]

_FLUSH_S = 5.0
_Sources: TypeAlias = Sequence[Mapping[str, Any]]
"""The sources of a progress event, as Spark's JSON has them."""


def commit_offsets(query: StreamingQuery, options: Mapping[str, str]) -> None:
    """Commit the positions of the query's last progress event; do nothing if there was no event yet.

    Raise a failure, which the query itself would only log.

    Args:
        query: A query that reads RocketMQ, running or ended.
        options: The options of the query's reader; name servers, consumerGroup and credentials suffice.
    """
    settings = parse_helper_options(options)
    group = settings.require_group()
    progress = query.lastProgress
    if progress is None:
        return
    positions = _finished(progress, group)
    if positions is None:
        what = "no source of the query commits for this group"
        raise OptionError("consumerGroup", group, what, advice="give the reader this consumerGroup, with commits")
    for failure in _make_writer(settings, group).commit(positions):
        raise failure


class CommitListener(StreamingQueryListener):
    """Commits, at each progress event of a query, the positions after the batch that has finished.

    After the end of a query it commits nothing more for it, so that the group may be moved by others.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._settings = parse_helper_options(options)
        self._group = self._settings.require_group()
        self._committers: dict[str, Committer] = {}
        """The committing thread of each run that goes on, by run id; no two queries of a group read the same queue."""
        self._finishing: dict[str, Committer] = {}
        """That of the last run that has ended, by query id; it may still repeat a commit that failed."""

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Do nothing: no batch is finished yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Give the positions of a finished batch to the committing thread; do not wait for it."""
        if positions := _finished(event.progress, self._group):
            self._find_committer(event.progress).acknowledge(positions)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Commit pending positions now, because this query reports no further progress."""
        if committer := self._committers.pop(str(event.runId), None):
            committer.flush(_FLUSH_S)
            committer.finish()
            self._finishing[str(event.id)] = committer

    def _find_committer(self, progress: StreamingQueryProgress) -> Committer:
        run_id = str(progress.runId)
        if run_id not in self._committers:
            if earlier := self._finishing.pop(str(progress.id), None):
                earlier.close()  # This run is further on.
            self._committers[run_id] = Committer(_make_writer(self._settings, self._group).commit)
        return self._committers[run_id]


def lag(query: StreamingQuery, options: Mapping[str, str]) -> Lag:
    """Return how far a query is behind: what brokers hold now after the positions of its last progress event.

    A batch that runs now counts as unread. A figure that cannot be known has the reason, and is never 0; so has the
    total before the first progress event. A source without a position, or with one that cannot be read, makes it a
    bound.

    Args:
        query: A query that reads RocketMQ, running or ended.
        options: The options of the query's reader; name servers and credentials suffice.
    """
    progress = query.lastProgress
    positions: dict[MessageQueue, int] = {}
    missing: str | None = "the query has had no progress event yet"
    if progress is not None:
        sources = _sources(progress)
        positions, missing = _slowest(sources), _why_missing(sources)
    cluster = open_cluster(parse_helper_options(options).cluster)
    return measure_positions(cluster, positions, now_ms=time.time_ns() // 1_000_000, missing=missing)


def planner_status(query: StreamingQuery) -> list[PlannerStatus]:
    """Return the planner's status of each RocketMQ source, from the query's last progress event.

    The list is empty before the query's first progress event, and with PySpark before 4.2.
    """
    progress = query.lastProgress
    return _statuses(_sources(progress)) if progress else []


class HasJson(Protocol):
    """A progress event, or the part of it that has its JSON."""

    @property
    def json(self) -> str:
        """The progress as a JSON object."""


class QueryPosition(NamedTuple):
    """The position of a query after a batch, from one progress event."""

    positions: dict[MessageQueue, int]
    """The next offset to read of each queue, of all RocketMQ sources; of several in one queue, the smallest."""
    missing: str | None
    """The reason why further positions are not known."""
    statuses: list[PlannerStatus]
    """The planner's status of each source; none before PySpark 4.2."""


def read_position(progress: HasJson) -> QueryPosition | None:
    """Return the position of a query after the batch of a progress event; None if it has no RocketMQ source."""
    sources = _sources(progress)
    if not any(map(_is_ours, _offsets(sources, "endOffset"))):
        return None
    return QueryPosition(_slowest(sources), _why_missing(sources), _statuses(sources))


def _sources(progress: HasJson) -> _Sources:
    """Return the sources of a progress event.

    They are read from its JSON, because before PySpark 4.2 the attributes of sources hold Python's text of an offset.
    """
    sources: _Sources = json.loads(progress.json)["sources"]
    return sources


def _slowest(sources: _Sources) -> dict[MessageQueue, int]:
    """Return the position in each queue; of several sources that read the same one, that of the slowest."""
    slowest: dict[MessageQueue, int] = {}
    for each in _positions(sources):
        slowest |= {queue: min(offset, slowest.get(queue, offset)) for queue, offset in each.next.items()}
    return slowest


def _statuses(sources: _Sources) -> list[PlannerStatus]:
    return [status for each in _offsets(sources, "latestOffset") if (status := parse_status(each))]


def _make_writer(settings: HelperOptions, group: str) -> OffsetWriter:
    cluster = open_cluster(settings.cluster)
    return OffsetWriter(cluster, group, GroupCheck(cluster, group))


def _finished(progress: HasJson, group: str) -> dict[MessageQueue, int] | None:
    """Return the positions of all sources that commit for `group`, from a progress event; None if no source does."""
    found = [position for position in _positions(_sources(progress)) if position.group == group]
    return {queue: offset for each in found for queue, offset in each.next.items()} if found else None


def _positions(sources: _Sources) -> Iterable[Position]:
    """Yield the position of each RocketMQ source; skip sources with offsets of another form."""
    for end in _offsets(sources, "endOffset"):
        with suppress(OptionError):
            if (position := parse_position(end)) is not None:
                yield position


def _why_missing(sources: _Sources) -> str | None:
    """Return why the positions of a query are not complete; None if they are."""
    ours = list(filter(_is_ours, _offsets(sources, "endOffset")))
    for end in ours:
        try:
            if parse_position(end) is None:
                return "a source of the query has no position yet"
        except OptionError as error:
            return str(error)
    return None if ours else "the query has no source with a position of RocketMQ"


def _is_ours(offset: dict[str, Any] | str) -> bool:
    """Return whether an offset looks like that of a RocketMQ source, perhaps of another release."""
    value = offset
    if isinstance(offset, str):
        try:
            value = json.loads(offset)
        except ValueError:
            return False
    return isinstance(value, dict) and ({"next", "version"} <= value.keys() or value.keys() == SENTINEL.keys())


def _offsets(sources: _Sources, name: str) -> Iterable[dict[str, Any] | str]:
    """Yield the offset called `name`, such as `endOffset`, of each source that has one.

    An offset is an object or, over Spark Connect, its JSON text.
    """
    offsets = (source.get(name) for source in sources)
    return (offset for offset in offsets if isinstance(offset, dict | str))
