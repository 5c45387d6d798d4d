"""Measure the processor time of members that have nothing to do."""

from __future__ import annotations

import threading
import time

__all__ = ["idle_cpu_share"]


def idle_cpu_share(seconds: float) -> float:
    """Return the share of one core that this process takes while it only waits, with all threads of its members.

    Only the process's own time counts, so it may be measured on a busy machine.
    """
    began_s, cpu_s = time.monotonic(), time.process_time()
    threading.Event().wait(seconds)
    return (time.process_time() - cpu_s) / (time.monotonic() - began_s)
