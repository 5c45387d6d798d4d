"""Run a standalone Spark cluster and submit jobs to it, by the commands of the pages."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from tests.page_blocks import fill_in, read_blocks
from tests.spark.fixtures import ROOT

SPARK_HOME = Path(pyspark.__file__).parent
SUBMIT = {"spark-submit": str(SPARK_HOME / "bin" / "spark-submit")}
MASTER = "spark://spark-master:7077"
"""The master's address on the pages."""
_CLASS = {"$SPARK_HOME/bin/spark-class": str(SPARK_HOME / "bin" / "spark-class")}
_START_S, _JOB_S = 60.0, 240.0


def install_wheel(folder: Path) -> Path:
    """Build the wheel and install it into a folder, which is returned; it does not contain the source tree."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", folder, ROOT], check=True, timeout=300)
    (wheel,) = folder.glob("*-py3-none-any.whl")
    subprocess.run([*pip, "install", "--no-deps", "--target", folder / "site", wheel], check=True, timeout=120)
    return folder / "site"


def environment(**more: str) -> dict[str, str]:
    """Return the environment of all Spark processes: this Python, the loopback address, and these variables."""
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    python = dict.fromkeys(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), sys.executable)
    return {**own, **python, "SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_IP": "127.0.0.1", **more}


@contextmanager
def start_cluster(folder: Path, environ: dict[str, str], workers: int) -> Iterator[str]:
    """Start a master and workers of one core each by the commands of the page, and yield the master's address."""
    commands = read_blocks("docs/deploy/standalone.md", ROOT / "tests" / "spark" / "test_standalone_cluster.py")
    with ExitStack() as running:
        log = folder / "master.log"
        words = fill_in(commands[0], {**_CLASS, "spark-master": "127.0.0.1", "7077": "0"})
        running.enter_context(_daemon(log, environ, [*words, "--webui-port", "0"]))
        master = _wait_for(log, r"Starting Spark master at (spark://\S+)")
        words = fill_in(commands[1], {**_CLASS, "4": "1", "8g": "600m", MASTER: master})
        for number in range(workers):
            place = ["--host", "127.0.0.1", "--webui-port", "0", "--work-dir", str(folder / f"worker{number}")]
            running.enter_context(_daemon(folder / f"worker{number}.log", environ, [*words, *place]))
        _wait_for(log, r"Registering worker (\S+)", workers)
        yield master


@contextmanager
def _daemon(log: Path, environ: dict[str, str], command: Sequence[str]) -> Iterator[None]:
    """Start a Spark process; end it after the `with` block."""
    with log.open("w") as output:
        process = subprocess.Popen(command, env=environ, cwd=log.parent, stdout=output, stderr=subprocess.STDOUT)
        try:
            yield
        finally:
            process.terminate()
            process.wait(30)


def _wait_for(log: Path, pattern: str, count: int = 1) -> str:
    """Wait until the pattern occurs `count` times in a log; return its last match."""
    ends = time.monotonic() + _START_S
    while time.monotonic() < ends:
        found = re.findall(pattern, log.read_text())
        if len(found) >= count:
            return str(found[-1])
        time.sleep(0.1)
    raise AssertionError(f"{pattern!r} did not show {count} times in {log.name}:\n{log.read_text()[-2000:]}")


def submit(words: Sequence[str], environ: dict[str, str], folder: Path) -> str:
    """Run a command in a folder; return its output, and fail if the job fails."""
    done = subprocess.run(words, env=environ, cwd=folder, capture_output=True, text=True, timeout=_JOB_S)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def count_distinct_places(table: Path) -> int:
    """Return the number of messages in the table; fail if it contains one of them twice."""
    import pyarrow.dataset as ds

    rows = ds.dataset(table, partitioning="hive").to_table(columns=["brokerName", "queueId", "queueOffset"])
    places = list(zip(*(column.to_pylist() for column in rows.columns), strict=True))
    assert len(places) == len(set(places))
    return len(places)
