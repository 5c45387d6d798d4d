"""Run the scenarios of access control and TLS on real servers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pyspark_rocketmq.cluster.cluster import open_cluster
from pyspark_rocketmq.errors import TransportError
from tests.flows.scenarios import ACCESS_CONTROL, EVERYWHERE, TLS, Scenario, each_of
from tests.flows.world import patient_net
from tests.real.servers import RealCluster
from tests.real.worlds import real_world

pytestmark = pytest.mark.real


@each_of(ACCESS_CONTROL)
def test_access_control(real_acl: RealCluster, scenario: Scenario) -> None:
    """Each scenario of access control passes with the release's own version: 1.0 on 4.9.7, else 2.0."""
    scenario(real_world(real_acl))


@pytest.mark.slow
@each_of(EVERYWHERE)
def test_every_request_is_signed(real_acl: RealCluster, scenario: Scenario) -> None:
    """Each scenario for one broker passes on a broker that refuses unsigned requests."""
    scenario(real_world(real_acl))


@each_of(TLS)
def test_tls(real_tls: RealCluster, scenario: Scenario) -> None:
    """Each scenario of TLS passes on real servers."""
    scenario(real_world(real_tls))


def test_a_plain_client_is_cut_off(real_tls: RealCluster) -> None:
    """A client without TLS soon fails at servers with TLS, with an error that names the name server."""
    settings = replace(real_world(real_tls).settings, net=patient_net(), retries=0)

    with pytest.raises(TransportError, match=real_tls.name_server):
        open_cluster(settings).routes.route("any")
