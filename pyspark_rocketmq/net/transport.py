"""Open, use and close one TCP or TLS stream.

This is the only module that opens sockets, and the only place where errors of the operating system become errors of
this library.

After connecting, no operation waits: `send` and `receive_into` do what can be done now, and `wait_ready` waits for many
streams at once. So no stream can hold up another, and a writer can go on reading. Each operation takes a lock, because
OpenSSL allows one at a time on a stream, and because a descriptor that is closed during an operation may already belong
to another stream.
"""

from __future__ import annotations

import functools
import math
import select
import selectors
import socket
import ssl
import sys
import threading
from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any, Protocol

from ..errors import ConnectError, ConnectionLost, OptionError
from ..model import Address
from .deadline import Deadline
from .settings import TlsSettings
from .tls_stream import TlsStream

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE

RECEIVE_BUFFER_BYTES = 4 * 1024 * 1024
"""Room in the kernel for the responses to all pulls in flight."""

_Candidate = tuple[socket.AddressFamily, Any]


class Waitable(Protocol):
    """An object with a descriptor to wait for."""

    def fileno(self) -> int:
        """Return the descriptor."""


if sys.platform == "win32":

    def wait_ready(waits: Iterable[tuple[Waitable, int]], timeout_s: float | None = None) -> bool:
        """Wait until a descriptor is ready for its `READ` or `WRITE`; return False if the timeout comes first."""
        with selectors.SelectSelector() as selector:
            for waitable, needs in waits:
                selector.register(waitable.fileno(), needs)
            return bool(selector.select(timeout_s))

else:
    _POLLED = {READ: select.POLLIN, WRITE: select.POLLOUT, READ | WRITE: select.POLLIN | select.POLLOUT}

    def wait_ready(waits: Iterable[tuple[Waitable, int]], timeout_s: float | None = None) -> bool:
        """Wait until a descriptor is ready for its `READ` or `WRITE`; return False if the timeout comes first.

        That costs a fifth of a `selectors.PollSelector` that is used once.
        """
        poll = select.poll()
        for waitable, needs in waits:
            poll.register(waitable.fileno(), _POLLED[needs])
        return bool(poll.poll(None if timeout_s is None else math.ceil(timeout_s * 1000)))


class Transport:
    """A connected stream, for any thread."""

    def __init__(self, sock: socket.socket | TlsStream, address: Address) -> None:
        if isinstance(sock, socket.socket):
            sock.setblocking(False)
        self.address = address
        self.encrypted = isinstance(sock, TlsStream)
        self._sock = sock
        self._lock = threading.Lock()
        self._reading_needs, self._writing_needs = READ, WRITE

    def fileno(self) -> int:
        """Return the descriptor, -1 once closed."""
        return self._sock.fileno()

    def needs(self, *, write: bool) -> int:
        """Return the events that make another attempt to receive, and if `write` to send, worth it."""
        return self._reading_needs | (self._writing_needs if write else 0)

    def send(self, data: memoryview) -> int:
        """Send what the stream takes now; return the number of bytes."""
        try:
            with self._lock:
                return self._sock.send(data)
        except (BlockingIOError, ssl.SSLWantWriteError):
            self._writing_needs = WRITE
        except ssl.SSLWantReadError:
            self._writing_needs = READ
        except OSError as cause:
            raise _lost(self.address, cause) from cause
        return 0

    def receive_into(self, space: memoryview) -> int | None:
        """Receive what is there now; return the number of bytes, None if there are none, 0 at the end of the stream."""
        try:
            with self._lock:
                return self._sock.recv_into(space)
        except (BlockingIOError, ssl.SSLWantReadError):
            self._reading_needs = READ
        except ssl.SSLWantWriteError:
            self._reading_needs = WRITE
        except OSError as cause:
            raise _lost(self.address, cause) from cause
        return None

    @property
    def has_unread(self) -> bool:
        """Whether bytes, or the end of the stream, are there to be received."""
        with self._lock:
            holds_bytes = isinstance(self._sock, TlsStream) and self._sock.holds_bytes
            return self.fileno() >= 0 and (holds_bytes or wait_ready([(self, READ)], 0.0))

    def close(self) -> None:
        """Close the stream."""
        with self._lock:
            self._sock.close()

    def abandon(self) -> None:
        """Drop a forked child's copy of the stream; the parent's is not touched.

        The lock is replaced: if another thread held it at the fork, it stays locked in the child.
        """
        self._lock = threading.Lock()
        self.close()


class Waker:
    """A descriptor by which one thread ends another thread's `wait_ready`."""

    def __init__(self) -> None:
        self._receiver, self._sender = socket.socketpair()
        self._lock = threading.Lock()
        self._is_set = False

    def fileno(self) -> int:
        """Return the descriptor that becomes readable."""
        return self._receiver.fileno()

    def wake(self) -> None:
        """Make the descriptor readable; do nothing if it is, or after `close`."""
        with self._lock:
            if not self._is_set and self._sender.fileno() >= 0:
                self._sender.send(b"\0")
                self._is_set = True

    def clear(self) -> None:
        """Make the descriptor unreadable again."""
        with self._lock:
            if self._is_set:
                self._receiver.recv(1)
                self._is_set = False

    def close(self) -> None:
        """Close the descriptors."""
        with self._lock:
            self._receiver.close()
            self._sender.close()

    def abandon(self) -> None:
        """Drop a forked child's copy; the lock is replaced as in `Transport.abandon`."""
        self._lock = threading.Lock()
        self.close()


# --- connecting ------------------------------------------------------------------------------------------------------


def connect(address: Address, deadline: Deadline, tls: TlsSettings | None = None) -> Transport:
    """Return a connected stream, TLS handshake included; raise if the deadline passes before."""
    context = None if tls is None else _tls_context(tls)
    sock = _connect_tcp(address, deadline)
    try:
        return Transport(sock if context is None else _shake_hands(context, sock, address, deadline), address)
    except BaseException:
        sock.close()
        raise


def _connect_tcp(address: Address, deadline: Deadline) -> socket.socket:
    """Connect to one of the host's addresses; each attempt may use its share of the time left."""
    candidates = _resolve(address, deadline)
    failure: OSError | None = None
    for left, candidate in zip(range(len(candidates), 0, -1), candidates, strict=True):
        try:
            return _connect_one(candidate, deadline.remaining() / left)
        except OSError as cause:
            failure = cause
    raise _unreachable(address, failure, deadline) from failure


def _connect_one(candidate: _Candidate, timeout_s: float) -> socket.socket:
    family, where = candidate
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        _tune(sock)
        sock.settimeout(max(timeout_s, 0.001))
        sock.connect(where)
    except BaseException:
        sock.close()
        raise
    return sock


def _tune(sock: socket.socket) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if _large_buffers_granted():
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)


@functools.cache
def _large_buffers_granted() -> bool:
    """Return whether the kernel grants this size: a refused request would only end the kernel's own tuning."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        return probe.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) >= RECEIVE_BUFFER_BYTES


def _resolve(address: Address, deadline: Deadline) -> list[_Candidate]:
    """Return the host's addresses. A name lookup has no timeout, so a thread does it, and is abandoned if late."""
    try:
        return _look_up(address, socket.AI_NUMERICHOST)
    except (OSError, ValueError):
        found: Future[list[_Candidate]] = Future()
    threading.Thread(target=_look_up_into, args=(found, address), name=f"resolve {address.host}", daemon=True).start()
    try:
        return found.result(deadline.remaining())
    except TimeoutError as cause:
        what = f"the host name could not be resolved within {deadline.seconds:g} s"
        raise ConnectError(what, advice="check the name service of this machine", address=str(address)) from cause
    except (OSError, ValueError) as cause:
        raise ConnectError(f"unknown host: {cause}", advice="check the host name", address=str(address)) from cause


def _look_up(address: Address, flags: int = 0) -> list[_Candidate]:
    found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=flags)
    return [(family, where) for family, _, _, _, where in found]


def _look_up_into(found: Future[list[_Candidate]], address: Address) -> None:
    try:
        found.set_result(_look_up(address))
    except (OSError, ValueError) as cause:
        found.set_exception(cause)


def _unreachable(address: Address, cause: OSError | None, deadline: Deadline) -> ConnectError:
    if isinstance(cause, TimeoutError):
        what = f"no connection within {deadline.seconds:g} s"
        advice = "check address and firewall, or raise connectTimeoutMillis"
    elif isinstance(cause, ConnectionRefusedError):
        what, advice = "connection refused", "check host and port, and that the server is running"
    else:
        what, advice = f"no connection: {_reason(cause)}", "check address and network"
    return ConnectError(what, advice=advice, address=str(address))


def _lost(address: Address, cause: OSError) -> ConnectionLost:
    if isinstance(cause, ssl.SSLError):
        advice = "a server that asks for a client certificate needs tlsClientCertPath and tlsClientKeyPath"
        return ConnectionLost(f"TLS failed: {_reason(cause)}", advice=advice, address=str(address))
    return ConnectionLost(f"the connection broke: {_reason(cause)}", advice="try again", address=str(address))


def _reason(cause: Exception | None) -> str:
    if isinstance(cause, ssl.SSLError) and cause.reason:
        return cause.reason.lower().replace("_", " ")
    return getattr(cause, "strerror", None) or str(cause)


# --- TLS -------------------------------------------------------------------------------------------------------------


def _tls_context(settings: TlsSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # With renegotiation, sending might have to wait for incoming bytes.
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.check_hostname = settings.verify_server
    context.verify_mode = ssl.CERT_REQUIRED if settings.verify_server else ssl.CERT_NONE
    _load_trusted(context, settings)
    _load_own(context, settings)
    return context


def _load_trusted(context: ssl.SSLContext, settings: TlsSettings) -> None:
    if settings.trust_cert_path is None and settings.trust_cert is None:
        context.load_default_certs()
        return
    try:
        context.load_verify_locations(cafile=settings.trust_cert_path, cadata=settings.trust_cert)
    except (OSError, ValueError, TypeError) as cause:
        option = "tlsTrustCert" if settings.trust_cert_path is None else "tlsTrustCertPath"
        what = f"no certificates could be read: {cause}"
        raise OptionError(option, settings.trust_cert_path, what, advice="give CA certificates as PEM") from cause


def _load_own(context: ssl.SSLContext, settings: TlsSettings) -> None:
    if settings.client_cert_path is None:
        return
    try:
        # Without a password OpenSSL would ask for one at the terminal.
        password = settings.client_key_password or ""
        context.load_cert_chain(settings.client_cert_path, settings.client_key_path, password)
    except (OSError, ValueError) as cause:
        what = f"certificate or key could not be read: {cause}"
        advice = "give PEM files that belong together; check tlsClientKeyPath and tlsClientKeyPassword"
        raise OptionError("tlsClientCertPath", settings.client_cert_path, what, advice=advice) from cause


def _shake_hands(context: ssl.SSLContext, sock: socket.socket, address: Address, deadline: Deadline) -> TlsStream:
    try:
        stream = TlsStream(context, sock, address.host)
        while (needs := _shake_once(stream)) is not None:
            if (needs and not wait_ready([(stream, needs)], deadline.remaining())) or deadline.expired:
                raise TimeoutError(f"not done within {deadline.seconds:g} s")
    except (OSError, ValueError) as cause:
        raise _no_handshake(address, cause) from cause
    return stream


def _shake_once(stream: TlsStream) -> int | None:
    """Go on with the handshake; return the events to wait for, 0 for no wait, and None when it is done."""
    try:
        return None if stream.shake_hands() else 0
    except ssl.SSLWantWriteError:
        return WRITE
    except ssl.SSLWantReadError:
        return READ


def _no_handshake(address: Address, cause: OSError | ValueError) -> ConnectError:
    if isinstance(cause, ssl.SSLCertVerificationError):
        what = f"the server's certificate was refused: {cause.verify_message}"
        advice = "name its CA with tlsTrustCertPath or tlsTrustCert; tlsAuthServer=false trusts any server"
    else:
        what = f"no TLS handshake: {_reason(cause)}"
        advice = (
            "if the server does not speak TLS, set useTLS=false; if it asks for a certificate, set tlsClientCertPath"
        )
    return ConnectError(what, advice=advice, address=str(address))
