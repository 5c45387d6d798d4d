"""Provide servers and official Java clients to tests that mix them with our clients.

The servers are real brokers of every version that `REAL` names, and the stub. The official clients are of release
5.3.3; the official admin tools are of the server's release. Tests with official clients only use `java_fixtures`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from pyspark_rocketmq.model import parse_address

from .artefacts import DEFAULT_VERSION, chosen_versions
from .fixtures import fetch_or_skip
from .java_clients import JavaClients
from .java_fixtures import ScenarioServer, stub_server
from .servers import RealCluster

STUB = "stub"


@pytest.fixture(scope="session", params=[*chosen_versions(os.environ.get("REAL")), STUB])
def mixed_server(request: pytest.FixtureRequest) -> Iterator[ScenarioServer]:
    """The server of a test with clients of both kinds: real brokers of each version, then the stub."""
    with ExitStack() as stack:
        yield stub_server(stack) if request.param == STUB else _real_server(stack, request.param)


@pytest.fixture(scope="session")
def mixed_processes(mixed_server: ScenarioServer) -> Iterator[Callable[[str], JavaClients]]:
    """A function that returns the JVM with clients of a release; it starts the JVM at the first call."""
    with ExitStack() as stack:
        running: dict[str, JavaClients] = {}

        def process(version: str) -> JavaClients:
            if version not in running:
                fetch_or_skip(version)
                running[version] = stack.enter_context(JavaClients(version, mixed_server.name_server))
            return running[version]

        yield process


@pytest.fixture
def mixed_clients(mixed_processes: Callable[[str], JavaClients]) -> Iterator[JavaClients]:
    """Official clients of release 5.3.3; they are shut down after the test."""
    process = mixed_processes(DEFAULT_VERSION)
    yield process
    process.shutdown_all()


@pytest.fixture
def mixed_tools(mixed_server: ScenarioServer, mixed_processes: Callable[[str], JavaClients]) -> Iterator[JavaClients]:
    """Official admin tools of the server's release, because later tools send requests that it does not know."""
    process = mixed_processes(mixed_server.name.rpartition(" ")[2] if "real" in mixed_server.name else DEFAULT_VERSION)
    yield process
    process.shutdown_all()


def _real_server(stack: ExitStack, version: str) -> ScenarioServer:
    fetch_or_skip(version)
    cluster = stack.enter_context(RealCluster(version))
    return ScenarioServer(f"real RocketMQ {version}", cluster.name_server, parse_address(str(cluster.broker.address)))
