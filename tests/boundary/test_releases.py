"""A PySpark that is missing or too old is named in one sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DATASOURCE = "class DataSource:\n    def __init__(self, options): self.options = options\n"
SENTENCE = "PySpark is {}, and the format rocketmq needs PySpark 4.1 or later"
ADVICE = "; run pip install 'pyspark>=4.1,<5', and use a Spark of that release"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with an empty package `pyspark`, which comes first in the path."""
    (tmp_path / "pyspark" / "sql").mkdir(parents=True)
    (tmp_path / "pyspark" / "sql" / "__init__.py").touch()
    return tmp_path


def run(folder: Path, release: str, code: str) -> subprocess.CompletedProcess[str]:
    """Run a program with a PySpark of this release."""
    (folder / "pyspark" / "__init__.py").write_text(f"__version__ = {release!r}\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(folder), str(ROOT)))}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("release", ["3.5.6", "4.0.1"])
def test_an_import_tells_that_pyspark_is_too_old(folder: Path, release: str) -> None:
    """If the program uses an older PySpark, importing the package warns, and clients without Spark work."""
    done = run(folder, release, "import pyspark, pyspark_rocketmq, pyspark_rocketmq.client")

    assert (done.returncode, done.stderr.splitlines()[0].partition("RuntimeWarning: ")[2]) == (
        0,
        SENTENCE.format(release),
    )


@pytest.mark.parametrize("name", ["register", "DefaultSource"])
def test_using_an_old_pyspark_is_refused_in_one_sentence(folder: Path, name: str) -> None:
    """With PySpark 3.5 the names that need Spark raise one error, and no AttributeError."""
    done = run(folder, "3.5.6", f"from pyspark_rocketmq import {name}")

    told = f"pyspark_rocketmq.errors.SparkSetupError: [SPARK_SETUP] {SENTENCE.format('3.5.6')}{ADVICE}"
    assert done.returncode == 1 and done.stderr.splitlines()[-1] == told
    assert "AttributeError" not in done.stderr and "During handling" not in done.stderr


def test_spark_4_0_finds_a_source_that_refuses(folder: Path) -> None:
    """PySpark 4.0 takes any `DefaultSource` and makes it in `load`, where the user sees the sentence."""
    (folder / "pyspark" / "sql" / "datasource.py").write_text(DATASOURCE)
    code = "from pyspark_rocketmq import DefaultSource as found; print(found.name()); found({'subscribe': 'orders'})"

    done = run(folder, "4.0.1", code)

    assert done.stdout == "rocketmq\n" and f"[SPARK_SETUP] {SENTENCE.format('4.0.1')}" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("release", ["4.1.0.dev1", "4.3.0", "5.0.0", "unknown"])
def test_a_new_or_unreadable_release_is_no_news(folder: Path, release: str) -> None:
    """From PySpark 4.1 on, an import says nothing."""
    done = run(folder, release, "import pyspark, pyspark_rocketmq")

    assert (done.returncode, done.stderr) == (0, "")


def test_a_missing_pyspark_is_named(folder: Path) -> None:
    """Without PySpark the error names the Python and the extra."""
    code = "import sys; sys.modules['pyspark'] = None; from pyspark_rocketmq import register"

    done = run(folder, "4.3.0", code)

    told = done.stderr.splitlines()[-1]
    assert f"[SPARK_SETUP] PySpark is not installed for {sys.executable}" in told
    assert told.endswith("run pip install 'pyspark-rocketmq[spark]'")


def test_metrics_name_their_extra(folder: Path) -> None:
    """Without prometheus_client, importing the metrics names the extra."""
    code = "import sys; sys.modules['prometheus_client'] = None; import pyspark_rocketmq.monitor.prometheus"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}

    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60, check=False
    )

    assert done.stderr.splitlines()[-1].startswith("pyspark_rocketmq.errors.ExtraMissing: [EXTRA_MISSING] metrics need")
    assert "pyspark-rocketmq[monitor]" in done.stderr
