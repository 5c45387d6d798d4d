"""Test jobs that are submitted to a standalone Spark cluster, with the package installed from its wheel."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
import pytest

from broker_stub import StubBroker

ROOT = Path(__file__).parents[2]
SPARK_HOME = Path(pyspark.__file__).parent
EXAMPLES = ROOT / "docs" / "examples"
START_S, JOB_S = 60.0, 240.0

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder into which the package was installed from its wheel; it does not contain the source tree."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", folder, ROOT], check=True, timeout=300)
    (wheel,) = folder.glob("*-py3-none-any.whl")
    subprocess.run([*pip, "install", "--no-deps", "--target", folder / "site", wheel], check=True, timeout=120)
    return folder / "site"


def environment(site: Path) -> dict[str, str]:
    """Return the environment of all Spark processes: the installed package, this Python, the loopback address."""
    return {
        **os.environ,
        "PYTHONPATH": str(site),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


@contextmanager
def daemon(log: Path, environ: dict[str, str], *arguments: str) -> Iterator[None]:
    """Start a Spark process with these arguments; end it after the `with` block."""
    with log.open("w") as output:
        command = [str(SPARK_HOME / "bin" / "spark-class"), *arguments]
        process = subprocess.Popen(command, env=environ, cwd=log.parent, stdout=output, stderr=subprocess.STDOUT)
        try:
            yield
        finally:
            process.terminate()
            process.wait(30)


def wait_for(log: Path, pattern: str, count: int = 1) -> str:
    """Wait until the pattern occurs `count` times in a log; return its last match."""
    ends = time.monotonic() + START_S
    while time.monotonic() < ends:
        found = re.findall(pattern, log.read_text())
        if len(found) >= count:
            return str(found[-1])
        time.sleep(0.1)
    raise AssertionError(f"{pattern!r} did not show {count} times in {log.name}:\n{log.read_text()[-2000:]}")


@pytest.fixture(scope="module")
def cluster(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the master of a Spark cluster with two workers of one core each."""
    folder, environ = tmp_path_factory.mktemp("cluster"), environment(installed)
    with ExitStack() as running:
        log = folder / "master.log"
        listen = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        running.enter_context(daemon(log, environ, "org.apache.spark.deploy.master.Master", *listen))
        master = wait_for(log, r"Starting Spark master at (spark://\S+)")
        for number in range(2):
            size = ("--cores", "1", "--memory", "600m", "--host", "127.0.0.1", "--webui-port", "0")
            place = ("--work-dir", str(folder / f"worker{number}"))
            worker = ("org.apache.spark.deploy.worker.Worker", *size, *place, master)
            running.enter_context(daemon(folder / f"worker{number}.log", environ, *worker))
        wait_for(log, r"Registering worker (\S+)", 2)
        yield master


def submit(master: str, site: Path, job: str, *arguments: str) -> str:
    """Run one of the examples on the cluster; return its output, and fail if the job fails."""
    script = str(EXAMPLES / job)
    command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", master, "--executor-memory", "512m", script]
    done = subprocess.run(
        [*command, *arguments], env=environment(site), cwd=site, capture_output=True, text=True, timeout=JOB_S
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_a_submitted_job_reads_on_two_workers_and_goes_on_where_it_stopped(
    cluster: str, installed: Path, tmp_path: Path
) -> None:
    """If a job runs twice with one checkpoint, its table has every message once."""
    with StubBroker(topics={"orders": 4}) as broker:
        places = (broker.name_server, "orders", str(tmp_path / "table"), str(tmp_path / "checkpoint"))
        broker.fill("orders", 2000, 100)
        assert "2000 messages appended" in submit(cluster, installed, "archive_topic.py", *places)
        broker.fill("orders", 500, 100)
        assert "500 messages appended" in submit(cluster, installed, "archive_topic.py", *places)
    assert count_distinct_places(tmp_path / "table") == 2500


def count_distinct_places(table: Path) -> int:
    """Return the number of messages in the table; fail if it contains one of them twice."""
    import pyarrow.dataset as ds

    rows = ds.dataset(table, partitioning="hive").to_table(columns=["brokerName", "queueId", "queueOffset"])
    places = list(zip(*(column.to_pylist() for column in rows.columns), strict=True))
    assert len(places) == len(set(places))
    return len(places)


def test_a_submitted_job_writes(cluster: str, installed: Path, tmp_path: Path) -> None:
    """The mirror copies each message once, with its tag, its key, and an id of its own."""
    with StubBroker(topics={"orders": 4, "copy": 4}) as broker:
        for number in range(400):
            broker.put("orders", b"%d" % number, tags="new", keys=f"k{number % 8}", queue_id=number % 4)
        places = (broker.name_server, "orders", broker.name_server, "copy", str(tmp_path / "checkpoint"))
        assert "400 messages copied to copy" in submit(cluster, installed, "mirror.py", *places)
        copies = broker.messages("copy")
    assert sorted(int(record.body) for record in copies) == list(range(400))
    assert {record.properties["KEYS"] for record in copies} == {f"k{number}" for number in range(8)}
    assert len({record.properties["UNIQ_KEY"] for record in copies}) == 400
