"""Turn reports into metrics of Prometheus, and serve them over HTTP when the user asks for it.

Each metric about lag has a second one whose name ends in `_known`. A figure of a queue that is unknown has no sample,
and its `_known` is 0; a sample of 0 would look like no lag. Figures of many queues together have a sample for the part
that is known, and `_known` 0 if a part is not: what is unknown can only make them worse. `_known` 1 without a sample
means that there is nothing to measure, such as the time to retention when no message waits.

All samples come from the last reports, so the series of a query end with it.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ..errors import ExtraMissing, OptionError
from ..lag.figures import QueueLag, TotalLag
from ..model import Finding
from ..source.reports import PlannerStatus
from .listener import LagListener
from .reports import QueryReport

try:
    from prometheus_client import CollectorRegistry, start_http_server
    from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
    from prometheus_client.registry import Collector
except ModuleNotFoundError as missing:
    what = f"metrics need {missing.name}, not installed for {sys.executable}"
    raise ExtraMissing(what, advice="run pip install 'pyspark-rocketmq[monitor]'") from None

__all__ = ["LagCollector", "MetricsServer", "serve_metrics"]

PORT = 9464
MOST_QUEUES = 200
_PREFIX = "pyspark_rocketmq_"
_SILENT_S = 10.0
"""Seconds after which a client that sends no request, or takes no response, loses its connection."""

_QUERY = ("query",)
_QUEUE = ("query", "topic", "broker", "queue")
_Labels = tuple[str, ...]


class _LagMetric(NamedTuple):
    """A figure of `QueueLag` as a metric."""

    figure: str
    name: str
    help: str


_OF_QUEUES = (
    _LagMetric("position", "position", "Next offset that the query reads after the last batch that Spark reported."),
    _LagMetric("end", "end", "Offset that the next message of the queue gets."),
)
_OF_LAG = (
    _LagMetric("messages", "lag_messages", "Offsets from the position to the end."),
    _LagMetric("gone", "lag_gone_messages", "Messages after the position that are deleted already."),
    _LagMetric("bytes", "lag_bytes", "Estimated stored size of the messages from the position to the end."),
    _LagMetric("seconds", "lag_seconds", "Age of the next message; of several queues the largest."),
    _LagMetric(
        "retention_seconds",
        "retention_left_seconds",
        "Time until the broker may delete the next message because of its age; of several queues the smallest.",
    ),
)


class _QueryMetric(NamedTuple):
    """A number of a report as a metric; there is no sample where it is None."""

    name: str
    help: str
    read: Callable[[QueryReport], float | None]


def _of_planners(read: Callable[[PlannerStatus], int]) -> Callable[[QueryReport], float | None]:
    """Return a function that adds up a number of all planners of a query; None if they report nothing."""
    return lambda report: sum(map(read, report.statuses)) if report.statuses else None


_GAUGES = (
    _QueryMetric("query_queues", "Queues in which the query has a position.", lambda of: of.lag.total.queues),
    _QueryMetric("query_unknown_queues", "Queues whose lag is unknown.", lambda of: of.lag.total.unknown_queues),
    _QueryMetric(
        "query_queues_without_position",
        "Queues that the query does not read yet.",
        _of_planners(lambda status: status.without_position),
    ),
    _QueryMetric("query_measured_timestamp_seconds", "Time of the last measurement.", lambda of: of.measured_at_s),
    _QueryMetric(
        "query_last_event_timestamp_seconds",
        "Time of the last event of Spark about the query.",
        lambda of: of.activity.seen_at_s,
    ),
    _QueryMetric(
        "query_last_batch_rows",
        "Rows of the last batch.",
        lambda of: of.activity.last_rows if of.activity.batches else None,
    ),
    _QueryMetric(
        "query_last_batch_duration_seconds",
        "Duration of the last batch.",
        lambda of: of.activity.last_seconds if of.activity.batches else None,
    ),
    _QueryMetric(
        "query_commits_refused",
        "Whether the query commits no more because its group has live members.",
        _of_planners(lambda status: status.is_commit_refused),
    ),
)
_COUNTERS = (
    _QueryMetric("query_rows", "Rows that the query has read from all its sources.", lambda of: of.activity.rows),
    _QueryMetric(
        "query_failed_commits",
        "Commits of positions that failed and were repeated.",
        _of_planners(lambda status: status.failed_commits),
    ),
)


class LagCollector(Collector):
    """Yields the last reports of listeners as metrics, for a registry of `prometheus_client`, which takes only one."""

    def __init__(self, *listeners: LagListener, most_queues: int = MOST_QUEUES) -> None:
        """Prepare a collector.

        Args:
            listeners: The listeners whose reports become metrics.
            most_queues: Number of queues of one query up to which each queue has series. A query with more queues has
                series for each topic, with empty labels `broker` and `queue`; with more topics than this, for none.
        """
        if most_queues < 0:
            advice = f"give a number, such as {MOST_QUEUES}"
            raise OptionError("most_queues", str(most_queues), "negative", advice=advice)
        self._listeners = listeners
        self._most_queues = most_queues

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of all queries that go on; of two queries under one name, those of the newer one."""
        found = (report for listener in self._listeners for report in listener.reports())
        reports = list({report.query: report for report in found}.values())
        parts = [part for report in reports for part in _divide(report, self._most_queues)]
        totals = [((report.query,), report.lag.total) for report in reports]
        for metric in (*_OF_QUEUES, *_OF_LAG):
            yield from _figures("", metric, _QUEUE, parts)
        for metric in _OF_LAG:
            yield from _figures("query_", metric, _QUERY, totals)
        yield from _about_queries(reports)


_Parts = Sequence[tuple[_Labels, QueueLag | TotalLag]]


def _divide(report: QueryReport, most: int) -> Iterable[tuple[_Labels, QueueLag | TotalLag]]:
    """Return the lag of a query by queue; of many queues by topic; of many topics nothing."""
    queues = report.lag.queues
    if len(queues) <= most:
        return [((report.query, each.topic, each.broker, str(each.queue_id)), each) for each in queues]
    topics: dict[str, list[QueueLag]] = {}
    for each in queues:
        topics.setdefault(each.topic, []).append(each)
    if len(topics) > most:
        return []
    return [((report.query, topic, "", ""), TotalLag.of(found)) for topic, found in topics.items()]


def _figures(level: str, metric: _LagMetric, labels: _Labels, parts: _Parts) -> Iterator[Metric]:
    """Yield the metric of a figure, and the one that tells whether it is known."""
    name = f"{_PREFIX}{level}{metric.name}"
    values = GaugeMetricFamily(name, metric.help, labels=labels)
    known = GaugeMetricFamily(f"{name}_known", f"Whether {name} is known completely (1) or not (0).", labels=labels)
    for texts, lag in parts:
        figure = getattr(lag, metric.figure, None)
        if figure is None:
            continue  # Positions and ends of several queues together tell nothing.
        if figure.value is not None:
            values.add_metric(texts, figure.value)
        known.add_metric(texts, figure.unknown is None)
    yield from (values, known)


def _about_queries(reports: Sequence[QueryReport]) -> Iterator[Metric]:
    """Yield the metrics of queries as a whole: their measurement, their batches, and what their planners report."""
    for metric in _GAUGES:
        yield _fill(GaugeMetricFamily(_PREFIX + metric.name, metric.help, labels=_QUERY), metric, reports)
    for metric in _COUNTERS:
        yield _fill(CounterMetricFamily(_PREFIX + metric.name, metric.help, labels=_QUERY), metric, reports)
    durations = SummaryMetricFamily(
        f"{_PREFIX}query_batch_duration_seconds", "Number and total duration of batches.", labels=_QUERY
    )
    losses = CounterMetricFamily(
        f"{_PREFIX}query_losses", "Losses that planning found and passed over.", labels=("query", "finding")
    )
    for report in reports:
        durations.add_metric((report.query,), report.activity.batches, report.activity.seconds)
        for finding, count in _losses(report).items():
            losses.add_metric((report.query, finding), count)
    yield from (durations, losses)


def _fill(
    family: GaugeMetricFamily | CounterMetricFamily, metric: _QueryMetric, reports: Iterable[QueryReport]
) -> Metric:
    for report in reports:
        if (value := metric.read(report)) is not None:
            family.add_metric((report.query,), value)
    return family


def _losses(report: QueryReport) -> Counter[str]:
    """Return the losses of all sources of a query by the name of the finding; none if no planner reports.

    Findings without a loss are 0, since Prometheus sees no increase where a series begins.
    """
    found: Counter[str] = Counter(dict.fromkeys(Finding.__members__, 0) if report.statuses else {})
    for status in report.statuses:
        found.update(status.losses)
    return found


# --- the server ------------------------------------------------------------------------------------------------------


class MetricsServer:
    """An HTTP server of metrics, with threads of its own."""

    def __init__(self, collector: Collector, port: int, address: str) -> None:
        registry = CollectorRegistry()
        registry.register(collector)
        self._server, self._thread = start_http_server(port, addr=address, registry=registry)
        handler: Any = self._server.RequestHandlerClass
        self._server.RequestHandlerClass = type("ScrapeHandler", (handler,), {"timeout": _SILENT_S})
        self.address = address
        self.port: int = self._server.server_port

    def __repr__(self) -> str:
        return f"<MetricsServer {self.url}>"

    @property
    def url(self) -> str:
        """The address of the metrics."""
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"http://{host}:{self.port}/metrics"

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def serve_metrics(
    *listeners: LagListener, port: int = PORT, address: str = "127.0.0.1", most_queues: int = MOST_QUEUES
) -> MetricsServer:
    """Serve the metrics of listeners over HTTP, by default to this machine only, until `close` of the server.

    Args:
        listeners: The listeners whose reports become metrics.
        port: The port; 0 takes a free one.
        address: The address to listen at; `0.0.0.0` lets other machines in, without a password.
        most_queues: Number of queues of one query up to which each queue has series.
    """
    return MetricsServer(LagCollector(*listeners, most_queues=most_queues), port, address)
