"""Which real clusters does a test get by naming them, and what did a run cover?

Every fixture comes once for each version that `REAL` asks for (5.3.3 when unset, `all`, or a list with commas). A cluster
serves all tests of a run; what a test stopped is started again after it. Machines without JDK 17 or Maven skip
these tests, and fail them when `REQUIRE_REAL=1`.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager

import pytest

from .artefacts import MissingTool, check_tools, chosen_versions, jars
from .servers import RealCluster

_CLUSTERS = pytest.StashKey[list[RealCluster]]()
_COVERED = pytest.StashKey[dict[str, set[str]]]()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give each test that runs on a real cluster one run for each chosen version."""
    if "real_version" in metafunc.fixturenames:
        metafunc.parametrize("real_version", chosen_versions(os.environ.get("REAL")), scope="session")


@pytest.fixture(scope="session")
def real_version(request: pytest.FixtureRequest) -> str:
    """The release under test."""
    return str(request.param)


@pytest.fixture(scope="session")
def official_jars(real_version: str) -> str:
    """The release under test, its jars fetched; skips or fails where tools are missing."""
    fetch_or_skip(real_version)
    return real_version


def fetch_or_skip(version: str) -> None:
    """Fetch the jars of a release; skip without JDK or Maven, fail instead with `REQUIRE_REAL=1`."""
    try:
        check_tools()
        jars(version)
    except MissingTool as missing:
        if os.environ.get("REQUIRE_REAL") == "1":
            pytest.fail(f"REQUIRE_REAL=1, but {missing}")
        pytest.skip(f"needs official RocketMQ jars: {missing}")


@contextmanager
def _running(version: str, config: pytest.Config, **shape: object) -> Iterator[RealCluster]:
    with RealCluster(version, **shape) as cluster:  # type: ignore[arg-type]
        running = config.stash.setdefault(_CLUSTERS, [])
        running.append(cluster)
        yield cluster
        running.remove(cluster)


@pytest.fixture(scope="session")
def _single(official_jars: str, pytestconfig: pytest.Config) -> Iterator[RealCluster]:
    with _running(official_jars, pytestconfig) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def _master_slave(official_jars: str, pytestconfig: pytest.Config) -> Iterator[RealCluster]:
    with _running(official_jars, pytestconfig, slaves=1) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def _two_brokers(official_jars: str, pytestconfig: pytest.Config) -> Iterator[RealCluster]:
    with _running(official_jars, pytestconfig, brokers=2) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def _two_name_servers(official_jars: str, pytestconfig: pytest.Config) -> Iterator[RealCluster]:
    with _running(official_jars, pytestconfig, name_servers=2) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def _acl(official_jars: str, pytestconfig: pytest.Config) -> Iterator[RealCluster]:
    with _running(official_jars, pytestconfig, acl=True) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def _tls(official_jars: str, pytestconfig: pytest.Config) -> Iterator[RealCluster]:
    with _running(official_jars, pytestconfig, tls=True) as cluster:
        yield cluster


@pytest.fixture
def real_cluster(_single: RealCluster) -> Iterator[RealCluster]:
    """One name server, one broker."""
    yield _single
    _single.start()


@pytest.fixture
def real_master_slave(_master_slave: RealCluster) -> Iterator[RealCluster]:
    """One name server, a master and its slave, which serves reads."""
    yield _master_slave
    _master_slave.start()


@pytest.fixture
def real_two_brokers(_two_brokers: RealCluster) -> Iterator[RealCluster]:
    """One name server, two masters."""
    yield _two_brokers
    _two_brokers.start()


@pytest.fixture
def real_two_name_servers(_two_name_servers: RealCluster) -> Iterator[RealCluster]:
    """Two name servers, one broker."""
    yield _two_name_servers
    _two_name_servers.start()


@pytest.fixture
def real_acl(_acl: RealCluster) -> Iterator[RealCluster]:
    """One name server, one broker with the release's own access control; user ACCESS_KEY with SECRET_KEY."""
    yield _acl
    _acl.start()


@pytest.fixture
def real_tls(_tls: RealCluster) -> Iterator[RealCluster]:
    """One name server, one broker that speak TLS only; their authority is PKI / "ca.pem"."""
    yield _tls
    _tls.start()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the servers wrote beside a failure, and note what passed."""
    report = yield
    clusters = _clusters_of(item)
    if report.failed:
        logs = {(str(server), server.log_tail) for cluster in clusters for server in cluster.servers}
        report.sections.extend((f"log of {name}", tail) for name, tail in sorted(logs) if tail)
    elif clusters and report.when == "call" and report.passed:
        covered = item.config.stash.setdefault(_COVERED, {})
        name = getattr(item, "originalname", item.name)
        covered.setdefault(clusters[0].version, set()).add(f"{item.path.stem.removeprefix('test_')}: {name}")
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print which scenarios passed on which release."""
    for version, scenarios in sorted(config.stash.get(_COVERED, {}).items()):
        terminalreporter.section(f"real RocketMQ {version}: {len(scenarios)} scenarios passed")
        for line in sorted(scenarios):
            terminalreporter.write_line(f"  {line.replace('test_', '', 1)}")


def _clusters_of(item: pytest.Item) -> list[RealCluster]:
    """The real clusters that a test was given."""
    given = getattr(item, "funcargs", {}).values()
    return [value for value in given if isinstance(value, RealCluster)]
