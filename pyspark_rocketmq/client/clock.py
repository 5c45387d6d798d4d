"""What time is it for a client, and how does it wait for it to pass?

Everything periodic here runs on a `Clock`, so that hours pass in a test at once. Deadlines of single requests are the
network's own and always real.
"""

from __future__ import annotations

import threading
import time
from typing import Protocol

__all__ = ["Clock", "SystemClock"]


class Clock(Protocol):
    """Monotonic time for what is due, wall time for what is written down."""

    def now_s(self) -> float:
        """Monotonic seconds."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970."""

    def wait(self, news: threading.Condition, seconds: float | None) -> None:
        """Wait, holding the condition, until it is notified or so much time has passed."""


class SystemClock:
    """The machine's own time."""

    now_s = staticmethod(time.monotonic)

    def wall_ms(self) -> int:
        """Milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def wait(self, news: threading.Condition, seconds: float | None) -> None:
        """Wait, holding the condition, until it is notified or so much time has passed."""
        news.wait(seconds)
