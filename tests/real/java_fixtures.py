"""Provide a server and official Java clients to tests.

Every test that takes `clients` runs against a real broker and against the stub, with the same assertions; `clients` are
of release 5.3.3, `any_clients` of 5.3.3 and of 4.9.7. The clients that a test created are shut down after it. Each test
has its own topics and groups, so servers and JVMs serve a whole run.
"""

from __future__ import annotations

import itertools
import re
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from broker_stub import Settings, StubBroker, TlsFiles
from pyspark_rocketmq.cluster.signing import Credentials, sign
from pyspark_rocketmq.model import Address, parse_address
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode

from .artefacts import DEFAULT_VERSION
from .fixtures import fetch_or_skip
from .java_clients import JavaClients
from .our_clients import Ours
from .probe import ask
from .servers import ACCESS_KEY, CLUSTER_NAME, PKI, SECRET_KEY, RealCluster, topic_fields, wait_until

OLD_CLIENT = "4.9.7"
_numbers = itertools.count(1)


@dataclass(frozen=True)
class ScenarioServer:
    """A name server and a broker, real or stub, through which tests reach both in the same way."""

    name: str
    name_server: str
    broker: Address
    credentials: Credentials | None = None
    tls: ssl.SSLContext | None = None

    def create_topic(self, topic: str, queues: int = 4) -> None:
        """Create a topic and wait until the name server has its route."""
        fields = topic_fields(topic, queues, permission=6)
        if self.credentials:
            fields = sign(self.credentials, RequestCode.UPDATE_AND_CREATE_TOPIC, fields, b"")
        response = ask(self.broker, RequestCode.UPDATE_AND_CREATE_TOPIC, fields, tls=self.tls)
        assert response.code == ResponseCode.SUCCESS, response.remark
        wait_until(lambda: self._routes(topic), f"topic {topic} is routed")

    def committed(self, group: str, topic: str, queues: int = 4) -> int:
        """Return the sum of a group's committed offsets in the queues of a topic."""
        return sum(self._committed(group, topic, queue_id) for queue_id in range(queues))

    def _committed(self, group: str, topic: str, queue_id: int) -> int:
        fields = {"consumerGroup": group, "topic": topic, "queueId": str(queue_id)}
        response = ask(self.broker, RequestCode.QUERY_CONSUMER_OFFSET, fields)
        return int((response.fields or {}).get("offset") or 0)

    def _routes(self, topic: str) -> bool:
        name_server = parse_address(self.name_server)
        response = ask(name_server, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}, tls=self.tls)
        return response.code == ResponseCode.SUCCESS


def real_server(stack: ExitStack, *, acl: bool = False, tls: bool = False) -> ScenarioServer:
    """Start a real name server and broker of the default release; return them."""
    cluster = stack.enter_context(RealCluster(DEFAULT_VERSION, acl=acl, tls=tls))
    name = f"real RocketMQ {DEFAULT_VERSION}"
    return _server(name, cluster.name_server, str(cluster.broker.address), acl=acl, tls=tls)


def stub_server(stack: ExitStack, *, acl: bool = False, tls: bool = False) -> ScenarioServer:
    """Start a stub with the settings of the real broker (conf/brokers/quick.conf); return it."""
    settings = Settings(
        cluster_name=CLUSTER_NAME,
        delay_levels=" ".join(["1s"] * 18),
        transaction_timeout_ms=2000,
        transaction_check_interval_ms=3000,
        transaction_op_batch_interval_ms=500,
        lock_lease_ms=5000,
    )
    files = TlsFiles(str(PKI / "server.pem"), str(PKI / "server.key")) if tls else None
    secrets = {ACCESS_KEY: SECRET_KEY} if acl else {}
    stub = stack.enter_context(StubBroker(settings=settings, acl=secrets, tls=files))
    return _server("the stub", stub.name_server, stub.broker_address(), acl=acl, tls=tls)


def _server(name: str, name_server: str, broker: str, *, acl: bool, tls: bool) -> ScenarioServer:
    credentials = Credentials(ACCESS_KEY, SECRET_KEY) if acl else None
    context = ssl.create_default_context(cafile=str(PKI / "ca.pem")) if tls else None
    return ScenarioServer(name, name_server, parse_address(broker), credentials, context)


SERVERS = {"real": real_server, "stub": stub_server}


@pytest.fixture(scope="session", params=SERVERS)
def java_server(request: pytest.FixtureRequest) -> Iterator[ScenarioServer]:
    """The server of a test with Java clients: first a real one, then the stub."""
    fetch_or_skip(DEFAULT_VERSION)
    with ExitStack() as stack:
        yield SERVERS[request.param](stack)


@pytest.fixture(scope="module", params=SERVERS)
def guarded_java_server(request: pytest.FixtureRequest) -> Iterator[ScenarioServer]:
    """The server of a test with access control: first a real one, then the stub."""
    fetch_or_skip(DEFAULT_VERSION)
    with ExitStack() as stack:
        yield SERVERS[request.param](stack, acl=True)


@pytest.fixture(scope="module", params=SERVERS)
def encrypted_java_server(request: pytest.FixtureRequest) -> Iterator[ScenarioServer]:
    """The server of a test with TLS: first a real one, then the stub."""
    fetch_or_skip(DEFAULT_VERSION)
    with ExitStack() as stack:
        yield SERVERS[request.param](stack, tls=True)


@pytest.fixture(scope="session")
def java_processes(java_server: ScenarioServer) -> Iterator[Callable[[str], JavaClients]]:
    """A function that returns the JVM with clients of a release; it starts the JVM at the first call."""
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
    """Official clients of release 5.3.3; they are shut down after the test."""
    process = java_processes(DEFAULT_VERSION)
    yield process
    process.shutdown_all()


@pytest.fixture(params=[DEFAULT_VERSION, OLD_CLIENT])
def any_clients(request: pytest.FixtureRequest, java_processes: Callable[[str], JavaClients]) -> Iterator[JavaClients]:
    """Official clients of release 5.3.3, then of 4.9.7; they are shut down after the test."""
    process = java_processes(request.param)
    yield process
    process.shutdown_all()


@pytest.fixture(scope="session")
def official_processes() -> Iterator[Callable[[RealCluster], JavaClients]]:
    """A function that returns the JVM with clients of a cluster and of its release; it starts the JVM once."""
    running: dict[str, JavaClients] = {}

    def process(cluster: RealCluster) -> JavaClients:
        if cluster.name_server not in running:
            running[cluster.name_server] = JavaClients(cluster.version, cluster.name_server)
        return running[cluster.name_server]

    yield process
    for clients in running.values():
        clients.close()


@pytest.fixture
def official(
    real_cluster: RealCluster, official_processes: Callable[[RealCluster], JavaClients]
) -> Iterator[JavaClients]:
    """Official clients of `real_cluster` and of its release; they are shut down after the test."""
    process = official_processes(real_cluster)
    yield process
    process.shutdown_all()


@pytest.fixture
def unique(request: pytest.FixtureRequest) -> str:
    """A name for groups and topics that no other test uses."""
    return f"{re.sub(r'[^A-Za-z0-9]+', '_', request.node.originalname.removeprefix('test_'))}_{next(_numbers)}"


@pytest.fixture
def topic(unique: str, java_server: ScenarioServer) -> str:
    """The name of a new topic with four queues."""
    java_server.create_topic(unique)
    return unique


@pytest.fixture
def single_queue_topic(unique: str, java_server: ScenarioServer) -> str:
    """The name of a new topic with one queue."""
    name = f"{unique}_single"
    java_server.create_topic(name, queues=1)
    return name


@pytest.fixture
def ours(java_server: ScenarioServer, topic: str) -> Iterator[Ours]:
    """Our clients, connected to the server of the test."""
    ours = Ours(java_server.name_server, topic)
    yield ours
    ours.close()
