"""Check a Spark installation: what driver, planner and executors have, and whether it fits together.

A process of its own starts a session and looks around (`spark_probe`); the rest compares values, without Spark. A
session is started only if this Python has a PySpark that can, and there is a Java for it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...boundary.releases import describe_old_pyspark
from ..installation import find_release
from ..java import OLDEST_JAVA, find_java, java_release
from .findings import Finding, Level

__all__ = ["Probed", "Setup", "Surroundings", "check_setup", "check_spark", "compare", "look_at_setup"]

LOCAL_MASTER = "local[2]"
_PROBE = "pyspark_rocketmq.cli.checks.spark_probe"
_PROBE_S = 180.0
_OTHER_PYTHON = re.compile(
    r"Python in worker has different version:\s+\(?'?(?P<worker>[\d.]+).*?driver:\s+\(?'?(?P<driver>[\d.]+)", re.DOTALL
)
_NO_MODULE = re.compile(r"No module named '([\w.]+)'")
_ROLES = ("driver", "planner", "executor")
_MOST_SHOWN = 300


@dataclass(frozen=True, slots=True)
class Setup:
    """The PySpark, Java and Python of a driver that is started from this Python."""

    pyspark: str | None
    java: int | None
    """The major version of Java; 0 if there is none, None if it does not tell."""
    worker_python: str | None
    """The value of PYSPARK_PYTHON."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The Python and packages of one of Spark's processes."""

    role: str
    host: str
    python: str
    executable: str
    packages: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Probed:
    """The surroundings of a session's processes."""

    java: str | None
    places: Sequence[Surroundings]
    failure: str | None = None
    """The error that ended it."""
    said: str = ""
    """The lines of all processes on stderr; a failed worker tells its reason only there."""


def check_spark(master: str | None) -> list[Finding]:
    """Return findings about the Spark that is started from this Python, with a session at a master."""
    setup = look_at_setup(os.environ)
    findings = list(check_setup(setup))
    if not any(each.level is Level.PROBLEM for each in findings):
        findings += compare(_probe(master or LOCAL_MASTER))
    return findings


# --- before a session ------------------------------------------------------------------------------------------------


def check_setup(setup: Setup) -> Iterator[Finding]:
    """Yield what keeps a session from starting, and whether its workers run this Python."""
    place = f"driver ({sys.executable})"
    if setup.pyspark is None:
        yield _problem(place, "PySpark is not installed", "no session can start", "pip install 'pyspark>=4.1,<5'")
    elif describe_old_pyspark(setup.pyspark):
        why = "the data source needs PySpark 4.1 or later"
        yield _problem(place, f"PySpark is {setup.pyspark}", why, "pip install 'pyspark>=4.1,<5', and use such a Spark")
    if setup.java == 0:
        advice = "install Java 17 or later, and set JAVA_HOME"
        yield _problem(place, "there is no Java", "Spark's driver is a Java process", advice)
    elif setup.java is not None and setup.java < OLDEST_JAVA:
        advice = "install Java 17 or later, and set JAVA_HOME to it"
        yield _problem(place, f"Java is {setup.java}", "Spark 4 needs Java 17 or later", advice)
    if setup.worker_python is None:
        why = "Spark starts the first python3 of the path as planner and workers, which may be another one"
        advice = f"export PYSPARK_PYTHON={sys.executable}, or the path of Python on the executors"
        yield Finding(Level.WARNING, "spark", place, "PYSPARK_PYTHON is not set", why, advice)


def look_at_setup(env: Mapping[str, str]) -> Setup:
    """Return what a driver has that is started in this environment."""
    java = find_java(env)
    return Setup(find_release("pyspark"), java_release(java) if java else 0, env.get("PYSPARK_PYTHON") or None)


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", release)[:2]))


# --- a session -------------------------------------------------------------------------------------------------------


def _probe(master: str) -> Probed:
    """Start a session in another process, and return what was found in its processes."""
    command = [sys.executable, "-m", _PROBE, master]
    try:
        ran = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_PROBE_S, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Probed(None, (), f"the session gave no result within {_PROBE_S:.0f} s")
    try:
        # Spark may print other lines.
        found = json.loads(next(line for line in ran.stdout.splitlines() if line.startswith('{"java":')))
        return _read(found, ran.stderr)
    except (StopIteration, ValueError, KeyError, TypeError):
        return Probed(None, (), f"it ended with {ran.returncode}", ran.stderr)


def _read(found: Mapping[str, Any], said: str) -> Probed:
    places = sorted(
        (Surroundings(**each) for each in found["places"]), key=lambda each: (_ROLES.index(each.role), each.host)
    )
    return Probed(found["java"], places, found["failure"], said)


def compare(probed: Probed) -> Iterator[Finding]:
    """Yield what each process has, what does not fit together, and why a session failed."""
    if probed.java is not None:
        yield Finding(Level.OK, "spark", "driver", f"Java {probed.java}")
    driver = next((each for each in probed.places if each.role == "driver"), None)
    for place in probed.places:
        problems = list(_compare_place(place, driver)) if driver else []
        yield from problems or [Finding(Level.OK, "spark", _name(place), _describe(place))]
    if probed.failure is not None:
        yield _explain_failure(probed.failure, probed.said)


def _compare_place(place: Surroundings, driver: Surroundings) -> Iterator[Finding]:
    name = _name(place)
    if _numbers(place.python) != _numbers(driver.python):
        what = f"Python is {place.python}, the driver's is {driver.python}"
        why = "Spark's processes exchange pickled objects, which need the same minor version"
        yield _problem(name, what, why, _use_python(driver.executable))
    for package, label in _PACKAGES.items():
        here, there = place.packages.get(package), driver.packages.get(package)
        if here is None:
            yield _problem(name, f"{label} is missing", *_MISSING)
        elif there is not None and here != there:
            what = f"{label} is {here}, the driver's is {there}"
            yield _problem(name, what, *_DIFFERENT)


_PACKAGES = {"pyspark": "PySpark", "pyspark_rocketmq": "pyspark-rocketmq", "pyarrow": "pyarrow"}
_MISSING = (
    "planner and workers read and write messages with it",
    "install it there, or ship an environment with spark.archives",
)
_DIFFERENT = ("driver and workers exchange its objects", "install the same version everywhere")


def _explain_failure(failure: str, said: str) -> Finding:
    text = f"{failure}\n{said}"
    if found := _OTHER_PYTHON.search(text):
        what = f"workers run Python {found['worker'].rstrip('.')}, the driver {found['driver'].rstrip('.')}"
        why = "Spark's processes exchange pickled objects, which need the same minor version"
        return _problem("executor", what, why, _use_python(sys.executable))
    if found := _NO_MODULE.search(text):
        return _problem("planner or executor", f"{found[1]} is missing", *_MISSING)
    line = " ".join(failure.split())
    shown = line if len(line) <= _MOST_SHOWN else f"{line[:_MOST_SHOWN]}…"
    advice = "check --master and the variables SPARK_HOME, JAVA_HOME and PYSPARK_PYTHON; then start a session by hand"
    return _problem("session", f"a job that looks around failed: {shown}", "a query would fail, too", advice)


def _use_python(executable: str) -> str:
    return f"export PYSPARK_PYTHON={executable}, or the path of the same Python on the executors"


def _problem(place: str, what: str, why: str, advice: str) -> Finding:
    return Finding(Level.PROBLEM, "spark", place, what, why, advice)


def _name(place: Surroundings) -> str:
    return f"{place.role} ({place.host}, {place.executable})"


def _describe(place: Surroundings) -> str:
    packages = (f"{label} {place.packages.get(package)}" for package, label in _PACKAGES.items())
    return ", ".join([f"Python {place.python}", *packages])
