"""Measure a query with a LagListener and Prometheus beside one without; write docs/benchmarks/monitor.md."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from urllib.request import urlopen

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from pyspark_rocketmq.monitor import LagListener, QueryReport
from pyspark_rocketmq.monitor.prometheus import MetricsServer, serve_metrics
from tests.bench.bench_broker import BenchBroker
from tests.bench.bench_settings import LARGE, ROUNDS
from tests.bench.report import report_of
from tests.bench.rounds import Measurement, Run, measure_in_rounds
from tests.bench.sparks import BenchSpark, open_spark, reading

pytestmark = [pytest.mark.bench, pytest.mark.real]

ALONE, AGAIN, HEARD, WATCHED = "alone", "alone again", "only heard", "watched"
BATCHES = 20
INTERVAL_S = 1.0
"""Seconds between two measurements, and between two scrapes: 15 times as often as by default."""
ABOUT = (
    f"A stream reads the topic in {BATCHES} batches of equal size with `availableNow` into the `noop` sink. "
    f"*Watched*: with a `LagListener` that measures every {INTERVAL_S:g} s (by default every 15 s), and a scrape of "
    "its Prometheus metrics as often. *Only heard*: with a listener in Python that does nothing, which shows what "
    "Spark takes to hand over its events. *Alone again* is the same as *alone*: their ratio shows the noise. Ratios "
    "are of runs in the same round."
)


def test_monitor(bench_broker: BenchBroker) -> None:
    more = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(-(-LARGE.messages // BATCHES))}
    with (
        report_of("monitor", "A query that is watched", ABOUT, RocketMQ=bench_broker.cluster.version) as report,
        open_spark() as spark,
    ):
        found = _measure(spark, bench_broker, reading(bench_broker, LARGE, more))
        report.add_measurements(str(LARGE), found, best_of=[ALONE])
        rates = {(each.contender, each.number): each.rate for each in found}
        for number in range(ROUNDS):
            for name in (AGAIN, HEARD, WATCHED):
                report.collect(f"{name} ÷ {ALONE}", rates[name, number] / rates[ALONE, number])
        report.add_collected(f"Rates over {ROUNDS} rounds")


def _measure(spark: BenchSpark, bench_broker: BenchBroker, options: Mapping[str, str]) -> Sequence[Measurement]:
    alone = spark.ending_stream(ALONE, "rocketmq", options, LARGE.messages, bench_broker.processes)

    def run_watched(count: int) -> Run:
        with _watching(spark.session, options) as seen:
            run = alone.run(count)
        assert len(seen) > 1, f"the query was measured {len(seen)} times in {run.seconds:.1f} s"
        return run

    def run_heard(count: int) -> Run:
        with _listening(spark.session, _Silent()):
            return alone.run(count)

    again, heard = replace(alone, name=AGAIN), replace(alone, name=HEARD, run=run_heard)
    return measure_in_rounds([alone, again, heard, replace(alone, name=WATCHED, run=run_watched)], ROUNDS)


class _Silent(StreamingQueryListener):
    """Does nothing with the events that Spark hands over to Python."""

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Do nothing."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Do nothing."""

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Do nothing."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Do nothing."""


@contextmanager
def _listening(session: SparkSession, listener: StreamingQueryListener) -> Iterator[None]:
    session.streams.addListener(listener)
    try:
        yield
    finally:
        session.streams.removeListener(listener)


@contextmanager
def _watching(session: SparkSession, options: Mapping[str, str]) -> Iterator[list[QueryReport]]:
    """Watch the queries of a session and scrape their metrics during the `with` block; yield the reports."""
    seen: list[QueryReport] = []
    listener = LagListener(options, seen.append, interval_s=INTERVAL_S)
    server = serve_metrics(listener, port=0)
    try:
        with _listening(session, listener), _repeating(lambda: _scrape(server)):
            yield seen
    finally:
        listener.close()
        server.close()


def _scrape(server: MetricsServer) -> None:
    with urlopen(server.url, timeout=30) as response:
        response.read()


@contextmanager
def _repeating(act: Callable[[], None]) -> Iterator[None]:
    """Call `act` at the interval, in a thread of its own, during the `with` block."""
    ended = threading.Event()

    def repeat() -> None:
        while not ended.wait(INTERVAL_S):
            act()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
