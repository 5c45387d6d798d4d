"""Tell the time to clients, and wait for it to pass.

Everything periodic here runs on a `Clock`, so that a test lets hours pass at once. Deadlines of single requests are the
network's own and always real.
"""

from __future__ import annotations

import threading
import time
from typing import Protocol

__all__ = ["Clock", "SystemClock"]


class Clock(Protocol):
    """Monotonic time for what is due, wall time for what is stored."""

    def now_s(self) -> float:
        """Return monotonic seconds."""

    def wall_ms(self) -> int:
        """Return milliseconds since 1970."""

    def wait(self, news: threading.Condition, seconds: float | None) -> None:
        """Wait with the condition held until it is notified or the time has passed."""


class SystemClock:
    """The time of this machine."""

    now_s = staticmethod(time.monotonic)

    def wall_ms(self) -> int:
        """Return milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def wait(self, news: threading.Condition, seconds: float | None) -> None:
        """Wait with the condition held until it is notified or the time has passed."""
        news.wait(seconds)
