"""Keep requests sent by the server until they are served, limited in number and in bytes.

One thread puts requests in, another takes them out. While `is_full`, the first thread receives nothing from the server.
A request's body is copied, because as a view it would keep a whole receive buffer alive.
"""

from __future__ import annotations

import threading
from collections import deque

from ..wire.header import Command

MOST_REQUESTS = 1000
MOST_REQUEST_BYTES = 16 * 1024 * 1024
_FIELD_BYTES = 200
"""The memory that a header field needs in addition to its characters, in bytes."""


class InboundRequests:
    """Requests sent by the server, in order of arrival."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[Command] = deque()
        self._bytes = 0
        self._has_ended = False

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def is_full(self) -> bool:
        """Whether a limit is reached, so that no more requests should be put in."""
        return len(self._waiting) >= MOST_REQUESTS or self._bytes >= MOST_REQUEST_BYTES

    def put(self, request: Command) -> None:
        """Add a request and copy its body; the caller checks `is_full` before."""
        request.body = bytes(request.body)
        with self._changed:
            self._waiting.append(request)
            self._bytes += _size_of(request)
            self._changed.notify()

    def take(self) -> tuple[Command | None, bool]:
        """Wait for a request, remove it and return (request, whether this removal ended `is_full`).

        After `end`, return (None, False).
        """
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._has_ended)
            if self._has_ended:
                return None, False
            was_full = self.is_full
            request = self._waiting.popleft()
            self._bytes -= _size_of(request)
            return request, was_full and not self.is_full

    def end(self) -> list[int]:
        """End all calls of `take`, drop the waiting requests, and return their codes."""
        with self._changed:
            self._has_ended = True
            left = [request.code for request in self._waiting]
            self._waiting.clear()
            self._changed.notify_all()
        return left


def _size_of(request: Command) -> int:
    fields = request.fields or {}
    return len(request.body) + sum(len(name) + len(value) + _FIELD_BYTES for name, value in fields.items())
