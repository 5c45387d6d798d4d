"""Test metrics on real brokers: the numbers that Prometheus gets are those of `pyspark-rocketmq lag`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from pyspark_rocketmq.monitor import LagListener
from pyspark_rocketmq.monitor.prometheus import LagCollector
from tests.cli.fixtures import RunCommand
from tests.flows.world import until
from tests.monitor.events import run_event, tell
from tests.real.servers import RealCluster
from tests.real.worlds import real_world

pytestmark = pytest.mark.real

FIGURES = {
    "position": "position",
    "end": "end",
    "messages": "lag_messages",
    "gone": "lag_gone_messages",
    "bytes": "lag_bytes",
    "seconds": "lag_seconds",
    "retentionSeconds": "retention_left_seconds",
}
CLOCKS_S = 5.0
"""Seconds that may pass between the two measurements."""


def test_metrics_are_the_numbers_of_the_command(real_cluster: RealCluster, run_command: RunCommand) -> None:
    """A query and a group at the same positions have the same figures, queue by queue and in total."""
    world = real_world(real_cluster)
    queues, group = world.make_topic(3), world.make_group()
    for queue, count in zip(queues, (7, 4, 0), strict=True):
        world.fill(queue, count) if count else None
    positions = dict(zip(queues, (2, 4, 0), strict=True))
    world.cluster.offsets.commit(group, positions)
    listener = LagListener({"nameServer": real_cluster.name_server, "mqClientApiTimeout": "10s"})
    registry = CollectorRegistry()
    registry.register(LagCollector(listener))
    tell(listener, positions, name="real")
    until(lambda: bool(listener.reports()), "the query is measured")

    ran = run_command("lag", group, "--json", "-o", "mqClientApiTimeout=10s", name_server=real_cluster.name_server)
    shown: Any = json.loads(ran.out)

    for queue, of_command in zip(queues, shown["queues"], strict=True):
        labels = {"query": "real", "topic": queue.topic, "broker": queue.broker_name, "queue": str(queue.queue_id)}
        assert_same(registry, "", labels, of_command)
    assert_same(registry, "query_", {"query": "real"}, shown["total"])
    assert registry.get_sample_value("pyspark_rocketmq_query_lag_messages", {"query": "real"}) == 5
    listener.onQueryTerminated(run_event())
    assert registry.get_sample_value("pyspark_rocketmq_query_lag_messages", {"query": "real"}) is None
    listener.close()


def assert_same(registry: CollectorRegistry, level: str, labels: dict[str, str], of_command: Any) -> None:
    """Check that the samples with these labels are the figures that the command prints; ages grow in between."""
    for figure, name in FIGURES.items():
        if figure in of_command:
            sample = registry.get_sample_value(f"pyspark_rocketmq_{level}{name}", labels)
            wanted = of_command[figure]["value"]
            assert sample == (wanted if wanted is None else pytest.approx(wanted, abs=CLOCKS_S)), name
            assert registry.get_sample_value(f"pyspark_rocketmq_{level}{name}_known", labels) == 1, name
