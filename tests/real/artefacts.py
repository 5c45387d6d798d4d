"""Fetch the official jars of RocketMQ releases with Maven, and find the JDK.

Maven resolves `pom.xml` for one release into `.cache/rocketmq/<version>`, once. The directory keeps a copy of the pom
that filled it, so that a changed pom fetches again, and a lock file keeps parallel runs apart.
"""

from __future__ import annotations

import configparser
import fcntl
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CONF = ROOT / "conf" / "brokers"
CACHE = ROOT / ".cache" / "rocketmq"
POM = Path(__file__).with_name("pom.xml")
DEFAULT_VERSION = "5.3.3"
FETCH_SECONDS = 600


class MissingTool(Exception):
    """The error that a JDK or Maven, which the real servers need, is not installed."""


@dataclass(frozen=True)
class Release:
    """An official RocketMQ release: version, kind of access control, and whether servers can bind to one address."""

    version: str
    acl: str
    can_bind: bool


@cache
def releases() -> dict[str, Release]:
    """Return {version: release} for every release under test."""
    config = configparser.ConfigParser()
    config.read_string((CONF / "versions.ini").read_text(encoding="utf-8"))
    return {
        version: Release(version, config[version]["acl"], config.getboolean(version, "bind"))
        for version in config.sections()
    }


def chosen_versions(requested: str | None) -> list[str]:
    """Return the versions that `REAL` names: the default one, all for `all`, or a list with commas.

    Raise `ValueError` for a version that is not under test.
    """
    if requested == "all":
        return list(releases())
    versions = [part.strip() for part in (requested or DEFAULT_VERSION).split(",") if part.strip()]
    if unknown := [version for version in versions if version not in releases()]:
        raise ValueError(
            f"REAL={requested}: {', '.join(unknown)} not in conf/brokers/versions.ini ({', '.join(releases())})"
        )
    return versions


@cache
def java_home_tool(name: str) -> str:
    """Return the path of `java` or `javac`; raise `MissingTool` unless it is of a JDK 17 or newer."""
    path = shutil.which(name)
    if path is None:
        raise MissingTool(f"{name} is not on the PATH; install a JDK, 17 or newer")
    text = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=60)
    found = re.search(r"(\d+)(?:\.\d+)*", text.stderr + text.stdout)
    if found is None or int(found[1]) < 17:
        raise MissingTool(f"{path} is older than 17; install a JDK, 17 or newer")
    return path


def check_tools() -> None:
    """Raise `MissingTool` unless JDK and Maven are installed."""
    java_home_tool("java")
    java_home_tool("javac")
    if shutil.which("mvn") is None:
        raise MissingTool("mvn is not on the PATH; install Maven")


def jars(version: str) -> Path:
    """Return the directory of a release's jars; fetch them with Maven first if they are missing."""
    directory, stamp, wanted = CACHE / version, CACHE / version / "pom.xml", POM.read_text(encoding="utf-8")
    CACHE.mkdir(parents=True, exist_ok=True)
    with _locked(CACHE / f"{version}.lock"):
        if not (stamp.exists() and stamp.read_text(encoding="utf-8") == wanted):
            print(f"fetching RocketMQ {version} with Maven into {directory.relative_to(ROOT)}", flush=True)
            shutil.rmtree(directory, ignore_errors=True)
            _fetch(version, directory)
            stamp.write_text(wanted, encoding="utf-8")
    return directory


def class_path(version: str) -> str:
    """Return the class path of all jars of a release, for `java -cp`."""
    return f"{jars(version)}/*"


def _fetch(version: str, directory: Path) -> None:
    command = ["mvn", "-q", "-B", "-f", str(POM), "dependency:copy-dependencies"]
    command += [f"-Drocketmq.version={version}", "-DincludeScope=runtime", f"-DoutputDirectory={directory}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise MissingTool(f"Maven could not fetch RocketMQ {version}:\n{(done.stdout + done.stderr)[-2000:]}")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
