"""Test metrics as Prometheus reads them: scraped over HTTP and parsed by its own parser."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from broker_stub import StubCluster
from pyspark_rocketmq.errors import OptionError
from pyspark_rocketmq.model import Finding, MessageQueue
from pyspark_rocketmq.monitor import LagListener, prometheus
from pyspark_rocketmq.monitor.prometheus import LagCollector, serve_metrics
from pyspark_rocketmq.source.reports import PlannerStatus, measure_lag
from pyspark_rocketmq.wire.codes import RequestCode
from tests.monitor.events import TOPIC, queue_of, run_event, tell
from tests.source.driving import wait_for

PAGE = Path(__file__).parents[2] / "docs" / "monitoring.md"
STATUS: dict[str, Any] = {
    "role": "solo",
    "group": "g",
    "failed_commits": 3,
    "is_commit_refused": True,
    "losses": {"BELOW_MIN": 2},
}
Samples = dict[tuple[str, ...], float]
"""Values by the name of the sample and the values of its labels, without empty ones."""


@pytest.fixture
def stub() -> Iterator[StubCluster]:
    """A stub of two brokers, with a topic of two queues at each."""
    with StubCluster(2, topics={TOPIC: 2}) as made:
        yield made


@pytest.fixture
def listener(stub: StubCluster) -> Iterator[LagListener]:
    """A listener that measures each query once."""
    made = LagListener({"nameServer": stub.name_server}, interval_s=3600)
    yield made
    made.close()


def scraped(text: str) -> Samples:
    """Return the samples in a text of Prometheus' format; fail if two have the same labels."""
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    found = {_key(sample.name, sample.labels): sample.value for sample in samples}
    assert len(found) == len(samples)
    return found


def _key(name: str, labels: Mapping[str, str]) -> tuple[str, ...]:
    order = ("query", "topic", "broker", "queue", "finding")
    return (name.removeprefix("pyspark_rocketmq_"), *(labels[label] for label in order if labels.get(label)))


def metrics(listener: LagListener, runs: int = 1, **given: Any) -> Samples:
    """Return the samples of a listener, after so many runs have reports."""
    wait_for(lambda: len(listener.reports()) == runs, "the reports")
    registry = CollectorRegistry()
    registry.register(LagCollector(listener, **given))
    return scraped(generate_latest(registry).decode())


def names(samples: Samples, *labels: str) -> set[str]:
    """Return the names of the samples with exactly these labels."""
    return {name for name, *rest in samples if tuple(rest) == labels}


@contextmanager
def serving(listener: LagListener) -> Iterator[Callable[[], str]]:
    """Serve metrics at a free port; yield a function that scrapes them."""
    server = serve_metrics(listener, port=0)
    try:
        yield lambda: urlopen(server.url, timeout=10).read().decode()
    finally:
        server.close()


def test_a_scrape_has_the_figures_of_each_queue(stub: StubCluster, listener: LagListener) -> None:
    """A scrape over HTTP has the figures that the listener reports."""
    for _ in range(5):
        stub.put(TOPIC, b"x", queue_id=1, broker="broker-b")
    with serving(listener) as scrape:
        tell(listener, {queue_of(0): 0, queue_of(1, "broker-b"): 2}, rows=2)
        wait_for(lambda: len(listener.reports()) == 1, "the report")
        text = scrape()
    found, [report] = scraped(text), listener.reports()

    at_b = ("archive", TOPIC, "broker-b", "1")
    waiting = report.lag.queues[1]
    assert (found["position", *at_b], found["end", *at_b], found["lag_messages", *at_b]) == (2, 5, 3)
    assert found["lag_bytes", *at_b] == waiting.bytes.value
    assert found["lag_seconds", *at_b] == waiting.seconds.value
    assert found["retention_left_seconds", *at_b] == waiting.retention_seconds.value
    assert found["query_lag_messages", "archive"] == 3
    assert (found["query_queues", "archive"], found["query_unknown_queues", "archive"]) == (2, 0)
    assert found["query_rows_total", "archive"] == 2
    assert found["query_batch_duration_seconds_sum", "archive"] == 1.5
    assert found["query_measured_timestamp_seconds", "archive"] == report.measured_at_s
    assert "# HELP pyspark_rocketmq_lag_seconds Age of the next message" in text
    assert "# TYPE pyspark_rocketmq_query_rows_total counter" in text


def test_a_queue_without_lag_has_no_time_to_retention(listener: LagListener) -> None:
    """If no message waits, the time to retention has no sample, but is known: there is nothing to measure."""
    tell(listener, {queue_of(0): 0})
    found = metrics(listener)

    labels = ("archive", TOPIC, "broker-a", "0")
    assert found["lag_seconds", *labels] == 0
    assert ("retention_left_seconds", *labels) not in found
    assert found["retention_left_seconds_known", *labels] == 1


def test_unknown_is_an_absent_sample(stub: StubCluster, listener: LagListener) -> None:
    """A figure that is unknown has no sample and `_known` 0; the figures of the query have what is known, marked."""
    stub.put(TOPIC, b"x", queue_id=0, broker="broker-a")
    stub.faults.cut_reply(on=RequestCode.GET_TOPIC_STATS_INFO, at="broker-b", times=None)
    tell(listener, {queue_of(0): 0, queue_of(0, "broker-b"): 0})
    found = metrics(listener)

    at_b = ("archive", TOPIC, "broker-b", "0")
    with_samples = {name for name in names(found, *at_b) if not name.endswith("_known")}
    assert with_samples == {"position"}
    assert found["lag_messages_known", *at_b] == found["lag_seconds_known", *at_b] == 0
    assert found["lag_messages_known", "archive", TOPIC, "broker-a", "0"] == 1
    assert (found["query_lag_messages", "archive"], found["query_lag_messages_known", "archive"]) == (1, 0)
    assert found["query_unknown_queues", "archive"] == 1


@pytest.mark.parametrize(("most", "kinds"), [(3, 3), (2, 2), (1, 1), (0, 1)])
def test_series_are_bounded(listener: LagListener, most: int, kinds: int) -> None:
    """A query with more queues than the bound has series by topic, and with more topics none but its own."""
    queues = [MessageQueue(topic, "broker-a", number) for topic, number in ((TOPIC, 0), (TOPIC, 1), ("bills", 0))]
    tell(listener, dict.fromkeys(queues, 0))
    found = metrics(listener, most_queues=most)

    shown = {key[1:] for key in found if key[0] == "lag_messages_known"}
    by_topic = {("archive", TOPIC), ("archive", "bills")}
    every_queue = {("archive", each.topic, "broker-a", str(each.queue_id)) for each in queues}
    no_queue: set[tuple[str, ...]] = set()
    assert shown == {3: every_queue, 2: by_topic, 1: no_queue}[kinds]
    assert found["query_lag_messages_known", "archive"] == 0
    assert (("lag_messages", "archive", TOPIC) in found) == (kinds == 2)
    assert ("lag_messages", "archive", "bills") not in found


def test_series_end_with_their_query(listener: LagListener) -> None:
    """A query that has ended has no sample; of two queries under one name, the newer one has."""
    tell(listener, {queue_of(0): 0})
    tell(listener, {queue_of(1): 0}, query="query-2", run="run-2")
    both = metrics(listener, runs=2)
    listener.onQueryTerminated(run_event("run-1"))
    newer = metrics(listener, runs=1)
    listener.onQueryTerminated(run_event("run-2"))

    assert names(both, "archive", TOPIC, "broker-a", "0") == set()
    assert both.keys() == newer.keys()
    assert metrics(listener, runs=0) == {}


def test_what_the_planner_reports_is_there(listener: LagListener) -> None:
    """Losses, failed commits and refused commits come from the planner's status."""
    status = PlannerStatus(**STATUS, **measure_lag({}, {queue_of(0): 1}))
    tell(listener, {queue_of(0): 0}, status=status.as_json())
    found = metrics(listener)

    assert found["query_losses_total", "archive", "BELOW_MIN"] == 2
    assert (found["query_failed_commits_total", "archive"], found["query_commits_refused", "archive"]) == (3, 1)
    assert found["query_queues_without_position", "archive"] == 1


def test_losses_count_from_zero(listener: LagListener) -> None:
    """Each finding has a sample before its first loss: Prometheus sees no increase where a series begins."""
    status = PlannerStatus(**{**STATUS, "losses": {}}, **measure_lag({}, {queue_of(0): 1}))
    tell(listener, {queue_of(0): 0}, status=status.as_json())
    tell(listener, {queue_of(0): 0}, query="query-2", run="run-2", name="without")
    found = metrics(listener, runs=2)

    assert {key[2:]: value for key, value in found.items() if key[0] == "query_losses_total"} == {
        (finding.name,): 0 for finding in Finding
    }


@pytest.mark.parametrize("broken", [{"losses": {"BELOW_MIN": "2"}}, {"losses": [1]}, {"failed_commits": None}])
def test_a_broken_status_breaks_no_scrape(listener: LagListener, broken: Mapping[str, Any]) -> None:
    """If a status is not as this release writes it, its metrics are absent, and all others are there."""
    status = PlannerStatus(**STATUS, **measure_lag({}, {queue_of(0): 1}))
    tell(listener, {queue_of(0): 0}, status={**status.as_json(), **broken})
    found = metrics(listener)

    assert ("query_failed_commits_total", "archive") not in found
    assert found["query_lag_messages", "archive"] == 0


def test_the_page_has_every_metric(listener: LagListener) -> None:
    """The page docs/monitoring.md lists every metric, and its alerts use only metrics that exist."""
    status = PlannerStatus(**STATUS, **measure_lag({}, {queue_of(0): 1}))
    tell(listener, {queue_of(0): 0}, status=status.as_json())
    found = {name for name, *_ in metrics(listener)} | {"retention_left_seconds", "query_retention_left_seconds"}
    page = PAGE.read_text()

    assert {name for name in found if f"`{name}`" not in page and not name.endswith("_known")} == set()
    assert set(re.findall(r"pyspark_rocketmq_(\w\w+)", page)) <= found


def test_names_are_escaped(listener: LagListener) -> None:
    """A query may have any name; the parser of Prometheus reads the same one."""
    name = 'a "quoted"\\ name\nin two lines'
    tell(listener, {queue_of(0): 0}, name=name)

    assert metrics(listener)["lag_messages", name, TOPIC, "broker-a", "0"] == 0


def test_listeners_of_two_clusters_share_a_registry(listener: LagListener) -> None:
    """One collector has the queries of several listeners; a second collector would have the same metrics again."""
    with StubCluster(1, topics={"bills": 1}) as stub:
        other = LagListener({"nameServer": stub.name_server}, interval_s=3600)
        registry = CollectorRegistry(auto_describe=True)
        registry.register(LagCollector(listener, other))
        tell(listener, {queue_of(0): 0})
        tell(other, {queue_of(0, topic="bills"): 0}, name="invoices")
        wait_for(lambda: bool(listener.reports() and other.reports()), "both reports")
        found = scraped(generate_latest(registry).decode())
        other.close()

    assert (found["query_lag_messages_known", "archive"], found["query_lag_messages_known", "invoices"]) == (1, 1)


def test_the_server_is_for_this_machine_and_ends(listener: LagListener) -> None:
    """By default the server listens on loopback; after `close` nobody listens."""
    server = serve_metrics(listener, port=0)
    server.close()

    assert server.url == f"http://127.0.0.1:{server.port}/metrics"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((server.address, server.port), timeout=5)


def test_an_address_of_ipv6_has_brackets(listener: LagListener) -> None:
    """The URL of a server that listens on IPv6 can be opened; here none does, because not all machines have IPv6."""
    server = serve_metrics(listener, port=0)
    server.close()
    server.address = "::1"

    assert server.url == f"http://[::1]:{server.port}/metrics"


def test_a_client_that_says_nothing_is_sent_away(listener: LagListener, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection without a request is closed, so that it does not keep a thread for ever."""
    monkeypatch.setattr(prometheus, "_SILENT_S", 0.05)
    server = serve_metrics(listener, port=0)
    try:
        with socket.create_connection((server.address, server.port), timeout=10) as silent:
            assert silent.recv(1) == b""
    finally:
        server.close()


def test_a_bound_is_not_negative(listener: LagListener) -> None:
    """A negative number of queues is refused."""
    with pytest.raises(OptionError, match="most_queues = '-1'"):
        LagCollector(listener, most_queues=-1)
