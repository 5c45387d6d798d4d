"""Test that `doctor --spark` finds what does not fit together in a Spark installation, and that it can look around."""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from pyspark_rocketmq import __version__
from pyspark_rocketmq.cli.checks.findings import Finding, Level
from pyspark_rocketmq.cli.checks.spark import Probed, Setup, Surroundings, check_setup, compare, look_at_setup
from pyspark_rocketmq.cli.exits import Exit
from tests.cli.fixtures import RunCommand

PACKAGES: Mapping[str, str | None] = {"pyspark": "4.3.0", "pyspark_rocketmq": "0.1.0", "pyarrow": "26.0.1"}
DRIVER = Surroundings("driver", "here", "3.11.7", "/venv/bin/python", PACKAGES)
EXECUTOR = replace(DRIVER, role="executor", host="there")
GOOD = Setup("4.3.0", 17, "/venv/bin/python")
MISMATCH = """PythonException: ...
pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different version:
3.10 than that in driver: 3.11, PySpark cannot run with different minor versions.
Please check environment variables PYSPARK_PYTHON and PYSPARK_DRIVER_PYTHON are correctly set."""


def only(findings: list[Finding]) -> Finding:
    """Return the only finding that is not ok; it must say why it matters and what to do."""
    [finding] = [each for each in findings if each.level is not Level.OK]
    assert finding.why and finding.advice
    return finding


@pytest.mark.parametrize(
    ("changes", "level", "what", "advice"),
    [
        ({"pyspark": None}, Level.PROBLEM, "PySpark is not installed", "pyspark>=4.1"),
        ({"pyspark": "3.5.6"}, Level.PROBLEM, "PySpark is 3.5.6", "pyspark>=4.1"),
        ({"pyspark": "4.0.1"}, Level.PROBLEM, "PySpark is 4.0.1", "pyspark>=4.1"),
        ({"java": 0}, Level.PROBLEM, "there is no Java", "JAVA_HOME"),
        ({"java": 11}, Level.PROBLEM, "Java is 11", "Java 17"),
        ({"worker_python": None}, Level.WARNING, "PYSPARK_PYTHON is not set", "export PYSPARK_PYTHON="),
    ],
)
def test_a_setup_that_cannot_work_is_told(
    changes: dict[str, str | int | None], level: Level, what: str, advice: str
) -> None:
    """Each mistake in what a driver starts from is one finding."""
    finding = only(list(check_setup(replace(GOOD, **changes))))  # type: ignore[arg-type]  # of various attributes

    assert (finding.level, finding.what) == (level, what)
    assert advice in (finding.advice or "")


def test_a_good_setup_has_no_findings() -> None:
    """PySpark 4.1, Java 17 and a chosen Python suffice."""
    assert list(check_setup(replace(GOOD, pyspark="4.1.0.dev1"))) == []


def test_what_does_not_tell_its_release_is_left_to_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Java that does not tell its release, and a PySpark that pip did not install, are not taken for missing."""
    (tmp_path / "pyspark.py").touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.touch(0o755)

    setup = look_at_setup({"JAVA_HOME": str(tmp_path), "PYSPARK_PYTHON": sys.executable})

    assert list(check_setup(setup)) == []


@pytest.mark.parametrize(
    ("place", "what", "advice"),
    [
        (replace(EXECUTOR, python="3.12.1"), "Python is 3.12.1, the driver's is 3.11.7", "PYSPARK_PYTHON=/venv"),
        (replace(EXECUTOR, packages={**PACKAGES, "pyspark_rocketmq": None}), "pyspark-rocketmq is missing", "archives"),
        (replace(EXECUTOR, packages={**PACKAGES, "pyarrow": None}), "pyarrow is missing", "archives"),
        (
            replace(EXECUTOR, role="planner", packages={**PACKAGES, "pyspark_rocketmq": "0.0.9"}),
            "pyspark-rocketmq is 0.0.9, the driver's is 0.1.0",
            "same version",
        ),
    ],
)
def test_what_differs_from_the_driver_is_told(place: Surroundings, what: str, advice: str) -> None:
    """A process whose Python or packages differ from the driver's is named with the difference."""
    finding = only(list(compare(Probed("17.0.2", [DRIVER, place]))))

    assert (finding.level, finding.what) == (Level.PROBLEM, what)
    assert finding.place == f"{place.role} (there, /venv/bin/python)" and advice in (finding.advice or "")


def test_what_fits_together_is_listed() -> None:
    """Without a difference each process is listed as ok; patch releases of Python may differ."""
    findings = list(compare(Probed("17.0.2", [DRIVER, replace(EXECUTOR, python="3.11.9")])))

    assert {each.level for each in findings} == {Level.OK}
    assert [each.place.split()[0] for each in findings] == ["driver", "driver", "executor"]


@pytest.mark.parametrize(
    ("failure", "what"),
    [
        (MISMATCH, "workers run Python 3.10, the driver 3.11"),
        ("Exception: no master\n there", "a job that looks around failed: Exception: no master there"),
        ("SparkException: Python worker exited unexpectedly", "pyarrow is missing"),
    ],
)
def test_a_session_that_fails_is_explained(failure: str, what: str) -> None:
    """A failed job is one finding: another Python or a missing package by name, anything else by its text."""
    said = "ModuleNotFoundError: No module named 'pyarrow'" if "worker exited" in failure else ""

    assert only(list(compare(Probed(None, [DRIVER], failure, said)))).what == what


def test_without_java_nothing_is_started(
    run_command: RunCommand, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without a cluster only Spark is checked; without Java the finding comes at once, with exit code 8."""
    pytest.importorskip("pyspark")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)

    ran = run_command("doctor", "--spark", "--json")

    [finding] = ran.document["findings"]
    assert (ran.code, finding["what"]) == (Exit.CHECK_FAILED, "there is no Java")


def test_a_master_needs_spark(run_command: RunCommand) -> None:
    """`--master` without `--spark` is refused."""
    ran = run_command("doctor", "--master", "local[1]")

    assert ran.code == Exit.USAGE and "add --spark" in ran.err


@pytest.mark.spark
def test_a_session_is_looked_around_in(run_command: RunCommand, monkeypatch: pytest.MonkeyPatch) -> None:
    """Driver, planner and executors tell their Python and packages, as install.md says; here all fit together."""
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))

    ran = run_command("doctor", "--spark", "--master", "local[1]", "--json")

    findings = {each["place"].split()[0]: each for each in ran.document["findings"]}
    assert (ran.code, ran.err) == (Exit.DONE, "")
    assert list(findings) == ["driver", "planner", "executor"]
    for each in findings.values():
        assert each["level"] == "ok" and sys.executable in each["place"]
        assert f"Python {platform.python_version()}, " in each["what"]
        assert f"pyspark-rocketmq {__version__}, " in each["what"]
