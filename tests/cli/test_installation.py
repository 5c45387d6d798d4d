"""Test what `python -m pyspark_rocketmq` tells: what is installed, what is missing, and how to go on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pyspark_rocketmq import __version__
from pyspark_rocketmq.cli.installation import describe_installation
from pyspark_rocketmq.cli.program import PROGRAM, name_program
from tests.cli.fixtures import ROOT, SECONDS

RUN = "sys.argv = ['-m']; from pyspark_rocketmq.__main__ import run; code = run()"


def tell(before: str = "", after: str = "", *path: Path) -> str:
    """Run the module without words, with statements before and after it; return what it prints."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (*path, ROOT)))}
    code = f"import sys; {before}\n{RUN}\n{after}\nraise SystemExit(code)"
    ran = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


def line_of(text: str, label: str) -> str:
    """Return what a text tells of a part."""
    (line,) = (line for line in text.splitlines() if line.startswith(f"  {label} "))
    return line.removeprefix(f"  {label}").strip()


def write_java(folder: Path, release: str) -> Path:
    """Write a program that tells a release as java does; return its home."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{release}\"' >&2\n")
    java.chmod(0o755)
    return folder


def test_it_tells_releases_and_next_steps() -> None:
    """The first line has the version; each part has a release, and the commands to go on with come last."""
    told = tell()

    assert told.startswith(f"pyspark_rocketmq {__version__}: ")
    assert line_of(told, "Python") == f"{sys.version.split()[0]} ({sys.executable})"
    assert all(line_of(told, part)[0].isdigit() for part in ("PySpark", "pyarrow", "click, rich", "grpcio"))
    assert " demo " in told.partition("\nnext:\n")[2]


def test_it_imports_nothing_that_may_be_missing() -> None:
    """It loads no package of an extra."""
    loaded = "print(*sorted({'click', 'rich', 'pyspark', 'grpc', 'prometheus_client'} & sys.modules.keys()), 'loaded')"

    assert tell(after=loaded).splitlines()[-1] == "loaded"


def test_what_is_missing_has_its_command() -> None:
    """Without the packages of the extras it works, and names for each the command that installs it."""
    hidden = ("pyarrow", "pyspark", "click", "grpc", "prometheus_client")

    told = tell(before=f"sys.modules.update(dict.fromkeys({hidden!r}))")

    for label, extra in {
        "PySpark": "spark",
        "click, rich": "cli",
        "grpcio": "grpc",
        "prometheus_client": "monitor",
    }.items():
        assert line_of(told, label).startswith(f"not installed: pip install 'pyspark-rocketmq[{extra}]', for ")
    assert line_of(told, "pyarrow") == "not installed: pip install pyarrow"
    assert told.partition("\nnext:\n")[2].startswith("  pip install 'pyspark-rocketmq[cli]', for the commands")


def test_an_old_pyspark_is_told(tmp_path: Path) -> None:
    """A PySpark that is too old is not shown as if it served."""
    metadata = tmp_path / "pyspark-3.5.4.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: pyspark\nVersion: 3.5.4\n")

    told = line_of(tell("", "", tmp_path), "PySpark")

    assert told.startswith("PySpark is 3.5.4, and the format rocketmq needs PySpark 4.1 or later: pip install ")


@pytest.mark.parametrize(
    ("release", "told"), [("11.0.2", "11 (JAVA) is too old; Spark needs Java 17"), ("17.0.15", "17 (JAVA)")]
)
def test_java_is_the_one_that_spark_would_start(tmp_path: Path, release: str, told: str) -> None:
    """The Java of JAVA_HOME is named with its path; one that is too old is told."""
    home = write_java(tmp_path / "jdk", release)

    found = line_of(describe_installation({"JAVA_HOME": str(home)}), "Java")

    assert found.replace(str(home / "bin" / "java"), "JAVA").startswith(told)
    assert ("too old" in found) == ("too old" in told)


def test_missing_java_is_told(tmp_path: Path) -> None:
    """Without a Java it says so, and what to do."""
    told = line_of(describe_installation({"PATH": str(tmp_path)}), "Java")

    assert told == "not found; Spark needs Java 17 or newer: install one, and set JAVA_HOME to it"


def test_the_program_is_named_as_the_shell_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program has its bare name only if the PATH leads to the one of this Python."""
    folder, other = tmp_path / "my venv" / "bin", tmp_path / "bin"
    for place in (folder, other):
        place.mkdir(parents=True)
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    monkeypatch.chdir(tmp_path)
    assert name_program({"PATH": str(other)}) == f"'{folder}/python' -m pyspark_rocketmq"

    for place in (folder, other):
        (place / PROGRAM).write_text("#!/bin/sh\n")
        (place / PROGRAM).chmod(0o755)
    assert name_program({"PATH": str(other)}) == f"'my venv/bin/{PROGRAM}'"
    assert name_program({"PATH": f"{folder}:{other}"}) == PROGRAM
