"""Test that executors run the Python of an archive that is shipped with the job.

The archive has the place of one that `venv-pack` makes: a Python in `bin`, and the package. Its Python is a script that
starts the one of the tests, so what `venv-pack` and `conda-pack` do is not tested.
"""

from __future__ import annotations

import shutil
import sys
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

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PYTHON = """#!/bin/sh
folder=$(cd "$(dirname "$0")/.." && pwd)
echo "$folder" >> {started}
PYTHONPATH="$folder/site${{PYTHONPATH:+:$PYTHONPATH}}" exec {python} "$@"
"""


def pack(folder: Path, started: Path) -> Path:
    """Return an archive of an environment whose Python writes where it was unpacked into `started`."""
    environ = folder / "packed"
    (environ / "bin").mkdir(parents=True)
    shutil.move(install_wheel(folder), environ / "site")
    python = environ / "bin" / "python"
    python.write_text(PYTHON.format(started=started, python=sys.executable))
    python.chmod(0o755)
    return Path(shutil.make_archive(str(environ), "gztar", environ))


def test_workers_run_the_python_of_an_archive(tmp_path: Path) -> None:
    """By the command of the page executors unpack the archive, and their workers run its Python and its package."""
    started = tmp_path / "started"
    archive = pack(tmp_path, started)
    [command] = read_blocks("docs/deploy/spark-submit.md", __file__)
    driver = environment(PYTHONPATH=str(tmp_path / "packed" / "site"))
    with StubBroker(topics={"orders": 4}) as broker, start_cluster(tmp_path, environment(), 1) as master:
        broker.fill("orders", 100, 100)
        given = {
            **SUBMIT,
            MASTER: master,
            "packed.tar.gz#environment": f"{archive}#environment",
            "docs/examples/archive_topic.py": str(ROOT / "docs" / "examples" / "archive_topic.py"),
            "localhost:9876": broker.name_server,
            "/data/orders": str(tmp_path / "table"),
            "/data/checkpoints/orders": str(tmp_path / "checkpoint"),
        }
        program, *arguments = fill_in(command, given)
        assert "100 messages appended" in submit([program, "--executor-memory", "512m", *arguments], driver, tmp_path)
    assert count_distinct_places(tmp_path / "table") == 100
    places = {Path(line) for line in started.read_text().splitlines()}
    assert places and all(place.name == "environment" and tmp_path / "worker0" in place.parents for place in places)
