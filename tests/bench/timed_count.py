"""Count received messages from several threads, and time them."""

from __future__ import annotations

import threading
import time

_LONGEST_S = 900


class TimedCount:
    """A counter of messages, and the time between the first message and the one that completes the wanted number."""

    def __init__(self, wanted: int) -> None:
        self.messages = 0
        self._wanted = wanted
        self._began = self._ended = 0.0
        self._lock = threading.Lock()
        self._done = threading.Event()

    @property
    def seconds(self) -> float:
        """The seconds from the first message to the one that completed the wanted number."""
        return self._ended - self._began

    def add(self, count: int) -> None:
        """Add `count` received messages."""
        with self._lock:
            self._began = self._began or time.perf_counter()
            self.messages += count
            if self.messages >= self._wanted and not self._done.is_set():
                self._ended = time.perf_counter()
                self._done.set()

    def wait(self) -> None:
        """Wait until the wanted number is received; raise `TimeoutError` after 900 s."""
        if not self._done.wait(_LONGEST_S):
            raise TimeoutError(f"{self.messages} of {self._wanted} messages in {_LONGEST_S} s")
