"""End the planner's process when Spark asks for it, without breaking anything off.

Spark sends SIGTERM, twice within milliseconds, and does not wait. The first signal ends the process as if by an
exception, upon which Spark's loop around the reader calls `stop`; all later ones are ignored, so that `stop` publishes
and releases what it can in its own time.

An exception that a signal raises can leave a lock held for ever: the standard library takes some of its locks in
Python. So it is raised between two calls of Spark, where no code of ours runs. A call that is under way may return
first. One that waits for longer than `GRACE_S` is broken off, but only in a moment in which the thread runs code of
ours, whose `with` statements are safe, or waits. If that moment does not come, or `stop` does not return, the system
ends the process `LIMIT_S` later.

A driver that is killed sends no signal, and a call that waits does not notice. So the process looks every second
whether its parent is still there, and sends itself the signal if not.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

__all__ = ["Ending"]

GRACE_S = 2.0
"""How long a call may take to return by itself."""
LOOK_AGAIN_S = 0.05
LIMIT_S = 25.0
"""More than `stop` takes when every broker is away."""
WATCH_S = 1.0
"""From one look for the driver to the next."""
_OURS = __name__.partition(".")[0]


class Ending:
    """The end of a process in which Spark calls a reader. Acts in the main thread of a process that knows SIGTERM."""

    def __init__(self) -> None:
        self._is_busy = self._is_asked = self._was_signalled = False
        self._before: Any = signal.SIG_DFL
        """What SIGTERM did before it was awaited."""
        self._is_over = threading.Event()
        self._look_count = 0

    def __repr__(self) -> str:
        return f"<Ending {'asked for' if self._is_asked else 'not asked for'}>"

    def await_signal(self) -> None:
        """End the process with the next SIGTERM, or with its parent."""
        if _has_signals():
            self._before = signal.signal(signal.SIGTERM, self._leave)
            threading.Thread(target=self._watch, args=(os.getppid(),), name="rocketmq-driver", daemon=True).start()

    @contextmanager
    def call(self) -> Iterator[None]:
        """Let one call of Spark return before the process ends."""
        self._is_busy = True
        try:
            yield
        finally:
            self._is_busy = False
            if self._is_asked:
                self._exit()

    @contextmanager
    def stopping(self) -> Iterator[None]:
        """Let no SIGTERM break off what is done at the end. A process that goes on has its own answer to it again."""
        self._is_over.set()
        if _has_signals():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        try:
            yield
        finally:
            if _has_signals():
                signal.setitimer(signal.ITIMER_REAL, 0)
                if not self._was_signalled:
                    signal.signal(signal.SIGTERM, self._before)

    def _watch(self, parent: int) -> None:
        while not self._is_over.wait(WATCH_S):
            if os.getppid() != parent:
                os.kill(os.getpid(), signal.SIGTERM)
                return

    # --- in signal handlers, which may take no locks -----------------------------------------------------------------

    def _leave(self, _number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self._was_signalled = True
        if not self._is_busy:
            self._exit()
        self._is_asked = True
        signal.signal(signal.SIGALRM, self._break_off)
        signal.setitimer(signal.ITIMER_REAL, GRACE_S, LOOK_AGAIN_S)

    def _break_off(self, _number: int, frame: FrameType | None) -> None:
        self._look_count += 1
        if self._look_count * LOOK_AGAIN_S > LIMIT_S:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
        elif self._is_busy and frame and _is_safe(frame):
            self._exit()

    def _exit(self) -> None:
        """Leave by an exception; the system's own answer to SIGALRM is to end the process."""
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
        raise SystemExit


def _has_signals() -> bool:
    return sys.platform != "win32" and threading.current_thread() is threading.main_thread()


def _is_safe(frame: FrameType) -> bool:
    """Whether no lock can be left held: the thread runs code of ours, or waits in the standard library."""
    module: str = frame.f_globals.get("__name__", "")
    return module.partition(".")[0] == _OURS or frame.f_code.co_name == "wait"
