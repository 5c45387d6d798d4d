"""Carry TLS over a non-blocking socket, one bounded piece at a time.

On a socket OpenSSL reads on for as long as it finds what is no data: greetings, tickets, new keys. A server that sends
these without end keeps a caller inside one call, whatever its deadline. So OpenSSL works in memory here, and each
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
"""Of what TLS itself has to say to a server that does not read it."""


class TlsStream:
    """One TLS client on a connected socket. Not thread-safe."""

    def __init__(self, context: ssl.SSLContext, sock: socket.socket, host: str) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self._read_into = cast(Callable[[int, memoryview], int], self._tls.read)
        """With a place to read into it returns a count, which its type does not say."""
        self._piece = memoryview(bytearray(PIECE_BYTES))
        self._sealed = memoryview(b"")
        """Encrypted bytes that the socket has yet to take."""
        self._taken = 0
        """Bytes of the caller's that are among the sealed ones, and have not been reported as sent."""

    def fileno(self) -> int:
        """The descriptor, -1 once closed."""
        return self._sock.fileno()

    def close(self) -> None:
        """End the stream."""
        self._sock.close()

    @property
    def holds_bytes(self) -> bool:
        """Whether bytes were received that have not been handed out."""
        return bool(self._incoming.pending or self._tls.pending())

    def shake_hands(self) -> bool:
        """Go on with the handshake; return whether it is done. Raises when the socket must be waited for."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            self._feed()
            return False
        except ssl.SSLError:
            with suppress(OSError):
                self._flush()  # The server may want to know why.
            raise
        self._flush()
        return True

    def send(self, data: memoryview) -> int:
        """Send a piece of the data; return its size once the socket has taken all of it. Until then offer the same."""
        if not self._taken:
            self._taken = self._tls.write(data[:PIECE_BYTES])
        self._flush()
        taken, self._taken = self._taken, 0
        return taken

    def recv_into(self, space: memoryview) -> int:
        """Receive what is there now; 0 when the peer has ended the stream."""
        try:
            return self._read(space)
        except ssl.SSLWantReadError:
            self._feed()
        count = self._read(space)
        if self._outgoing.pending:
            self._speak()
        return count

    def _read(self, space: memoryview) -> int:
        """Decrypt what is in memory; errors that come after data are raised the next time."""
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
        """Take one piece off the socket; raises when there is nothing."""
        try:
            count = self._sock.recv_into(self._piece)
        except BlockingIOError:
            raise ssl.SSLWantReadError from None
        if count:
            self._incoming.write(self._piece[:count])
        else:
            self._incoming.write_eof()

    def _speak(self) -> None:
        """Send what TLS itself has to say, as far as the socket takes it."""
        with suppress(ssl.SSLWantWriteError):
            self._flush()
        if len(self._sealed) > _MOST_OWN_BYTES:
            raise ssl.SSLError("the server asks for new handshakes and reads no answer")

    def _flush(self) -> None:
        """Send all that is encrypted; raises when the socket does not take it."""
        if self._outgoing.pending:
            self._sealed = memoryview(b"".join((self._sealed, self._outgoing.read())))
        try:
            while self._sealed:
                self._sealed = self._sealed[self._sock.send(self._sealed) :]
        except BlockingIOError:
            raise ssl.SSLWantWriteError from None
