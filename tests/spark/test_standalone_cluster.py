"""Test the commands of the pages on a standalone Spark cluster, with the package installed from its wheel."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_stub import StubBroker
from tests.page_blocks import fill_in, read_blocks
from tests.spark.fixtures import ROOT
from tests.spark.standalone import (
    MASTER,
    SUBMIT,
    count_distinct_places,
    environment,
    install_wheel,
    start_cluster,
    submit,
)

ON_A_CLUSTER = ("--executor-memory", "512m")

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder into which the package was installed from its wheel."""
    return install_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def cluster(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the master of a Spark cluster with two workers of one core each."""
    with start_cluster(tmp_path_factory.mktemp("cluster"), environment(PYTHONPATH=str(installed)), 2) as master:
        yield master


def job(name: str) -> dict[str, str]:
    """Return where an example is; jobs are not submitted from the source tree."""
    return {f"docs/examples/{name}": str(ROOT / "docs" / "examples" / name)}


def test_a_submitted_job_reads_on_two_workers_and_goes_on_where_it_stopped(
    cluster: str, installed: Path, tmp_path: Path
) -> None:
    """If the commands of two pages run with one checkpoint, the table has every message once."""
    environ = environment(PYTHONPATH=str(installed))
    [anywhere] = read_blocks("docs/deploy/spark-submit.md", __file__)
    on_standalone = read_blocks("docs/deploy/standalone.md", __file__)[2]
    with StubBroker(topics={"orders": 4}) as broker:
        given = {
            **SUBMIT,
            **job("archive_topic.py"),
            "localhost:9876": broker.name_server,
            "/data/orders": str(tmp_path / "table"),
            "/data/checkpoints/orders": str(tmp_path / "checkpoint"),
        }
        broker.fill("orders", 2000, 100)
        program, *arguments = fill_in(anywhere, given)
        shown = submit([program, "--master", cluster, *ON_A_CLUSTER, *arguments], environ, tmp_path)
        assert "2000 messages appended to" in shown
        broker.fill("orders", 500, 100)
        words = fill_in(on_standalone, {**given, MASTER: cluster, "4g": "512m"})
        assert "500 messages appended to" in submit(words, environ, tmp_path)
    assert count_distinct_places(tmp_path / "table") == 2500


def test_a_submitted_job_writes(cluster: str, installed: Path, tmp_path: Path) -> None:
    """The mirror copies each message once, with its tag, its key, and an id of its own."""
    [command] = read_blocks("docs/how-to/mirror-a-topic.md", __file__)
    with StubBroker(topics={"orders": 4, "orders-copy": 4}) as broker:
        for number in range(400):
            broker.put("orders", b"%d" % number, tags="new", keys=f"k{number % 8}", queue_id=number % 4)
        servers = dict.fromkeys(("localhost:9876", "other:9876"), broker.name_server)
        given = {**SUBMIT, **job("mirror.py"), **servers, "/data/checkpoints/mirror": str(tmp_path / "checkpoint")}
        program, *arguments = fill_in(command, given)
        words = [program, "--master", cluster, *ON_A_CLUSTER, *arguments]
        shown = submit(words, environment(PYTHONPATH=str(installed)), tmp_path)
        assert "400 messages copied to orders-copy" in shown
        copies = broker.messages("orders-copy")
    assert sorted(int(record.body) for record in copies) == list(range(400))
    assert {record.properties["KEYS"] for record in copies} == {f"k{number}" for number in range(8)}
    assert len({record.properties["UNIQ_KEY"] for record in copies}) == 400
