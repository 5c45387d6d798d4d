"""What does a member cost that has nothing to do?"""

from __future__ import annotations

import threading
import time

__all__ = ["idle_cpu_share"]


def idle_cpu_share(seconds: float) -> float:
    """Which share of one core this process takes while it only waits so long, with all threads of its members.

    Only its own time counts, so it may be measured on a busy machine.
    """
    began_s, cpu_s = time.monotonic(), time.process_time()
    threading.Event().wait(seconds)
    return (time.process_time() - cpu_s) / (time.monotonic() - began_s)
