"""Is the machine busy with something else? Benchmarks wait until it is not, and say so when it stays busy."""

from __future__ import annotations

import os
import time
from pathlib import Path

from tests.bench.plan import IS_QUICK

BUSY_CORES = 0.5
QUIET_S = 3
PATIENCE_S = int(os.environ.get("BENCH_PATIENCE_S") or (20 if IS_QUICK else 120))
_TICKS = os.sysconf("SC_CLK_TCK")


def wait_quiet() -> str:
    """Wait until few cores are busy for some seconds, or patience ends; says which, and the load."""
    deadline, calm, busy = time.monotonic() + PATIENCE_S, 0, 0.0
    while calm < QUIET_S and time.monotonic() < deadline:
        busy = _busy_cores(1.0)
        calm = calm + 1 if busy < BUSY_CORES else 0
    found = "quiet" if calm >= QUIET_S else f"NOT QUIET after {PATIENCE_S} s"
    told = f"{found}: {busy:.1f} cores busy, load {os.getloadavg()[0]:.1f}"
    print(f"machine {told}", flush=True)
    return told


def _busy_cores(seconds: float) -> float:
    began, busy = time.monotonic(), _busy_ticks()
    time.sleep(seconds)
    return (_busy_ticks() - busy) / _TICKS / (time.monotonic() - began)


def _busy_ticks() -> int:
    """All time of all cores but idle and waiting for disks."""
    user, nice, system, _idle, _wait, *interrupts = map(int, Path("/proc/stat").read_text().split("\n")[0].split()[1:9])
    return user + nice + system + sum(interrupts)
