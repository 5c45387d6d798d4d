"""Test the pytest plugin as its users do: in a project of its own, in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.page_blocks import read_blocks

ROOT = Path(__file__).parents[2]
PLUGIN = ("-p", "broker_stub.pytest_plugin")
SECONDS = 300

PROJECT = """
def test_a_topic(rocketmq_topic, rocketmq_broker):
    rocketmq_topic.put(b"b", tags="new", queue_id=1)
    rocketmq_topic.put(b"a", queue_id=0)
    assert rocketmq_topic.bodies() == [b"a", b"b"]
    assert rocketmq_topic.messages()[1].properties["TAGS"] == "new"
    assert rocketmq_topic.read_options == {"nameServer": rocketmq_broker.name_server, "subscribe": "test-topic"}
    assert rocketmq_topic.write_options == {"nameServer": rocketmq_broker.name_server, "topic": "test-topic"}
    assert rocketmq_broker.topics() == {"test-topic": 4}

def test_each_test_has_its_own(rocketmq_topic):
    assert rocketmq_topic.bodies() == []

def test_clusters_are_made_to_measure(make_rocketmq):
    one, other = make_rocketmq(2, 1, topics={"T": 3}), make_rocketmq(emulate="4.9.7")
    assert (len(one.state.brokers), len(other.state.brokers)) == (4, 1)
    assert one.name_server != other.name_server

def test_a_fault_must_happen(rocketmq_broker):
    rocketmq_broker.faults.busy(on="PULL_MESSAGE")

def test_faults_of_each_cluster_must_happen(make_rocketmq):
    for stub in (make_rocketmq(), make_rocketmq()):
        stub.faults.busy(on="PULL_MESSAGE")

def test_all_are_closed():
    import threading

    assert threading.active_count() == 1
"""
UNFINISHED = """
import pytest

def test_fails(rocketmq_broker, make_rocketmq):
    rocketmq_broker.faults.busy()
    make_rocketmq().faults.busy()
    assert rocketmq_broker.topics() == {"orders": 4}

def test_is_skipped(rocketmq_broker):
    rocketmq_broker.faults.busy()
    pytest.skip("not today")

@pytest.fixture
def broken(rocketmq_broker):
    rocketmq_broker.faults.busy()
    raise OSError("the fixture is broken")

def test_is_not_run(broken):
    pass

def test_all_is_closed(rocketmq_broker):
    import threading

    rocketmq_broker.close()
    assert threading.active_count() == 1
"""


def run_pytest(folder: Path, *arguments: str) -> str:
    """Run pytest in a folder, with this checkout's packages, and return what it printed."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", *arguments, str(folder)]
    ran = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    return ran.stdout + ran.stderr


def test_fixtures_of_a_users_project(tmp_path: Path) -> None:
    """The fixtures start brokers and topics; a fault that was scripted and did not happen fails its test.

    It does no harm to load the plugin twice.
    """
    (tmp_path / "test_job.py").write_text(PROJECT)
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["broker_stub.pytest_plugin"]\n')

    printed = run_pytest(tmp_path, *PLUGIN, *PLUGIN)

    assert "6 passed, 2 errors" in printed, printed
    assert "FAULT_NOT_REACHED" in printed and "ERROR at teardown of test_a_fault_must_happen" in printed


def test_a_test_that_is_not_finished_owes_no_faults(tmp_path: Path) -> None:
    """A test that fails, or is skipped, has no second error because of faults; its stubs are closed all the same."""
    (tmp_path / "test_job.py").write_text(UNFINISHED)

    printed = run_pytest(tmp_path, *PLUGIN)

    assert "1 failed, 1 passed, 1 skipped, 1 error" in printed, printed
    assert "FAULT_NOT_REACHED" not in printed and "the fixture is broken" in printed


def test_the_plugin_costs_nothing_where_it_is_not_used() -> None:
    """Importing the plugin imports neither the stub nor the library, since every run of pytest does it."""
    code = "import sys, broker_stub.pytest_plugin; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)

    ours = {name for name in ran.stdout.split() if name.startswith(("broker_stub", "pyspark_rocketmq"))}
    assert ours == {"broker_stub", "broker_stub.pytest_plugin"}


def test_the_package_offers_its_names() -> None:
    """Each name of the package can be imported from it, and an unknown one cannot."""
    import broker_stub

    assert all(getattr(broker_stub, name) for name in broker_stub.__all__)
    with pytest.raises(ImportError, match="StubBrokers"):
        from broker_stub import StubBrokers  # type: ignore[attr-defined]  # noqa: F401


@pytest.mark.spark
def test_the_page_about_tests_is_true(tmp_path: Path) -> None:
    """The tests on the page *Test your job* pass, run as one module."""
    (tmp_path / "test_job.py").write_text("\n".join(read_blocks("docs/how-to/test-your-job.md", __file__)))

    printed = run_pytest(tmp_path, *PLUGIN, "-W", "ignore")

    assert re.search(r"\b4 passed", printed), printed
