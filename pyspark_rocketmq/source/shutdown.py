"""End the planner's process when Spark asks for it, without interrupting work half-way.

Spark sends SIGTERM, twice within milliseconds, and does not wait. The first signal raises an exception in the process.
Spark's loop around the reader catches it and calls `stop`. Later signals are ignored, so that nothing interrupts `stop`
while it commits and releases locks.

An exception that a signal raises can leave a lock held for ever: the standard library takes some of its locks in
Python. So the exception is raised between two calls of Spark, while no code of this library runs. A running call may
return first. After `grace_s` the call is interrupted, but only at a moment when its thread waits, or runs code of this
library, whose `with` statements are safe. If no such moment comes within `exit_s`, or if `stop` does not return within
`exit_s`, the system ends the process.

A driver that is killed sends no signal, and a waiting call does not notice. So the process checks every second whether
its parent still lives; if not, it sends itself SIGTERM.
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

from .rhythm import PlannerRhythm

__all__ = ["ShutdownHandler"]

_OURS = __name__.partition(".")[0]


class ShutdownHandler:
    """Ends the planner's process, in which Spark calls a reader, after a SIGTERM or when its parent process has ended.

    Does nothing outside the main thread, or on Windows.
    """

    def __init__(self, rhythm: PlannerRhythm) -> None:
        self._rhythm = rhythm
        self._is_busy = self._is_asked = self._was_signalled = False
        self._before: Any = signal.SIG_DFL
        """The handler of SIGTERM that was installed before this one."""
        self._is_over = threading.Event()
        self._check_count = 0

    def __repr__(self) -> str:
        return f"<ShutdownHandler {'signalled' if self._is_asked else 'waiting'}>"

    def install(self) -> None:
        """Install the handler of SIGTERM; from now on the process ends on SIGTERM, or when its parent has ended."""
        if _has_signals():
            self._before = signal.signal(signal.SIGTERM, self._leave)
            threading.Thread(target=self._watch, args=(os.getppid(),), name="rocketmq-driver", daemon=True).start()

    @contextmanager
    def call(self) -> Iterator[None]:
        """Return a context for one call of Spark: a SIGTERM during the block ends the process after the block.

        If the block goes on for `grace_s` after the signal, it is interrupted at the next moment when that is safe.
        """
        self._is_busy = True
        try:
            yield
        finally:
            self._is_busy = False
            if self._is_asked:
                self._exit()

    @contextmanager
    def stopping(self) -> Iterator[None]:
        """Return a context for the reader's `stop`: during the block, SIGTERM is ignored.

        If no SIGTERM came before the block, the process goes on after it, so the former handler is restored.
        """
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
        while not self._is_over.wait(self._rhythm.driver_check_s):
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
        signal.signal(signal.SIGALRM, self._interrupt)
        signal.setitimer(signal.ITIMER_REAL, self._rhythm.grace_s, self._rhythm.grace_check_s)

    def _interrupt(self, _number: int, frame: FrameType | None) -> None:
        self._check_count += 1
        if self._check_count * self._rhythm.grace_check_s > self._rhythm.exit_s:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
        elif self._is_busy and frame and _is_safe(frame):
            self._exit()

    def _exit(self) -> None:
        """Raise `SystemExit`, and have the system end the process by SIGALRM if it still runs after `exit_s`."""
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, self._rhythm.exit_s)
        raise SystemExit


def _has_signals() -> bool:
    return sys.platform != "win32" and threading.current_thread() is threading.main_thread()


def _is_safe(frame: FrameType) -> bool:
    """Return whether an exception may be raised in `frame` without leaving a lock held.

    It may if the frame runs code of this library, or is a function called `wait`.
    """
    module: str = frame.f_globals.get("__name__", "")
    return module.partition(".")[0] == _OURS or frame.f_code.co_name == "wait"
