"""Check that the package's public names are listed and documented, and that importing it is cheap."""

from __future__ import annotations

import re
import subprocess
import sys

import pyspark_rocketmq
from tests.house.test_docs import ARCHITECTURE, section

HEAVY = {"grpc", "google.protobuf", "numpy", "pandas", "pyarrow", "pyspark", "sortedcontainers", "ssl", "asyncio"}


def test_public_names_are_the_documented_ones() -> None:
    """`__all__` and the table of public names in ARCHITECTURE.md have the same names."""
    documented = re.findall(r"^\| `(\w+)` ", section(ARCHITECTURE, "Public names"), flags=re.MULTILINE)

    assert sorted(documented) == sorted(pyspark_rocketmq.__all__)


def test_every_public_name_is_there() -> None:
    """`from pyspark_rocketmq import *` gives every name of `__all__`."""
    missing = [name for name in pyspark_rocketmq.__all__ if not hasattr(pyspark_rocketmq, name)]

    assert missing == []


def test_importing_the_package_imports_nothing_heavy() -> None:
    """Importing the package imports no heavy module, since every Spark process does it."""
    code = "import sys, pyspark_rocketmq; print(*sys.modules)"

    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)

    assert HEAVY & set(loaded.stdout.split()) == set()


def test_the_version_is_a_semantic_one() -> None:
    """The version consists of three numbers, as semantic versioning demands."""
    assert re.fullmatch(r"\d+\.\d+\.\d+", pyspark_rocketmq.__version__)


def test_only_replays_of_dead_letters_need_locks_of_unix() -> None:
    """Readers, writers and functions for Spark are imported where Python has no `fcntl`, as on Windows."""
    names = ("datasource", "source.stream", "source.batch", "sink.writers", "retry", "writing", "progress", "client")
    modules = ", ".join(f"pyspark_rocketmq.{name}" for name in names)
    code = f"import sys; sys.modules['fcntl'] = None; import {modules}"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 0, done.stderr
