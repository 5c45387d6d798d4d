"""Start, wait for and close any consumer or producer, and keep the flags of a running member."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from ..errors import LocalProtocolError
from ..pull.process_queue import FlowLimits
from .loop import OwnThread, ServingThread

__all__ = ["MemberState", "Running"]

_OWN_THREAD_S = 5.0


class Running(ABC):
    """Base class of consumers and producers. It runs from `start` to `close`, or during its `with` block."""

    def __init__(self) -> None:
        self._started = threading.Lock()
        self._closing = threading.Lock()
        """Each of the two locks is acquired once, by the first call of `start` or `close`, and never released."""
        self._closer: threading.Thread | None = None
        self._closed = threading.Event()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Start the consumer or producer.

        Raise if it was started or closed before; if starting fails, close it and raise.
        """
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
        """Wait until another thread has called `close`; return True if that happened within `timeout_s`.

        Ctrl-C raises `KeyboardInterrupt` in this call, and a `with` block then closes the consumer or producer.
        """
        if not self._started.locked():
            raise LocalProtocolError(f"{self!r} was not started", advice="call start, or use a with block")
        return self._closed.wait(timeout_s)

    def close(self) -> None:
        """Stop and free all resources. A second call waits until the first one has finished.

        In a listener and in the main thread it waits at most 5 seconds: the first call may wait for the listener, or
        for a lock of code that a signal handler has interrupted. Python calls signal handlers in the main thread.
        Within the first call, and in a callback of an asynchronous send, it does not wait.
        """
        if not self._closing.acquire(blocking=False):
            if not self._is_needed_to_close():
                self._closed.wait(_OWN_THREAD_S if self._may_hinder_closing() else None)
            return
        self._closer = threading.current_thread()
        try:
            self._close()
        finally:
            self._closed.set()

    def _is_needed_to_close(self) -> bool:
        """Return whether the first call of `close` goes on only when this thread does."""
        thread = threading.current_thread()
        return thread is self._closer or isinstance(thread, ServingThread)

    def _may_hinder_closing(self) -> bool:
        """Return whether this thread might keep the first call of `close` from ending by waiting for that call.

        That may be so in a thread that the first call waits for, such as a listener's, and in the main thread: a signal
        handler may have interrupted the first call there, or code that holds a lock which the first call needs.
        """
        thread = threading.current_thread()
        return isinstance(thread, OwnThread) or thread is threading.main_thread() or self._closer is None

    @abstractmethod
    def _start(self) -> None:
        """Start the parts of the subclass."""

    @abstractmethod
    def _close(self) -> None:
        """Close the parts of the subclass, also if starting failed or never happened."""


class MemberState:
    """Flags and limits of a member. Any thread may read them without a lock."""

    def __init__(self, limits: FlowLimits) -> None:
        self.is_running = False
        self.is_paused = False
        """True while the user or a pending reset pauses the member: it neither pulls, nor takes or gives up queues."""
        self.limits = limits
        """The present limits of each queue's cache: those of the settings, or a share of the topic limits."""
        self._lock = threading.Lock()
        self._is_paused_by_user = False
        self._pending_resets = 0
        """The number of administrators' resets whose pause is not over."""

    def __repr__(self) -> str:
        state = "running" if self.is_running else "not running"
        return f"<MemberState {state}{', paused' if self.is_paused else ''}, {self.limits}>"

    def pause(self, is_paused: bool) -> None:
        """Set whether the user pauses the member; it is paused, too, while an administrator's reset is pending."""
        with self._lock:
            self._is_paused_by_user = is_paused
            self._update()

    def begin_reset(self) -> None:
        """Pause the member until an administrator's reset has ended."""
        with self._lock:
            self._pending_resets += 1
            self._update()

    def end_reset(self) -> bool:
        """End the pause of one reset, and return True if no other reset is pending."""
        with self._lock:
            self._pending_resets -= 1
            self._update()
            return not self._pending_resets

    def _update(self) -> None:
        self.is_paused = self._is_paused_by_user or self._pending_resets > 0
