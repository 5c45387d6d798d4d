"""When have so many messages come? The clock of `PushConsumer` runs, counted from any thread."""

from __future__ import annotations

import threading
import time

_LONGEST_S = 900


class Tally:
    """Counts messages; the clock runs from the first until so many as are wanted have come."""

    def __init__(self, wanted: int) -> None:
        self.messages = 0
        self._wanted = wanted
        self._began = self._ended = 0.0
        self._lock = threading.Lock()
        self._done = threading.Event()

    @property
    def seconds(self) -> float:
        """From the first message to the last one wanted."""
        return self._ended - self._began

    def add(self, count: int) -> None:
        """So many came."""
        with self._lock:
            self._began = self._began or time.perf_counter()
            self.messages += count
            if self.messages >= self._wanted and not self._done.is_set():
                self._ended = time.perf_counter()
                self._done.set()

    def wait(self) -> None:
        """Until all have come."""
        if not self._done.wait(_LONGEST_S):
            raise TimeoutError(f"{self.messages} of {self._wanted} messages in {_LONGEST_S} s")
