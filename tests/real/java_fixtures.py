"""Which server and which official clients does a Java scenario get?

Every scenario that takes `clients` runs against the real broker and against the stub, with the same assertions;
`clients` are of release 5.3.3, `any_clients` of 5.3.3 and of 4.9.7. Objects that a test made are shut down after it;
topics and groups have names of their own, so servers and JVMs serve a whole run.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from pyspark_rocketmq.model import Address, parse_address
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode

from .artefacts import DEFAULT_VERSION
from .fixtures import ClusterKeeper, fetch_or_skip
from .java_clients import JavaClients
from .probe import ask
from .servers import CLUSTER_NAME, topic_fields, wait_until

OLD_CLIENT = "4.9.7"
_numbers = itertools.count(1)


@dataclass(frozen=True)
class ScenarioServer:
    """What a scenario may know of its server; nothing tells real and stub apart."""

    name: str
    name_server: str
    broker: Address

    def create_topic(self, topic: str, queues: int = 4) -> None:
        """Make a topic and wait until it is routed."""
        answer = ask(self.broker, RequestCode.UPDATE_AND_CREATE_TOPIC, topic_fields(topic, queues, permission=6))
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        wait_until(lambda: self._routes(topic), f"topic {topic} is routed")

    def _routes(self, topic: str) -> bool:
        answer = ask(parse_address(self.name_server), RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
        return answer.code == ResponseCode.SUCCESS


def real_server(stack: ExitStack) -> ScenarioServer:
    """A real name server and broker of the default release."""
    keeper = ClusterKeeper(DEFAULT_VERSION)
    stack.callback(keeper.close)
    cluster = keeper.cluster()
    return ScenarioServer(f"real RocketMQ {DEFAULT_VERSION}", cluster.name_server, cluster.broker.address)


def stub_server(stack: ExitStack) -> ScenarioServer:
    """A stub configured as the real broker is (conf/brokers/broker.conf)."""
    from broker_stub import Settings, StubBroker

    settings = Settings(
        cluster_name=CLUSTER_NAME,
        delay_levels=" ".join(["1s"] * 18),
        transaction_timeout_ms=2000,
        transaction_check_interval_ms=3000,
        lock_lease_ms=5000,
    )
    stub = stack.enter_context(StubBroker(settings=settings))
    return ScenarioServer("the stub", stub.name_server, parse_address(stub.broker_address()))


SERVERS = {"real": real_server, "stub": stub_server}


@pytest.fixture(scope="session", params=SERVERS)
def java_server(request: pytest.FixtureRequest) -> Iterator[ScenarioServer]:
    """The server of a Java scenario: a real one, then the stub."""
    fetch_or_skip(DEFAULT_VERSION)
    with ExitStack() as stack:
        yield SERVERS[request.param](stack)


@pytest.fixture(scope="session")
def java_processes(java_server: ScenarioServer) -> Iterator[Callable[[str], JavaClients]]:
    """One JVM for each release, started when first asked for."""
    running: dict[str, JavaClients] = {}

    def process(version: str) -> JavaClients:
        if version not in running:
            fetch_or_skip(version)
            running[version] = JavaClients(version, java_server.name_server)
        return running[version]

    yield process
    for clients in running.values():
        clients.close()


@pytest.fixture
def clients(java_processes: Callable[[str], JavaClients]) -> Iterator[JavaClients]:
    """Official clients of release 5.3.3."""
    process = java_processes(DEFAULT_VERSION)
    yield process
    process.shutdown_all()


@pytest.fixture(params=[DEFAULT_VERSION, OLD_CLIENT])
def any_clients(request: pytest.FixtureRequest, java_processes: Callable[[str], JavaClients]) -> Iterator[JavaClients]:
    """Official clients of release 5.3.3, then of 4.9.7."""
    process = java_processes(request.param)
    yield process
    process.shutdown_all()


@pytest.fixture
def unique(request: pytest.FixtureRequest) -> str:
    """A name for groups and topics that no other test has."""
    return f"{re.sub(r'[^A-Za-z0-9]+', '_', request.node.originalname.removeprefix('test_'))}_{next(_numbers)}"


@pytest.fixture
def topic(unique: str, java_server: ScenarioServer) -> str:
    """A fresh topic with four queues."""
    java_server.create_topic(unique)
    return unique


@pytest.fixture
def single_queue_topic(unique: str, java_server: ScenarioServer) -> str:
    """A fresh topic with one queue."""
    name = f"{unique}_single"
    java_server.create_topic(name, queues=1)
    return name
