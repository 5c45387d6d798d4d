"""The default limits of a cluster's settings are the documented ones, and take effect."""

from __future__ import annotations

import pytest

from pyspark_rocketmq.cluster.retrying import Retrying
from pyspark_rocketmq.cluster.route_table import RouteTable
from pyspark_rocketmq.cluster.settings import ClusterSettings
from pyspark_rocketmq.errors import ConnectionLost
from pyspark_rocketmq.model import Address
from pyspark_rocketmq.net.settings import NetSettings
from tests.cluster.scripted import ScriptedLinks, cluster_of, route_of

DEFAULTS = ClusterSettings((Address("ns", 1),))


def test_a_route_is_fetched_again_after_30_s() -> None:
    """A route is used for 30 s by default."""
    links, now = ScriptedLinks(), [1000.0]
    links.serve("ns:1", GET_ROUTEINFO_BY_TOPIC=route_of(**{"broker-a": {0: "a:1"}}))
    cluster = cluster_of(links)
    routes = RouteTable(cluster.name_servers.fetch_route, DEFAULTS.route_max_age_s, clock=lambda: now[0])
    for now[0], count in ((1000.0, 1), (1029.75, 1), (1030.0, 2), (1059.75, 2), (1060.0, 3)):
        routes.route("orders")
        assert len(links.asked("GET_ROUTEINFO_BY_TOPIC")) == count


def test_a_request_is_repeated_three_times_after_pauses_of_at_least_50_ms() -> None:
    """By default the pauses are 0.1, 0.2 and 0.4 s, at random up to half shorter; the fourth failure is raised."""
    pauses: list[float] = []
    failures: list[int] = []

    def fail() -> None:
        failures.append(1)
        raise ConnectionLost("scripted")

    with pytest.raises(ConnectionLost):
        Retrying(DEFAULTS.retries, DEFAULTS.pause, pauses.append).run(fail)
    assert len(failures) == 4
    assert all(most / 2 <= pause_s <= most for pause_s, most in zip(pauses, (0.1, 0.2, 0.4), strict=True))


def test_connections_and_requests_are_waited_for_3_s() -> None:
    """By default the deadline to connect and that of a request are 3 s away, as in the Java client."""
    settings = NetSettings()

    assert (settings.connect_deadline().seconds, settings.request_deadline().seconds) == (3.0, 3.0)
