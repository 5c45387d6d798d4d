"""Measure the processor time that idle members need."""

from __future__ import annotations

import threading
import time

__all__ = ["idle_cpu_share"]


def idle_cpu_share(seconds: float) -> float:
    """Wait for `seconds`, and return the share of one core that this process used meanwhile.

    The time of other processes does not count, so a busy machine does not change the result.
    """
    began_s, cpu_s = time.monotonic(), time.process_time()
    threading.Event().wait(seconds)
    return (time.process_time() - cpu_s) / (time.monotonic() - began_s)
