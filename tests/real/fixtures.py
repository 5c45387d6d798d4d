"""Provide real clusters to tests, and report which tests a run has passed on which release.

Every fixture comes once for each version that `REAL` names (5.3.3 when unset, `all`, or a list with commas). Brokers
have the profile `quick`; tests marked with `both_profiles` also run on RocketMQ's own defaults. A cluster serves many
tests; servers that a test stopped are started again before the next. At most two clusters run at a time, since an idle
broker costs processor time. Machines without JDK 17 or Maven skip these tests, or fail them with `REQUIRE_REAL=1`.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Mapping

import pytest

from .artefacts import MissingTool, check_tools, chosen_versions, jars
from .servers import DEFAULT, QUICK, RealCluster

pytest_plugins = ["tests.real.java_fixtures"]

both_profiles = pytest.mark.profiles(QUICK, DEFAULT)
"""The mark of tests that run on brokers with the quick settings and on brokers with RocketMQ's own defaults."""
slow_by_default = pytest.mark.profiles(QUICK, pytest.param(DEFAULT, marks=pytest.mark.slow))
"""The mark of tests that run on both profiles, where the run on RocketMQ's own defaults is marked as slow."""

_MOST_CLUSTERS = 2
_COVERED = pytest.StashKey[dict[str, set[str]]]()


class ClusterKeeper:
    """Keeps up to two clusters of one release running, and closes the least recently used one for a new one."""

    def __init__(self, version: str, profile: str = QUICK) -> None:
        self.version = version
        self.profile = profile
        self._running: dict[tuple[object, ...], RealCluster] = {}

    def cluster(
        self,
        *,
        brokers: int = 1,
        slaves: int = 0,
        name_servers: int = 1,
        acl: bool = False,
        tls: bool = False,
        options: Mapping[str, str] | None = None,
    ) -> RealCluster:
        """Return a running cluster with these servers and options; start it, or its stopped servers, first."""
        shape = (brokers, slaves, name_servers, acl, tls, *sorted((options or {}).items()))
        found = self._running.pop(shape, None)
        if found is None:
            self._make_room()
            found = RealCluster(
                self.version,
                brokers=brokers,
                slaves=slaves,
                name_servers=name_servers,
                acl=acl,
                tls=tls,
                options=options,
                profile=self.profile,
            )
        self._running[shape] = found
        found.start()
        return found

    def close(self) -> None:
        """Stop and remove all clusters."""
        for cluster in self._running.values():
            cluster.close()
        self._running.clear()

    def _make_room(self) -> None:
        while len(self._running) >= _MOST_CLUSTERS:
            self._running.pop(next(iter(self._running))).close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize tests of real clusters with each chosen version and each profile of their mark."""
    if "real_version" in metafunc.fixturenames:
        metafunc.parametrize("real_version", chosen_versions(os.environ.get("REAL")), indirect=True, scope="session")
    if "real_profile" in metafunc.fixturenames:
        asked = metafunc.definition.get_closest_marker("profiles")
        metafunc.parametrize("real_profile", asked.args if asked else [QUICK], indirect=True, scope="session")


@pytest.fixture(scope="session")
def real_version(request: pytest.FixtureRequest) -> str:
    """The release under test, with its jars fetched; without JDK or Maven the test is skipped or fails."""
    version = str(request.param)
    fetch_or_skip(version)
    return version


@pytest.fixture(scope="session")
def real_profile(request: pytest.FixtureRequest) -> str:
    """The profile of the brokers: `quick`, or each profile in the mark of the test."""
    return str(request.param)


@pytest.fixture(scope="session")
def real_clusters(real_version: str, real_profile: str) -> Iterator[ClusterKeeper]:
    """A `ClusterKeeper`, for tests that need options: `real_clusters.cluster(options=DISK_ANSWERS)`."""
    keeper = ClusterKeeper(real_version, real_profile)
    yield keeper
    keeper.close()


@pytest.fixture
def real_cluster(real_clusters: ClusterKeeper) -> RealCluster:
    """A cluster of one name server and one broker."""
    return real_clusters.cluster()


@pytest.fixture
def real_master_slave(real_clusters: ClusterKeeper) -> RealCluster:
    """A cluster of one name server, a master and its slave; by default slaves of 5.x refuse reads."""
    return real_clusters.cluster(slaves=1)


@pytest.fixture
def real_two_brokers(real_clusters: ClusterKeeper) -> RealCluster:
    """A cluster of one name server and two masters."""
    return real_clusters.cluster(brokers=2)


@pytest.fixture
def real_two_name_servers(real_clusters: ClusterKeeper) -> RealCluster:
    """A cluster of two name servers and one broker."""
    return real_clusters.cluster(name_servers=2)


@pytest.fixture
def real_acl(real_clusters: ClusterKeeper) -> RealCluster:
    """A cluster of one broker with the release's own access control; its user is ACCESS_KEY with SECRET_KEY."""
    return real_clusters.cluster(acl=True)


@pytest.fixture
def real_tls(real_clusters: ClusterKeeper) -> RealCluster:
    """A cluster of one broker whose servers speak TLS only; clients must trust PKI / "ca.pem"."""
    return real_clusters.cluster(tls=True)


def fetch_or_skip(version: str) -> None:
    """Fetch the jars of a release; without JDK or Maven skip the test, or with `REQUIRE_REAL=1` fail it."""
    try:
        check_tools()
        jars(version)
    except MissingTool as missing:
        if os.environ.get("REQUIRE_REAL") == "1":
            pytest.fail(f"REQUIRE_REAL=1, but {missing}")
        pytest.skip(f"needs the official RocketMQ jars: {missing}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the servers' logs to the report of a failed test; record a passed test for the summary."""
    report = yield
    clusters = [value for value in getattr(item, "funcargs", {}).values() if isinstance(value, RealCluster)]
    if report.failed:
        logs = [(repr(server), server.log_tail) for cluster in clusters for server in cluster.servers]
        report.sections.extend((f"log of {name}", tail) for name, tail in logs if tail)
    elif report.when == "call" and report.passed and (server := _server_name(item, clusters)):
        _note_covered(item, server)
    return report


def _server_name(item: pytest.Item, clusters: list[RealCluster]) -> str | None:
    if clusters:
        return f"real RocketMQ {clusters[0].version}, profile {clusters[0].site.profile}"
    given = getattr(item, "funcargs", {})
    java_servers = [server for name, server in given.items() if name.endswith("java_server")]
    return f"Java clients on {java_servers[0].name}" if java_servers else None


def _note_covered(item: pytest.Item, server: str) -> None:
    name = getattr(item, "originalname", item.name).removeprefix("test_").replace("_", " ")
    covered = item.config.stash.setdefault(_COVERED, {})
    covered.setdefault(server, set()).add(f"{item.path.stem.removeprefix('test_')}: {name}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print for each release which tests have passed on it."""
    for server, scenarios in sorted(config.stash.get(_COVERED, {}).items()):
        terminalreporter.section(f"{server}: {len(scenarios)} scenarios passed")
        for line in sorted(scenarios):
            terminalreporter.write_line(f"  {line}")
