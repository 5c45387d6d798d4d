"""How does a driver program publish a query's position itself?

A query publishes finished work when Spark plans its next batch, so the last batch of a run waits for the next run.
Whoever wants exact ends says so: `commit_offsets` after `awaitTermination()`, or a `CommitListener`, which follows
every query of its session that publishes for the group.

    spark.streams.addListener(CommitListener(options))
    commit_offsets(query, options)
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cached_property

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
from .model import MessageQueue
from .offsets.position import Position, parse_position
from .options import HelperOptions, parse_helper_options
from .source.commit import Committer, GroupGuard, Publisher

__all__ = ["CommitListener", "commit_offsets"]

_FLUSH_S = 5.0


def commit_offsets(query: StreamingQuery, options: Mapping[str, str]) -> None:
    """Publish what the query has finished by its last progress; raises what a query would only warn about.

    Args:
        query: A query that reads RocketMQ, running or ended.
        options: The options of its reader, or as many of them as say where the group is.
    """
    settings = parse_helper_options(options)
    group = settings.require_group()
    progress = query.lastProgress
    if progress is None:
        return
    positions = _finished(progress, group)
    if positions is None:
        what = "no source of the query publishes for this group"
        raise OptionError("consumerGroup", group, what, advice="give the reader this consumerGroup, with commits")
    for failure in _make_publisher(settings, group).publish(positions):
        raise failure


class CommitListener(StreamingQueryListener):
    """Publishes what queries have finished, at each of their progress events."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._settings = parse_helper_options(options)
        self._group = self._settings.require_group()
        self._finished: Mapping[MessageQueue, int] = {}
        """Of all queries together, each of which has queues of its own."""

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Nothing is finished yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """A batch is finished, or nothing was new."""
        if positions := _finished(event.progress, self._group):
            self._finished = {**self._finished, **positions}
            self._committer.acknowledge(self._finished)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """The last batch's progress has come; nothing must wait any longer."""
        self._committer.flush(_FLUSH_S)

    @cached_property
    def _committer(self) -> Committer:
        return Committer(_make_publisher(self._settings, self._group).publish)


def _make_publisher(settings: HelperOptions, group: str) -> Publisher:
    cluster = open_cluster(settings.cluster)
    return Publisher(cluster, group, GroupGuard(cluster, group))


def _finished(progress: StreamingQueryProgress, group: str) -> dict[MessageQueue, int] | None:
    """Where the sources that publish for a group stand; nothing if there is none."""
    found = [position for position in _positions(progress) if position.group == group]
    return {queue: offset for each in found for queue, offset in each.next.items()} if found else None


def _positions(progress: StreamingQueryProgress) -> Iterable[Position]:
    """Those of our sources; other sources write their offsets differently.

    Read from the progress as JSON: before PySpark 4.2 the sources' own attributes hold Python's text of it. There an
    offset is an object, over Spark Connect its text.
    """
    for source in json.loads(progress.json)["sources"]:
        end = source.get("endOffset")
        with suppress(OptionError):
            if isinstance(end, dict | str) and (position := parse_position(end)) is not None:
                yield position
