"""Scenarios of TLS, for servers whose certificate is signed by an authority that the world trusts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pyspark_rocketmq.cluster.cluster import open_cluster
from pyspark_rocketmq.errors import ConnectError
from pyspark_rocketmq.net.settings import TlsSettings
from tests.flows.reading import offsets_of, read_all, whole
from tests.flows.world import World, patient_net

OTHER_CA = Path(__file__).parents[2] / "net" / "pki" / "other_ca.pem"


def trusted_server_is_talked_to(world: World) -> None:
    """Check that messages are sent and read over TLS, with name server and broker."""
    queue = world.make_queue()
    world.fill(queue, 100, size=1000)

    assert offsets_of(read_all(world.cluster, [whole(queue, 100)])) == {queue: list(range(100))}


def threads_share_a_trusted_connection(world: World) -> None:
    """Check that requests over the threaded connection are encrypted with TLS and answered."""
    queue = world.make_queue()

    with world.shared_cluster() as cluster:
        assert cluster.offsets.fetch_max([queue]) == {queue: 0}


def stranger_is_not_talked_to(world: World) -> None:
    """Check that a client refuses a certificate of an unknown authority; the error has address and advice."""
    untrusting = patient_net(TlsSettings(trust_cert_path=str(OTHER_CA)))
    cluster = open_cluster(replace(world.settings, net=untrusting, retries=0))

    with pytest.raises(ConnectError, match=rf"certificate.*address {world.name_server}.*;"):
        cluster.routes.route("any")


def authority_may_be_given_as_text(world: World) -> None:
    """Check that a client accepts the authority's certificate as text instead of as a file."""
    tls = world.settings.net.tls
    assert tls is not None and tls.trust_cert_path is not None
    text = Path(tls.trust_cert_path).read_text(encoding="ascii")

    cluster = open_cluster(replace(world.settings, net=patient_net(TlsSettings(trust_cert=text))))

    assert cluster.name_servers.fetch_brokers()
