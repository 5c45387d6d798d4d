"""Test the job `archive_to_delta` on the newest PySpark that Delta supports, in an environment of its own.

The environment is made in `.cache/delta` at first use; Spark fetches Delta's jars.
"""

from __future__ import annotations

import configparser
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from broker_stub import StubBroker
from tests.examples.jobs import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.slow]

CACHE = ROOT / ".cache" / "delta"
PINS = ("pyspark==4.2.*", "delta-spark==4.4.0")
INSTALL_S, RUN_S = 1200, 600


@pytest.fixture(scope="module")
def python() -> Path:
    """The Python of an environment with Delta and what the library needs."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    wanted = [*PINS, *config["options"]["install_requires"].split()]
    made, python = CACHE / "made", CACHE / "bin" / "python"
    if not made.exists() or made.read_text().split("\n") != wanted:
        shutil.rmtree(CACHE, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", CACHE], check=True, timeout=INSTALL_S)
        install = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "--quiet", *wanted]
        subprocess.run(install, check=True, timeout=INSTALL_S)
        made.write_text("\n".join(wanted))
    return python


def test_delta_has_each_message_once(python: Path, tmp_path: Path) -> None:
    """A repeated batch is skipped; so are all batches of a new checkpoint, unless the application is new, too."""
    settings = {"PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python), "PYTHONPATH": str(ROOT)}
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"} | settings
    with StubBroker({"orders": 1}) as broker:
        broker.fill("orders", 30, 20)
        command = [str(python), "-m", "tests.examples.delta_run", broker.name_server, str(tmp_path)]
        done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=RUN_S)
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout.splitlines()[-1]) == [[1, 30, 30], [1, 30, 30], [1, 60, 30]]
