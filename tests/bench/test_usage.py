"""Is processor time of others seen?"""

from __future__ import annotations

import os
import subprocess
import sys

from tests.bench.usage import Meter, tree

BUSY = (
    "import time; ends = time.process_time() + 0.3\nwhile time.process_time() < ends: pass\nprint(flush=True); input()"
)


def test_a_childs_time_and_memory_are_seen() -> None:
    """A process below ours burns 0.3 seconds."""
    meter = Meter({"all": lambda: tree(os.getpid())})
    command = [sys.executable, "-c", BUSY]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        alive = meter.read()["all"]
        child.communicate(b"\n")
    assert alive.cpu_s >= 0.25
    assert alive.peak_mib > 5
    assert meter.read()["all"].cpu_s >= 0.25
