"""Test the real servers that other tests use: start, stop, restart, and their end with the test run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pyspark_rocketmq.model import parse_address
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from tests.real.artefacts import MissingTool, check_tools, chosen_versions, java_home_tool, releases
from tests.real.probe import ask
from tests.real.servers import AdminFailed, RealCluster, free_ports, wait_until

pytestmark = pytest.mark.real


def test_one_broker_serves_its_topic(real_cluster: RealCluster) -> None:
    """A created topic can be asked for its offsets, and mqadmin prints the broker's version."""
    real_cluster.create_topic("served", queues=2)

    assert real_cluster.broker.max_offset("served", 1) == 0
    wait_until(lambda: _lists(real_cluster, f"V{real_cluster.version.replace('.', '_')}"), "mqadmin sees the version")


def _lists(cluster: RealCluster, text: str) -> bool:
    """Return whether `clusterList` prints a text; the command fails in the first second of a 4.9 broker."""
    try:
        return text in cluster.admin("clusterList")
    except AdminFailed:
        return False


def test_a_killed_broker_comes_back_on_its_port(real_two_brokers: RealCluster) -> None:
    """A broker that is killed and started again keeps its address and topics."""
    real_two_brokers.create_topic("kept", queues=1)
    broker = real_two_brokers.brokers[1]
    address = broker.address

    broker.kill()
    assert not broker.running
    broker.start()

    assert broker.address == address
    assert broker.max_offset("kept", 0) == 0


def test_a_slave_follows_its_master(real_master_slave: RealCluster) -> None:
    """A slave copies topics from its master, and is registered with its own address."""
    real_master_slave.create_topic("followed", queues=1)

    real_master_slave.wait_replicated("followed", queues=1)

    assert real_master_slave.slave.max_offset("followed", 0) == 0
    wait_until(lambda: _lists(real_master_slave, str(real_master_slave.slave.address)), "mqadmin sees the slave")


def test_both_name_servers_know_the_broker(real_two_name_servers: RealCluster) -> None:
    """If the first name server is killed, the second one still knows the broker."""
    first, second = real_two_name_servers.name_servers

    first.kill()

    assert second.knows(real_two_name_servers.broker.address)
    assert real_two_name_servers.name_server == f"{first.address};{second.address}"


def test_access_control_refuses_strangers(real_acl: RealCluster) -> None:
    """With access control an unsigned request is refused, a signed one is served, and mqadmin works."""
    real_acl.create_topic("guarded", queues=1)

    unsigned = ask(real_acl.broker.address, RequestCode.GET_ALL_TOPIC_CONFIG)

    refused = ResponseCode.NO_PERMISSION if releases()[real_acl.version].acl == "2.0" else ResponseCode.SYSTEM_ERROR
    assert unsigned.code == refused
    assert real_acl.broker.max_offset("guarded", 0) == 0
    assert "guarded" in real_acl.admin("topicList")


def test_tls_servers_refuse_plain_connections(real_tls: RealCluster) -> None:
    """With TLS a client that trusts the authority is served, a plain one is refused, and mqadmin works."""
    real_tls.create_topic("secret", queues=1)

    assert real_tls.broker.max_offset("secret", 0) == 0
    with pytest.raises(OSError):
        ask(real_tls.broker.address, RequestCode.GET_ALL_TOPIC_CONFIG)
    assert "broker-a" in real_tls.admin("clusterList")


@pytest.mark.slow
def test_retention_raises_the_minimum(real_cluster: RealCluster) -> None:
    """`expire` deletes the oldest messages of a queue, so that its minimum offset rises."""
    real_cluster.create_topic("ageing", queues=1)

    minimum = real_cluster.broker.expire("ageing", 0)

    assert 0 < minimum < real_cluster.broker.max_offset("ageing", 0)


def test_servers_die_with_their_starter(real_version: str, tmp_path: Path) -> None:
    """If the process that started servers is killed, the servers end, too."""
    command = [sys.executable, "-m", "tests.real.servers", "--version", real_version]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as starter:
        assert starter.stdout is not None
        name_server = parse_address(starter.stdout.readline().removeprefix("nameServer="))
        assert ask(name_server, RequestCode.GET_BROKER_CLUSTER_INFO).code == ResponseCode.SUCCESS

        starter.kill()

    wait_until(lambda: not _listens(name_server.port), "the name server is gone", timeout_s=60)


def test_versions_are_chosen_by_name() -> None:
    """`REAL` names versions, `all`, or nothing; an unknown version is an error that lists the known ones."""
    assert chosen_versions(None) == ["5.3.3"]
    assert chosen_versions("4.9.7, 5.5.0") == ["4.9.7", "5.5.0"]
    assert set(chosen_versions("all")) == {"4.9.7", "5.3.3", "5.5.0"}
    with pytest.raises(ValueError, match=r"5\.3\.3"):
        chosen_versions("6.0.0")


def test_missing_tools_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without Maven the error names Maven and says what to do."""
    java_home_tool("java")
    java_home_tool("javac")
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(MissingTool, match="mvn is not on the PATH; install Maven"):
        check_tools()


def _listens(port: int) -> bool:
    try:
        ask(parse_address(f"127.0.0.1:{port}"), RequestCode.GET_BROKER_CLUSTER_INFO, timeout_s=1)
    except OSError:
        return False
    return True


def test_free_ports_keep_their_distance() -> None:
    """A port is chosen below the ephemeral range, together with the neighbouring ports that a broker needs."""
    assert 20000 <= free_ports(-2, 0, 1) < 32000
