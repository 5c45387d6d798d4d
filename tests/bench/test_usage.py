"""Test meters of other processes' time and memory."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.bench.usage import Meter, tree

BUSY = (
    "import time; ends = time.process_time() + 0.3\nwhile time.process_time() < ends: pass\nprint(flush=True); input()"
)


def test_a_childs_time_and_memory_are_seen() -> None:
    """The time and memory of a child process are measured."""
    meter = Meter({"all": lambda: tree(os.getpid())})
    with _busy() as child:
        alive = meter.read()["all"]
        child.communicate(b"\n")
    assert alive.cpu_s >= 0.25
    assert alive.peak_mib > 5
    assert meter.read()["all"].cpu_s >= 0.25


def test_one_that_ended_takes_nothing_from_the_others() -> None:
    """A process that has ended does not lower the time of the others."""
    with _busy() as stays, _busy() as ends:
        pids = [stays.pid, ends.pid]
        meter = Meter({"all": lambda: pids})
        ends.communicate(b"\n")
        pids.remove(ends.pid)
        used_s = meter.read()["all"].cpu_s
        stays.communicate(b"\n")
    assert 0 <= used_s < 0.25


@contextmanager
def _busy() -> Iterator[subprocess.Popen[bytes]]:
    """Start a process that uses 0.3 seconds, and ends when it receives a line."""
    command = [sys.executable, "-c", BUSY]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        yield child
