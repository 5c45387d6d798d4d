"""Which bytes wait to be sent?

Frames put in together go out together: many small requests make one system call.
"""

from __future__ import annotations


class Outbox:
    """Bytes in order of sending.

    What `head` once offered keeps its place and its content until `sent`: a TLS stream that could not take it all
    wants to be offered the same bytes again.
    """

    def __init__(self) -> None:
        self._head = memoryview(b"")
        self._gathered: list[bytes] = []
        self._gathered_bytes = 0

    def __len__(self) -> int:
        return len(self._head) + self._gathered_bytes

    def put(self, frame: bytes) -> None:
        """Add a frame at the end."""
        self._gathered.append(frame)
        self._gathered_bytes += len(frame)

    def head(self) -> memoryview:
        """What to send next; empty when nothing waits."""
        if not self._head and self._gathered:
            self._head = memoryview(b"".join(self._gathered))
            self._gathered, self._gathered_bytes = [], 0
        return self._head

    def sent(self, count: int) -> None:
        """Take the first `count` bytes of `head` off."""
        self._head = self._head[count:]
