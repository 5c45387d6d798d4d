"""Count messages from any thread, and time them for `PushConsumer` runs."""

from __future__ import annotations

import threading
import time

_LONGEST_S = 900


class TimedCount:
    """A count of messages whose clock runs from the first message to the last wanted one."""

    def __init__(self, wanted: int) -> None:
        self.messages = 0
        self._wanted = wanted
        self._began = self._ended = 0.0
        self._lock = threading.Lock()
        self._done = threading.Event()

    @property
    def seconds(self) -> float:
        """The time from the first message to the last wanted one."""
        return self._ended - self._began

    def add(self, count: int) -> None:
        """Add received messages."""
        with self._lock:
            self._began = self._began or time.perf_counter()
            self.messages += count
            if self.messages >= self._wanted and not self._done.is_set():
                self._ended = time.perf_counter()
                self._done.set()

    def wait(self) -> None:
        """Wait until all wanted messages were received."""
        if not self._done.wait(_LONGEST_S):
            raise TimeoutError(f"{self.messages} of {self._wanted} messages in {_LONGEST_S} s")
