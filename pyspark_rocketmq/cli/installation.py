"""Tell what is installed beside this package; this needs no other package."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from .._version import __version__
from ..boundary.releases import describe_old_pyspark
from .java import OLDEST_JAVA, find_java, java_release
from .program import PROGRAM, describe_steps

__all__ = ["describe_installation", "find_release"]


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the library: the modules that it needs by their distributions, the extra, and its purpose."""

    modules: Mapping[str, str]
    extra: str
    purpose: str

    @property
    def advice(self) -> str:
        """The command that installs it, and what for."""
        return f"pip install '{PROGRAM}[{self.extra}]', for {self.purpose}"

    @property
    def is_missing(self) -> bool:
        """Whether one of its modules is not there."""
        return any(find_spec(module) is None for module in self.modules.values())


_PARTS = {
    "PySpark": Part({"pyspark": "pyspark"}, "spark", 'format("rocketmq")'),
    "click, rich": Part({"click": "click", "rich": "rich"}, "cli", f"the commands of {PROGRAM}"),
    "grpcio": Part({"grpcio": "grpc"}, "grpc", "the gRPC port of the embedded broker"),
    "prometheus_client": Part({"prometheus_client": "prometheus_client"}, "monitor", "figures for Prometheus"),
}


def describe_installation(env: Mapping[str, str]) -> str:
    """Return what is installed, what is missing and how to get it, and where to go from here."""
    facts = {
        "Python": f"{platform.python_version()} ({sys.executable})",
        "pyarrow": find_release("pyarrow") or "not installed: pip install pyarrow",
        **{label: _describe(part) for label, part in _PARTS.items()},
        "Java": _describe_java(env),
    }
    width = max(map(len, facts)) + 2
    table = [f"  {label:{width}}{text}" for label, text in facts.items()]
    head = f"pyspark_rocketmq {__version__}: Apache RocketMQ for Spark, in pure Python"
    return "\n".join([head, "", *table, "", *_next_steps(env)])


def _describe(part: Part) -> str:
    if part.is_missing:
        return f"not installed: {part.advice}"
    releases = {name: _release(name) for name in part.modules}
    too_old = describe_old_pyspark(releases["pyspark"]) if "pyspark" in releases else None
    return f"{too_old}: {part.advice}" if too_old else ", ".join(releases.values())


def find_release(module: str) -> str | None:
    """Return the release of a module whose distribution has its name; None if it is not there."""
    return _release(module) if find_spec(module) else None


def _release(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:  # It is on the path of modules, and was not installed by pip.
        return "of an unknown release"


def _describe_java(env: Mapping[str, str]) -> str:
    java = find_java(env)
    needed = f"Spark needs Java {OLDEST_JAVA} or newer: install one, and set JAVA_HOME to it"
    if java is None:
        return f"not found; {needed}"
    release = java_release(java)
    text = f"{release or 'of an unknown release'} ({java})"
    return text if release is None or release >= OLDEST_JAVA else f"{text} is too old; {needed}"


def _next_steps(env: Mapping[str, str]) -> Iterator[str]:
    steps = describe_steps(
        env,
        ("demo", "a stream of orders, through brokers in this process and Spark"),
        ("doctor --spark", "a check of Python, packages and Java, on driver and executors"),
        ("options", 'every option of format("rocketmq")'),
        ("explain CODE", "what an error code means"),
        ("--help", "all commands"),
    )
    yield "next:"
    if (part := _PARTS["click, rich"]).is_missing:
        yield f"  {part.advice}:"
    yield from (f"  {step}" for step in steps)
