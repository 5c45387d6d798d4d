"""Wait until the machine is idle, and report if it stays busy."""

from __future__ import annotations

import os
import time
from pathlib import Path

from tests.bench.bench_settings import IS_QUICK

BUSY_CORES = 0.5
QUIET_S = 3
IDLE_TIMEOUT_S = int(os.environ.get("BENCH_IDLE_TIMEOUT_S") or (20 if IS_QUICK else 120))
_TICKS = os.sysconf("SC_CLK_TCK")


def wait_until_idle() -> str:
    """Wait until the cores are almost idle for 3 s, or until the timeout; return the outcome and the load as text."""
    deadline, idle_s, busy = time.monotonic() + IDLE_TIMEOUT_S, 0, 0.0
    while idle_s < QUIET_S and time.monotonic() < deadline:
        busy = _busy_cores(1.0)
        idle_s = idle_s + 1 if busy < BUSY_CORES else 0
    found = "quiet" if idle_s >= QUIET_S else f"NOT QUIET after {IDLE_TIMEOUT_S} s"
    text = f"{found}: {busy:.1f} cores busy, load {os.getloadavg()[0]:.1f}"
    print(f"machine {text}", flush=True)
    return text


def _busy_cores(seconds: float) -> float:
    began, busy = time.monotonic(), _busy_ticks()
    time.sleep(seconds)
    return (_busy_ticks() - busy) / _TICKS / (time.monotonic() - began)


def _busy_ticks() -> int:
    """Return the clock ticks that all cores have worked since boot, without idle time and waits for disks."""
    user, nice, system, _idle, _wait, *interrupts = map(int, Path("/proc/stat").read_text().split("\n")[0].split()[1:9])
    return user + nice + system + sum(interrupts)
