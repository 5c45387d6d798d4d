"""Keep the stub's time and run its timers.

Every delay of the broker runs on one `Clock`: delay levels, message timers, lock leases, held pulls, the expiry of
members. There are two times. *Elapsed* time only grows and determines when timers are due. *Wall* time is the time with
which messages are stamped; `jump` changes it forward or back, which makes no timer due. Both follow the machine's clock
unless the clock is frozen; `advance` moves both forward. A clock starts no thread: it calls `on_schedule` when the next
timer may have changed, and its owner calls `run_due`.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable

Callback = Callable[[], None]


class Timer:
    """A scheduled call of a function."""

    __slots__ = ("callback", "due_ms")

    def __init__(self, due_ms: float, callback: Callback) -> None:
        self.due_ms = due_ms
        self.callback: Callback | None = callback

    def cancel(self) -> None:
        """Cancel the call; do nothing if it was made already."""
        self.callback = None

    def __lt__(self, other: Timer) -> bool:
        return self.due_ms < other.due_ms


class Clock:
    """Wall time and elapsed time in milliseconds, and timers; not safe for several threads."""

    def __init__(self, *, frozen: bool = False) -> None:
        self.frozen = frozen
        self.on_schedule: Callback = lambda: None
        """Called when the due time of the next timer may have changed."""
        self._skipped_ms = 0.0
        self._wall_start_ms = time.time() * 1000
        self._start = time.monotonic()
        self._timers: list[Timer] = []

    def __repr__(self) -> str:
        return f"<Clock {'frozen ' if self.frozen else ''}at {self.now_ms()}, {len(self._timers)} timers>"

    def now_ms(self) -> int:
        """Return the wall time in milliseconds, with which messages are stamped."""
        return int(self._wall_start_ms + self.elapsed_ms())

    def elapsed_ms(self) -> float:
        """Return the milliseconds since the clock was made; this time only grows."""
        flowed = 0.0 if self.frozen else (time.monotonic() - self._start) * 1000
        return flowed + self._skipped_ms

    def call_later(self, delay_ms: float, callback: Callback) -> Timer:
        """Schedule a call of `callback` after `delay_ms` of elapsed time; return its timer, which can cancel it."""
        timer = Timer(self.elapsed_ms() + max(0.0, delay_ms), callback)
        heapq.heappush(self._timers, timer)
        self.on_schedule()
        return timer

    def wait_ms(self) -> float | None:
        """Return the milliseconds until the next timer is due; None if there is no timer.

        Return None also if the clock is frozen, unless the timer is due already.
        """
        self._drop_cancelled()
        if not self._timers or (self.frozen and self._timers[0].due_ms > self._skipped_ms):
            return None
        return max(0.0, self._timers[0].due_ms - self.elapsed_ms())

    def run_due(self) -> None:
        """Call the functions whose timers are due, in the order of their due times."""
        now = self.elapsed_ms()
        while (timer := self._next_due(now)) is not None:
            self._fire(timer)
        self.on_schedule()

    def advance(self, ms: float) -> None:
        """Move both times forward by `ms`; run each timer that becomes due, with the clock at the timer's due time."""
        end = self.elapsed_ms() + ms
        while (timer := self._next_due(end)) is not None:
            self._skipped_ms += max(0.0, timer.due_ms - self.elapsed_ms())
            self._fire(timer)
        self._skipped_ms += max(0.0, end - self.elapsed_ms())
        self.on_schedule()

    def jump(self, ms: float) -> None:
        """Move the wall time forward by `ms`, or back if `ms` is negative; no timer becomes due by that."""
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
