"""Run a program in a process of its own, and measure its peak memory."""

from __future__ import annotations

import subprocess
import sys

MOST_MIB = 300
"""The largest allowed peak, in MiB, of a program that gets a hostile response; Python and libraries are included."""

_BEFORE = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
from pyspark_rocketmq.errors import RocketMQError
try:
"""
_AFTER = """
except RocketMQError as error:
    print(error)
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(int(peak.split()[1]) // 1024)
"""
_TIMEOUT_S = 120


def run_apart(program: str) -> tuple[str, int]:
    """Run a program; return its output and its peak memory in MiB.

    If an error of the library ends the program, the output ends with the error's text.
    """
    body = "\n".join(f"    {line}" for line in program.strip().splitlines())
    command = [sys.executable, "-c", _BEFORE + body + _AFTER]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    *printed, peak = done.stdout.strip().splitlines()
    return "\n".join(printed), int(peak)
