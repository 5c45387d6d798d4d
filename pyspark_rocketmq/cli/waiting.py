"""Tell on a terminal what a command waits for, once it takes longer than a person expects."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self, TextIO

from ..errors import shown

__all__ = ["WaitingLine"]

_SILENT_S, _TICK_S = 2.0, 1.0
_MOST = 60
"""The most characters of what is waited for."""
_USUAL_COLUMNS = 80
_ERASE = "\r\x1b[K"


class WaitingLine:
    """A line that appears after two seconds, counts the seconds, and disappears at the end of the `with` block."""

    def __init__(self, terminal: TextIO, what: str, silent_s: float = _SILENT_S) -> None:
        self.what = what
        """The step that takes the time, in words; it may change at any time."""
        self._terminal = terminal
        self._silent_s = silent_s
        self._is_drawn = False
        self._ended = threading.Event()
        self._lock = threading.Lock()
        """Held while something is written to the terminal."""
        self._thread = threading.Thread(target=self._draw_on, name="waiting line", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        with self._lock:
            self._erase()

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Erase the line for a `with` block, which writes to the terminal or asks there."""
        with self._lock:
            self._erase()
            yield

    def _draw_on(self) -> None:
        started = time.monotonic()
        wait_s = self._silent_s
        while not self._ended.wait(wait_s):
            with self._lock:
                if not self._ended.is_set():
                    self._draw(time.monotonic() - started)
            wait_s = _TICK_S

    def _draw(self, seconds: float) -> None:
        self._is_drawn = True
        # A line that the terminal folds could not be erased.
        most = self._columns() - 1
        suffix = f" … {seconds:.0f} s"
        line = shown(self.what, _MOST)[: max(0, most - len(suffix))] + suffix
        self._write(f"{_ERASE}{line[:most]}")

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._terminal.fileno()).columns or _USUAL_COLUMNS
        except (OSError, ValueError):
            return _USUAL_COLUMNS

    def _erase(self) -> None:
        if self._is_drawn:
            self._is_drawn = False
            self._write(_ERASE)

    def _write(self, text: str) -> None:
        try:
            self._terminal.write(text)
            self._terminal.flush()
        except (OSError, ValueError):  # The terminal is gone; the command itself will notice.
            self._ended.set()
