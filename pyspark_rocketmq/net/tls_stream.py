"""Send and receive over TLS on a non-blocking socket, at most one piece of limited size per call.

On a socket, OpenSSL goes on reading while it finds records without data: handshakes, tickets, new keys. A server that
sends these without end would keep a caller inside one call, past its deadline. So OpenSSL reads from memory here, and
each call gives it one piece of the bytes that have arrived. A stream raises the errors of a non-blocking TLS socket.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import cast

PIECE_BYTES = 64 * 1024
_MOST_OWN_BYTES = 1024 * 1024
"""The most bytes without data, such as handshakes, that may wait for a server that does not read them."""


class TlsStream:
    """The client side of TLS on a connected socket. Not thread-safe."""

    def __init__(self, context: ssl.SSLContext, sock: socket.socket, host: str) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self._read_into = cast(Callable[[int, memoryview], int], self._tls.read)
        """`SSLObject.read`; called with a buffer, it returns the number of bytes, which its type hint does not show."""
        self._piece = memoryview(bytearray(PIECE_BYTES))
        self._sealed = memoryview(b"")
        """Encrypted bytes that the socket has not accepted yet."""
        self._taken = 0
        """The number of the caller's bytes that are encrypted in `_sealed`, and not reported as sent yet."""

    def fileno(self) -> int:
        """Return the descriptor, -1 once closed."""
        return self._sock.fileno()

    def close(self) -> None:
        """Close the stream."""
        self._sock.close()

    @property
    def certificate_end(self) -> float | None:
        """The time until which the server's certificate is valid, in seconds since 1970; None if it was not checked."""
        end = (self._tls.getpeercert() or {}).get("notAfter")
        return ssl.cert_time_to_seconds(end) if isinstance(end, str) else None

    @property
    def holds_bytes(self) -> bool:
        """Whether the stream holds bytes that it has read from the socket and that `recv_into` has not returned yet."""
        return bool(self._incoming.pending or self._tls.pending())

    def shake_hands(self) -> bool:
        """Continue the handshake; return whether it is complete.

        Raise SSLWantReadError or SSLWantWriteError if the caller must first wait for the socket.
        """
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            self._feed()
            return False
        except ssl.SSLError:
            with suppress(OSError):
                self._flush()  # This sends the alert that tells the server the reason.
            raise
        self._flush()
        return True

    def send(self, data: memoryview) -> int:
        """Send a piece of the data; return the number of bytes sent.

        Raise SSLWantWriteError if the socket does not accept them all; then call again with the same data.
        """
        if not self._taken:
            self._taken = self._tls.write(data[:PIECE_BYTES])
        self._flush()
        taken, self._taken = self._taken, 0
        return taken

    def recv_into(self, space: memoryview) -> int:
        """Receive the bytes that have arrived; return their number, 0 at the end of the stream.

        Raise SSLWantReadError if none have arrived.
        """
        try:
            return self._read(space)
        except ssl.SSLWantReadError:
            self._feed()
        count = self._read(space)
        if self._outgoing.pending:
            self._flush_own()
        return count

    def _read(self, space: memoryview) -> int:
        """Decrypt bytes in OpenSSL's memory into `space`; return their number.

        If an error follows decrypted bytes, return these; the next call raises the error.
        """
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
        """Move one piece of bytes from the socket to OpenSSL's memory; raise SSLWantReadError if none have arrived."""
        try:
            count = self._sock.recv_into(self._piece)
        except BlockingIOError:
            raise ssl.SSLWantReadError from None
        if count:
            self._incoming.write(self._piece[:count])
        else:
            self._incoming.write_eof()

    def _flush_own(self) -> None:
        """Send the TLS records that OpenSSL makes itself, such as handshakes, as far as the socket accepts them.

        Raise SSLError if more than `_MOST_OWN_BYTES` bytes remain unsent, because the server does not read them.
        """
        with suppress(ssl.SSLWantWriteError):
            self._flush()
        if len(self._sealed) > _MOST_OWN_BYTES:
            raise ssl.SSLError("the server asks for new handshakes and reads no answer")

    def _flush(self) -> None:
        """Send all encrypted bytes; raise SSLWantWriteError if the socket does not accept them all."""
        if self._outgoing.pending:
            self._sealed = memoryview(b"".join((self._sealed, self._outgoing.read())))
        try:
            while self._sealed:
                self._sealed = self._sealed[self._sock.send(self._sealed) :]
        except BlockingIOError:
            raise ssl.SSLWantWriteError from None
