"""Test the measurement of other processes' processor time and memory."""

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
    """A meter measures the processor time and memory of a child process."""
    meter = Meter({"all": lambda: tree(os.getpid())})
    with _busy() as child:
        alive = meter.read()["all"]
        child.communicate(b"\n")
    assert alive.cpu_s >= 0.25
    assert alive.peak_mib > 5
    assert meter.read()["all"].cpu_s >= 0.25


def test_one_that_ended_takes_nothing_from_the_others() -> None:
    """If a process ends during a measurement, the measured time of the others is not reduced."""
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
    """Yield a process that has used 0.3 s of processor time and waits for a line, after which it ends."""
    command = [sys.executable, "-c", BUSY]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        yield child
