"""Run the flows of a DataFrame that is written to a topic on the stub."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from inspect import getmembers, isfunction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from broker_stub import StubCluster, TlsFiles
from pyspark_rocketmq.cluster.names import Namespace
from pyspark_rocketmq.cluster.signing import Credentials
from pyspark_rocketmq.net.settings import TlsSettings
from tests.flows.stub_servers import QUICK, start_stub, stub_world
from tests.flows.test_security import KEY, PKI, SECRET
from tests.flows.world import World, patient_net
from tests.spark import sink_flows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

Flow = Callable[["SparkSession", World, Path], None]

FLOWS: list[Flow] = [
    flow
    for name, flow in getmembers(sink_flows, isfunction)
    if flow.__module__ == sink_flows.__name__ and not name.startswith("_")
]
TWO_BROKERS, CLOSED = ([flow for flow in FLOWS if flow.__name__.startswith(kind)] for kind in ("two_brokers", "closed"))
EVERYWHERE = [flow for flow in FLOWS if flow not in TWO_BROKERS + CLOSED]
OLD: list[Flow] = [sink_flows.delayed_rows_come_when_they_should]
"""The flows in which releases differ."""
GUARDED: list[Flow] = [sink_flows.every_column_arrives, sink_flows.a_stream_writes_each_row_once]
"""The flows that run with access control, TLS and namespaces, too."""


def each_of(wanted: list[Flow]) -> pytest.MarkDecorator:
    """Return a decorator that parametrizes a test with these flows, under their names."""
    return pytest.mark.parametrize("flow", wanted, ids=lambda flow: flow.__name__)


@pytest.fixture(scope="module")
def one_broker() -> Iterator[World]:
    """A stub with one broker."""
    with start_stub() as stub:
        yield stub_world(stub)


@each_of(EVERYWHERE)
def test_one_broker(spark: SparkSession, one_broker: World, tmp_path: Path, flow: Flow) -> None:
    """Each flow for one broker passes on the stub."""
    flow(spark, one_broker, tmp_path)


@each_of(OLD)
def test_an_old_broker(spark: SparkSession, tmp_path: Path, flow: Flow) -> None:
    """The flows in which releases differ pass on a stub that emulates 4.9.7."""
    with start_stub("4.9.7") as stub:
        flow(spark, stub_world(stub, "4.9.7"), tmp_path)


@each_of(TWO_BROKERS)
def test_two_brokers(spark: SparkSession, two_broker_world: World, tmp_path: Path, flow: Flow) -> None:
    """Each flow in which one of two brokers stops passes on the stub."""
    flow(spark, two_broker_world, tmp_path)


@each_of(CLOSED)
def test_no_topics_are_made(spark: SparkSession, tmp_path: Path, flow: Flow) -> None:
    """Each flow for a cluster that creates no topics passes on the stub."""
    with StubCluster(settings=replace(QUICK, auto_create_topics=False)) as stub:
        flow(spark, stub_world(stub), tmp_path)


@each_of(GUARDED)
def test_guarded(spark: SparkSession, tmp_path: Path, flow: Flow) -> None:
    """Flows pass on a stub with access control and TLS, for a user with a namespace."""
    certificate = TlsFiles(str(PKI / "server.pem"), str(PKI / "server.key"))
    options: dict[str, Any] = {
        "credentials": Credentials(KEY, SECRET),
        "net": patient_net(TlsSettings(trust_cert_path=str(PKI / "ca.pem"))),
        "namespace": Namespace("tenant"),
    }
    with start_stub(acl={KEY: SECRET}, tls=certificate) as stub:
        flow(spark, stub_world(stub, **options), tmp_path)
