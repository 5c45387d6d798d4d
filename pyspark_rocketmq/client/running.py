"""Start, wait and close, which all consumers and producers have in common, and the flags of a running member."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from ..errors import LocalProtocolError
from ..pull.process_queue import FlowLimits

__all__ = ["MemberState", "Running"]

_CLOSING_S = 5.0


class Running(ABC):
    """A consumer or producer, which runs from `start` to `close`: as long as its `with` block."""

    def __init__(self) -> None:
        self._started = threading.Lock()
        self._closing = threading.Lock()
        """Both locks are taken once and never released."""
        self._closed = threading.Event()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Start, once. What cannot start is closed before the error is raised."""
        if self._closing.locked():
            raise LocalProtocolError(f"{self!r} is closed and cannot start", advice="make a new one")
        if not self._started.acquire(blocking=False):
            raise LocalProtocolError(f"{self!r} was started before", advice="call start once, or use a with block")
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until another thread has called `close`; return whether that happened within `timeout_s`.

        Ctrl-C raises `KeyboardInterrupt` here as anywhere, and a `with` block then closes what it started.
        """
        if not self._started.locked():
            raise LocalProtocolError(f"{self!r} was not started", advice="call start, or use a with block")
        return self._closed.wait(timeout_s)

    def close(self) -> None:
        """Stop and free everything. A second call waits for the first one, at most 5 seconds."""
        if not self._closing.acquire(blocking=False):
            self._closed.wait(_CLOSING_S)
            return
        try:
            self._close()
        finally:
            self._closed.set()

    @abstractmethod
    def _start(self) -> None:
        """Start."""

    @abstractmethod
    def _close(self) -> None:
        """Close, whether it was started or not."""


class MemberState:
    """Flags and limits of a member. Any thread may read them at any moment; each is replaced as a whole."""

    def __init__(self, limits: FlowLimits) -> None:
        self.is_running = False
        self.is_paused = False
        """Whether nothing is pulled, and no queue is taken or given up, for the time being."""
        self.limits = limits
        """What a queue may hold now: the settings' limits, or its part of a topic's limits."""
        self._lock = threading.Lock()
        self._is_paused_by_user = False
        self._pending_resets = 0
        """Administrators' resets whose pause is not over."""

    def __repr__(self) -> str:
        state = "running" if self.is_running else "not running"
        return f"<MemberState {state}{', paused' if self.is_paused else ''}, {self.limits}>"

    def pause(self, is_paused: bool) -> None:
        """Pause or resume for the user."""
        with self._lock:
            self._is_paused_by_user = is_paused
            self._update()

    def begin_reset(self) -> None:
        """Pause for an administrator's reset."""
        with self._lock:
            self._pending_resets += 1
            self._update()

    def end_reset(self) -> bool:
        """Resume after a reset, and return whether it was the last pending one."""
        with self._lock:
            self._pending_resets -= 1
            self._update()
            return not self._pending_resets

    def _update(self) -> None:
        self.is_paused = self._is_paused_by_user or self._pending_resets > 0
