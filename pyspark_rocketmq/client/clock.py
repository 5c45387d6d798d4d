"""Tell the time to clients, and wait for a time.

All periodic work of clients uses a `Clock`, so that a test can let hours pass at once. Timeouts of single requests do
not use it: they always run in real time.
"""

from __future__ import annotations

import threading
import time
from typing import Protocol

__all__ = ["Clock", "SystemClock"]


class Clock(Protocol):
    """The time for a client: monotonic time for delays, wall time for timestamps that are stored."""

    def now_s(self) -> float:
        """Return the monotonic time in seconds."""

    def wall_ms(self) -> int:
        """Return the wall time in milliseconds since 1970."""

    def wait(self, news: threading.Condition, seconds: float | None) -> None:
        """Wait on a condition, whose lock is held, until it is notified or the time has passed (None: no limit)."""


class SystemClock:
    """The real time of this machine."""

    now_s = staticmethod(time.monotonic)

    def wall_ms(self) -> int:
        """Return the wall time in milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def wait(self, news: threading.Condition, seconds: float | None) -> None:
        """Wait on a condition, whose lock is held, until it is notified or the time has passed."""
        news.wait(seconds)
