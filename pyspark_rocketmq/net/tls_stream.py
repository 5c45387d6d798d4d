"""Carry TLS over a non-blocking socket, one bounded piece at a time.

On a socket, OpenSSL goes on reading while it finds records without data: handshakes, tickets, new keys. A server that
sends these without end keeps a caller inside one call, past its deadline. So OpenSSL works in memory here, and each
attempt gives it one piece of what has arrived. A stream behaves as a non-blocking socket does, and raises its errors.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import cast

PIECE_BYTES = 64 * 1024
_MOST_OWN_BYTES = 1024 * 1024
"""The most bytes of TLS's own that may wait for a server that does not read them."""


class TlsStream:
    """One TLS client on a connected socket. Not thread-safe."""

    def __init__(self, context: ssl.SSLContext, sock: socket.socket, host: str) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self._read_into = cast(Callable[[int, memoryview], int], self._tls.read)
        """With a buffer it returns a count, which its type does not say."""
        self._piece = memoryview(bytearray(PIECE_BYTES))
        self._sealed = memoryview(b"")
        """Encrypted bytes that the socket has not taken yet."""
        self._taken = 0
        """How many of the caller's bytes are among the sealed ones and have not been reported as sent."""

    def fileno(self) -> int:
        """Return the descriptor, -1 once closed."""
        return self._sock.fileno()

    def close(self) -> None:
        """Close the stream."""
        self._sock.close()

    @property
    def holds_bytes(self) -> bool:
        """Whether it holds received bytes that have not been handed out."""
        return bool(self._incoming.pending or self._tls.pending())

    def shake_hands(self) -> bool:
        """Go on with the handshake; return whether it is done; raise when the socket must be waited for."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            self._feed()
            return False
        except ssl.SSLError:
            with suppress(OSError):
                self._flush()  # This tells the server why.
            raise
        self._flush()
        return True

    def send(self, data: memoryview) -> int:
        """Send a piece of the data; return its size once the socket has it all. Until then pass the same data."""
        if not self._taken:
            self._taken = self._tls.write(data[:PIECE_BYTES])
        self._flush()
        taken, self._taken = self._taken, 0
        return taken

    def recv_into(self, space: memoryview) -> int:
        """Receive what is there now; return the number of bytes, 0 at the end of the stream."""
        try:
            return self._read(space)
        except ssl.SSLWantReadError:
            self._feed()
        count = self._read(space)
        if self._outgoing.pending:
            self._flush_own()
        return count

    def _read(self, space: memoryview) -> int:
        """Decrypt what is in memory; return the number of bytes. Errors behind data are raised the next time."""
        count = 0
        try:
            while count < len(space) and (more := self._read_into(len(space) - count, space[count:])):
                count += more
        except ssl.SSLEOFError:
            return count
        except ssl.SSLError:
            if not count:
                raise
        return count

    def _feed(self) -> None:
        """Take one piece off the socket; raise when there is none."""
        try:
            count = self._sock.recv_into(self._piece)
        except BlockingIOError:
            raise ssl.SSLWantReadError from None
        if count:
            self._incoming.write(self._piece[:count])
        else:
            self._incoming.write_eof()

    def _flush_own(self) -> None:
        """Send TLS's own records, as far as the socket takes them."""
        with suppress(ssl.SSLWantWriteError):
            self._flush()
        if len(self._sealed) > _MOST_OWN_BYTES:
            raise ssl.SSLError("the server asks for new handshakes and reads no answer")

    def _flush(self) -> None:
        """Send all that is encrypted; raise when the socket does not take it."""
        if self._outgoing.pending:
            self._sealed = memoryview(b"".join((self._sealed, self._outgoing.read())))
        try:
            while self._sealed:
                self._sealed = self._sealed[self._sock.send(self._sealed) :]
        except BlockingIOError:
            raise ssl.SSLWantWriteError from None
