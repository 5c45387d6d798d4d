"""Run the scenarios of access control and TLS on real servers; read with `allowedBrokers`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pyspark_rocketmq.cluster.cluster import open_cluster
from pyspark_rocketmq.errors import AddressNotAllowed, TransportError
from tests.flows.scenarios import ACCESS_CONTROL, EVERYWHERE, TLS, Scenario, each_of
from tests.flows.world import patient_net
from tests.real.servers import RealCluster
from tests.real.worlds import real_world
from tests.source.driving import Row, batch_options_for, read_batch

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


def test_only_listed_brokers_are_read(real_two_brokers: RealCluster) -> None:
    """With `allowedBrokers` brokers are read whose host, address or network is listed.

    If the route names another one, the read fails with its name and address.
    """
    world = real_world(real_two_brokers)
    queues = world.make_topic()
    for queue in queues:
        world.fill(queue, 10)
    listed, unlisted = (world.master(queue) for queue in queues)

    def read(allowed: str) -> list[Row]:
        return read_batch(batch_options_for(world, subscribe=queues[0].topic, allowedBrokers=allowed))

    for allowed in (listed.host, f"{listed}, {unlisted}", f"{listed.host}/32, 10.0.0.0/8"):
        assert len(read(allowed)) == 20, allowed
    with pytest.raises(AddressNotAllowed, match=f"address {unlisted}, .*broker {queues[1].broker_name}"):
        read(f"10.0.0.0/8, {listed}")
