"""Run the scenarios of access control and TLS on the stub."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_stub import TlsFiles
from pyspark_rocketmq.cluster.signing import Credentials
from pyspark_rocketmq.net.settings import TlsSettings

from .scenarios import ACCESS_CONTROL, TLS, Scenario, each_of
from .stub_servers import RELEASES, start_stub, stub_world
from .world import World, patient_net

PKI = Path(__file__).parents[1] / "net" / "pki"
KEY, SECRET = "rocketmq", "12345678"


@pytest.fixture(scope="module", params=RELEASES)
def guarded_world(request: pytest.FixtureRequest) -> Iterator[World]:
    """A stub with one broker and access control, which knows one user; once for each kind of signature."""
    with start_stub(request.param, acl={KEY: SECRET}) as stub:
        yield stub_world(stub, request.param, credentials=Credentials(KEY, SECRET))


@pytest.fixture(scope="module")
def tls_world() -> Iterator[World]:
    """A stub whose servers have a certificate and speak TLS."""
    certificate = TlsFiles(str(PKI / "server.pem"), str(PKI / "server.key"))
    with start_stub(tls=certificate) as stub:
        yield stub_world(stub, net=patient_net(TlsSettings(trust_cert_path=str(PKI / "ca.pem"))))


@each_of(ACCESS_CONTROL)
def test_access_control(guarded_world: World, scenario: Scenario) -> None:
    """Each scenario of access control passes on the stub, with the signatures of 4.9 and of 5.x."""
    scenario(guarded_world)


@each_of(TLS)
def test_tls(tls_world: World, scenario: Scenario) -> None:
    """Each scenario of TLS passes on the stub."""
    scenario(tls_world)
