"""Test the listener with Spark: a query that runs is reported, and its series end with it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import pytest
from prometheus_client import CollectorRegistry

from broker_stub import StubBroker
from pyspark_rocketmq.monitor import LagListener
from pyspark_rocketmq.monitor.prometheus import LagCollector
from tests.page_blocks import read_blocks
from tests.spark.queries import TOPIC, Sink, given, running, stream, wait_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_a_running_query_is_watched(spark: SparkSession, tmp_path: Path) -> None:
    """A listener tells what waits for the next trigger; when the query stops, its series and the thread end."""
    with StubBroker({TOPIC: 2}) as stub:
        listener, registry = LagListener(given(stub), interval_s=0.2), CollectorRegistry()
        registry.register(LagCollector(listener))
        spark.streams.addListener(listener)
        for body in (b"a", b"b", b"c"):
            stub.put(TOPIC, body)
        try:
            with running(stream(spark, stub), Sink(), tmp_path, processingTime="1 hour") as query:
                wait_for(lambda: len(listener.reports()) == 1, "the first batch is reported")
                stub.put(TOPIC, b"d")
                wait_for(lambda: listener.reports()[0].lag.total.messages.value == 1, "the new message is seen")
                [report], label = listener.reports(), {"query": str(query.id)}
                rows = registry.get_sample_value("pyspark_rocketmq_query_rows_total", label)
                waiting = registry.get_sample_value("pyspark_rocketmq_query_lag_messages", label)
            wait_for(lambda: listener.reports() == (), "the query is forgotten")
        finally:
            spark.streams.removeListener(listener)
            listener.close()

    assert (report.query_id, report.run_id) == (str(query.id), str(query.runId))
    assert (rows, waiting) == (3, 1)
    assert report.activity.batches == 1 and report.activity.last_seconds > 0


def test_the_programs_of_the_page(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The one line, the listener and the server of docs/monitoring.md tell of a query that is behind."""
    one_line, listen, serve = read_blocks("docs/monitoring.md", __file__)
    with StubBroker({TOPIC: 2}) as stub:
        page: dict[str, Any] = {"spark": spark}
        exec(listen.replace("localhost:9876", stub.name_server), page)
        try:
            stub.put(TOPIC, b"a", store_timestamp=0)
            with running(stream(spark, stub), Sink(), tmp_path, processingTime="1 hour") as query:
                wait_for(lambda: len(page["listener"].reports()) == 1, "the first batch is reported")
                stub.put(TOPIC, b"b", store_timestamp=0)
                exec(one_line.replace("localhost:9876", stub.name_server), {**page, "query": query})
                exec(serve.replace("9464", "0", 1), page)
                scraped = urlopen(page["server"].url, timeout=10).read().decode()
        finally:
            spark.streams.removeListener(page["listener"])
            page["listener"].close()
            page["server"].close()

    assert re.match(r"1 \d+\.\d+ 0", capsys.readouterr().out)
    assert f'pyspark_rocketmq_query_rows_total{{query="{query.id}"}} 1.0' in scraped
