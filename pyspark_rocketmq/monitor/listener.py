"""Listen to Spark's events about queries, and report how far each query that reads RocketMQ is behind.

Spark calls a listener in a thread that all listeners share, and waits for `onQueryStarted` before a query starts. So
methods here only take over the text of an event. Everything else happens in the watcher's thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from functools import cached_property

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from ..cluster.cluster import Cluster, open_cluster
from ..errors import OptionError, RocketMQError
from ..lag.figures import Lag
from ..lag.measure import measure_positions
from ..options import HelperOptions, parse_helper_options
from ..progress import QueryPosition, read_position
from .reports import ProgressEvent, QueryReport, unknown_lag
from .watcher import WatchedRun, Watcher

__all__ = ["LagListener"]

INTERVAL_S = 15.0


class LagListener(StreamingQueryListener):
    """Reports at an interval how far each query of a session that reads RocketMQ is behind.

    It asks brokers itself, in one thread that lives as long as there are queries. A figure that cannot be had is
    unknown, with its reason, and never 0. One listener watches queries of one cluster and one session.
    """

    def __init__(
        self,
        options: Mapping[str, str],
        on_report: Callable[[QueryReport], object] | None = None,
        *,
        interval_s: float = INTERVAL_S,
        queries: Collection[str] = (),
    ) -> None:
        """Prepare a listener for `spark.streams.addListener`.

        Args:
            options: The options of the queries' readers; name servers and credentials suffice.
            on_report: Called with each report, in the listener's own thread, which waits for it.
            interval_s: Seconds between two measurements of a query.
            queries: Names of the only queries to report; by default all that read RocketMQ.
        """
        if not interval_s > 0:
            advice = f"give seconds, such as {INTERVAL_S:g}"
            raise OptionError("interval_s", str(interval_s), "not positive", advice=advice)
        if isinstance(queries, str):
            raise OptionError("queries", queries, "a text, no list of names", advice=f"give [{queries!r}]")
        self._settings: HelperOptions = parse_helper_options(options)
        self._queries = frozenset(queries)
        self._watcher = Watcher(self._report, on_report or _ignore, interval_s)

    def __repr__(self) -> str:
        return f"<LagListener {self._watcher!r}>"

    def reports(self) -> tuple[QueryReport, ...]:
        """Return the last report of each query that goes on; a query has none before its first progress event."""
        return self._watcher.reports()

    def close(self) -> None:
        """Report no query any more; call this after `removeListener`, of which Spark tells a listener nothing."""
        self._watcher.close()

    # --- called by Spark ---------------------------------------------------------------------------------------------

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Do nothing: the query has no position yet, and Spark waits for this method."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Take over the event, and have a query that is new measured at once; do not wait for it."""
        taken = _take(event.progress)
        if not self._queries or taken.name in self._queries:
            self._watcher.note(taken)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Take over that the query is alive."""
        self._watcher.note_idle(str(event.runId))

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Forget the query."""
        self._watcher.forget(str(event.runId))

    # --- in the watcher's thread -------------------------------------------------------------------------------------

    def _report(self, run: WatchedRun) -> QueryReport | None:
        """Return a report of a run; None if the query reads no RocketMQ."""
        event = run.event
        found = read_position(event)
        if found is None:
            return None
        lag = self._measure(found)
        _tell_troubles(run, lag)
        return QueryReport(
            event.query, event.query_id, event.run_id, lag, time.time(), run.activity, tuple(found.statuses)
        )

    def _measure(self, found: QueryPosition) -> Lag:
        try:
            now_ms = time.time_ns() // 1_000_000
            return measure_positions(self._cluster, found.positions, now_ms=now_ms, missing=found.missing)
        except RocketMQError as error:
            return unknown_lag(found.positions, str(error))

    @cached_property
    def _cluster(self) -> Cluster:
        return open_cluster(self._settings.cluster)


def _take(progress: StreamingQueryProgress) -> ProgressEvent:
    return ProgressEvent(
        query_id=str(progress.id),
        run_id=str(progress.runId),
        name=progress.name,
        rows=progress.numInputRows or 0,
        durations_ms=progress.durationMs,
        json=progress.json,
    )


def _tell_troubles(run: WatchedRun, lag: Lag) -> None:
    total = lag.total
    figures = (total.messages, total.gone, total.bytes, total.seconds, total.retention_seconds)
    reasons = {
        "a part of its lag is unknown": next((each.unknown for each in figures if each.unknown is not None), None),
        "ages are by the clock of this machine": next(iter(lag.without_clock.values()), None),
    }
    for trouble, reason in reasons.items():
        if reason is None:
            run.end_trouble(trouble)
        else:
            run.begin_trouble(trouble, reason)


def _ignore(report: QueryReport) -> None:
    """Do nothing with a report, which metrics and `reports` show in any case."""
