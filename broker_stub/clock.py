"""What time is it in the stub, and what is due?

Every delay of the broker runs on one `Clock`: delay levels, timers, lock leases, held pulls, the expiry of heartbeats.
Two times are kept apart. *Elapsed* time only grows and decides what is due; *wall* time is what messages are stamped
with, and may be set back or forth (`jump`) without anything becoming due. Both follow the machine's clock unless the
clock is frozen; `advance` makes them run ahead. A clock calls nobody by itself: its owner is told when the next call is
due (`on_schedule`) and then calls `run_due`.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable

Callback = Callable[[], None]


class Timer:
    """One call to come."""

    __slots__ = ("callback", "due_ms")

    def __init__(self, due_ms: float, callback: Callback) -> None:
        self.due_ms = due_ms
        self.callback: Callback | None = callback

    def cancel(self) -> None:
        """Make it never happen; harmless afterwards."""
        self.callback = None

    def __lt__(self, other: Timer) -> bool:
        return self.due_ms < other.due_ms


class Clock:
    """Wall time in milliseconds, and calls to be made when their time comes. Not thread-safe."""

    def __init__(self, *, frozen: bool = False) -> None:
        self.frozen = frozen
        self.on_schedule: Callback = lambda: None
        """Called when the next due time may have changed."""
        self._skipped_ms = 0.0
        self._wall_start_ms = time.time() * 1000
        self._start = time.monotonic()
        self._timers: list[Timer] = []

    def __repr__(self) -> str:
        return f"<Clock {'frozen ' if self.frozen else ''}at {self.now_ms()}, {len(self._timers)} timers>"

    def now_ms(self) -> int:
        """The wall time messages are stamped with."""
        return int(self._wall_start_ms + self.elapsed_ms())

    def elapsed_ms(self) -> float:
        """Time since the clock was made; only grows."""
        flowed = 0.0 if self.frozen else (time.monotonic() - self._start) * 1000
        return flowed + self._skipped_ms

    def call_later(self, delay_ms: float, callback: Callback) -> Timer:
        """Call back after a while; returns the timer, which can be cancelled."""
        timer = Timer(self.elapsed_ms() + max(0.0, delay_ms), callback)
        heapq.heappush(self._timers, timer)
        self.on_schedule()
        return timer

    def wait_ms(self) -> float | None:
        """How long until something is due; None if nothing is, or if only `advance` can bring it."""
        self._drop_cancelled()
        if not self._timers or (self.frozen and self._timers[0].due_ms > self._skipped_ms):
            return None
        return max(0.0, self._timers[0].due_ms - self.elapsed_ms())

    def run_due(self) -> None:
        """Make the calls whose time has come, in the order of their times."""
        now = self.elapsed_ms()
        while (timer := self._next_due(now)) is not None:
            self._fire(timer)
        self.on_schedule()

    def advance(self, ms: float) -> None:
        """Let time pass at once; what is due on the way is called at its own time."""
        end = self.elapsed_ms() + ms
        while (timer := self._next_due(end)) is not None:
            self._skipped_ms += max(0.0, timer.due_ms - self.elapsed_ms())
            self._fire(timer)
        self._skipped_ms += max(0.0, end - self.elapsed_ms())
        self.on_schedule()

    def jump(self, ms: float) -> None:
        """Set the wall time forth, or back if negative; nothing becomes due by it."""
        self._wall_start_ms += ms

    def _next_due(self, end_ms: float) -> Timer | None:
        self._drop_cancelled()
        due = self._timers and self._timers[0].due_ms <= end_ms
        return heapq.heappop(self._timers) if due else None

    def _drop_cancelled(self) -> None:
        while self._timers and self._timers[0].callback is None:
            heapq.heappop(self._timers)

    def _fire(self, timer: Timer) -> None:
        if timer.callback is not None:
            timer.callback()
