"""Keep the server's own requests until they can be served, bounded in number and in bytes.

One thread puts them in, another takes them out. Whoever puts looks at `is_full` and stops receiving for a while.
A body is copied when it is put: as a view it would keep a whole receive buffer alive.
"""

from __future__ import annotations

import threading
from collections import deque

from ..wire.header import Command

MOST_QUESTIONS = 1000
MOST_QUESTION_BYTES = 16 * 1024 * 1024
_FIELD_BYTES = 200
"""What a header field costs beside its characters."""


class Questions:
    """Requests in order of arrival."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[Command] = deque()
        self._bytes = 0
        self._has_ended = False

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def is_full(self) -> bool:
        """Whether nothing more should be put in now."""
        return len(self._waiting) >= MOST_QUESTIONS or self._bytes >= MOST_QUESTION_BYTES

    def put(self, request: Command) -> None:
        """Add a request."""
        request.body = bytes(request.body)
        with self._changed:
            self._waiting.append(request)
            self._bytes += _size_of(request)
            self._changed.notify()

    def take(self) -> tuple[Command | None, bool]:
        """Return the next request, waiting for one, and whether taking it made room; no request after the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._has_ended)
            if self._has_ended:
                return None, False
            was_full = self.is_full
            request = self._waiting.popleft()
            self._bytes -= _size_of(request)
            return request, was_full and not self.is_full

    def end(self) -> list[int]:
        """Let nobody wait any longer; return the codes of the requests that nobody took."""
        with self._changed:
            self._has_ended = True
            left = [request.code for request in self._waiting]
            self._waiting.clear()
            self._changed.notify_all()
        return left


def _size_of(request: Command) -> int:
    fields = request.fields or {}
    return len(request.body) + sum(len(name) + len(value) + _FIELD_BYTES for name, value in fields.items())
