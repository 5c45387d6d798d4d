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
    """Each scenario holds with the release's own generation: 1.0 on 4.9.7, 2.0 since."""
    scenario(real_world(real_acl))


@pytest.mark.slow
@each_of(EVERYWHERE)
def test_every_request_is_signed(real_acl: RealCluster, scenario: Scenario) -> None:
    """Each scenario of one broker holds where unsigned requests are refused."""
    scenario(real_world(real_acl))


@each_of(TLS)
def test_tls(real_tls: RealCluster, scenario: Scenario) -> None:
    """Each scenario of TLS holds on real servers."""
    scenario(real_world(real_tls))


def test_a_plain_client_is_cut_off(real_tls: RealCluster) -> None:
    """Servers with TLS close a plain connection, and the error names the name server in time."""
    settings = replace(real_world(real_tls).settings, net=patient_net(), retries=0)

    with pytest.raises(TransportError, match=real_tls.name_server):
        open_cluster(settings).routes.route("any")
