"""Open, use and close one TCP or TLS stream.

This is the only module that opens streams, and the only place where errors of the operating system become errors of
this library.

After connecting, no operation waits: `send` and `receive_into` move the bytes that can be moved now, and `wait_ready`
waits for many streams at once. So no stream can delay another, and a writer can go on reading. Each operation takes a
lock, because OpenSSL allows only one at a time on a stream, and because a descriptor that another thread closes during
an operation may already belong to a new stream.
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
import time
from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any, Protocol

from ..errors import ConnectError, ConnectionLost, OptionError
from ..model import Address
from .deadline import Deadline
from .settings import NetSettings, TlsSettings
from .tls_stream import TlsStream

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE

RECEIVE_BUFFER_BYTES = 4 * 1024 * 1024
"""The size of a socket's receive buffer in the kernel, enough for the responses to all pulls in flight."""

_Candidate = tuple[socket.AddressFamily, Any]


class Waitable(Protocol):
    """An object with a descriptor for `wait_ready`."""

    def fileno(self) -> int:
        """Return the descriptor."""


if sys.platform == "win32":

    def wait_ready(waits: Iterable[tuple[Waitable, int]], timeout_s: float | None = None) -> bool:
        """Wait until a descriptor is ready for one of its events; return False if the timeout comes first."""
        with selectors.SelectSelector() as selector:
            for waitable, needs in waits:
                selector.register(waitable.fileno(), needs)
            return bool(selector.select(timeout_s))

    def wait_for_hangup(waitable: Waitable, timeout_s: float) -> bool:
        """Wait, and return False: this system does not tell that the other end of a pipe is closed."""
        time.sleep(timeout_s)
        return False

else:
    _POLLED = {READ: select.POLLIN, WRITE: select.POLLOUT, READ | WRITE: select.POLLIN | select.POLLOUT}

    def wait_ready(waits: Iterable[tuple[Waitable, int]], timeout_s: float | None = None) -> bool:
        """Wait until a descriptor is ready for one of its events; return False if the timeout comes first.

        `select.poll` is used because creating a `selectors.PollSelector` for each call takes five times as long.
        """
        poll = select.poll()
        for waitable, needs in waits:
            poll.register(waitable.fileno(), _POLLED[needs])
        return bool(poll.poll(None if timeout_s is None else math.ceil(timeout_s * 1000)))

    def wait_for_hangup(waitable: Waitable, timeout_s: float) -> bool:
        """Wait until the other end of a pipe or terminal is closed; return False if the timeout comes first."""
        poll = select.poll()
        poll.register(waitable.fileno(), 0)
        return bool(poll.poll(math.ceil(timeout_s * 1000)))


class Transport:
    """A connected TCP or TLS stream, which any thread may use."""

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

    @property
    def certificate_end(self) -> float | None:
        """The time until which the server's certificate is valid, in seconds since 1970; None if it was not checked."""
        return self._sock.certificate_end if isinstance(self._sock, TlsStream) else None

    def needs(self, *, write: bool) -> int:
        """Return the events (READ, WRITE) to wait for before the next attempt to receive, or to send if `write`."""
        return self._reading_needs | (self._writing_needs if write else 0)

    def send(self, data: memoryview) -> int:
        """Send the bytes that the stream accepts now; return their number, which may be 0."""
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
        """Receive the bytes that have arrived; return their number, None if there are none, 0 at the stream's end."""
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
        """Whether `receive_into` would find bytes or the end of the stream now; False for a closed stream."""
        with self._lock:
            holds_bytes = isinstance(self._sock, TlsStream) and self._sock.holds_bytes
            return self.fileno() >= 0 and (holds_bytes or wait_ready([(self, READ)], 0.0))

    def close(self) -> None:
        """Close the stream."""
        with self._lock:
            self._sock.close()

    def abandon(self) -> None:
        """Close a forked child's copy of the stream; the parent's stays usable.

        The lock is replaced: if another thread held it at the fork, it would stay locked in the child.
        """
        self._lock = threading.Lock()
        self.close()


class Waker:
    """A descriptor with which one thread ends another thread's `wait_ready`."""

    def __init__(self) -> None:
        self._receiver, self._sender = socket.socketpair()
        self._lock = threading.Lock()
        self._is_set = False

    def fileno(self) -> int:
        """Return the descriptor that becomes readable."""
        return self._receiver.fileno()

    @property
    def is_set(self) -> bool:
        """Whether the descriptor is readable."""
        return self._is_set

    def wake(self) -> None:
        """Make the descriptor readable; do nothing if it is readable already or closed."""
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
        """Close a forked child's copy of the descriptors; replace the lock, which may have been held at the fork."""
        self._lock = threading.Lock()
        self.close()


# --- connecting ------------------------------------------------------------------------------------------------------


def connect(address: Address, deadline: Deadline, settings: NetSettings) -> Transport:
    """Return a connected stream, after the handshake if the settings have TLS.

    Raise `ConnectError` if that fails or takes longer than the deadline. Raise `AddressNotAllowed`, before a host name
    is looked up, if the settings do not allow the address.
    """
    if settings.allowed is not None:
        settings.allowed.check(address)
    context = None if settings.tls is None else _tls_context(settings.tls)
    sock = _connect_tcp(address, deadline)
    try:
        return Transport(sock if context is None else _shake_hands(context, sock, address, deadline), address)
    except BaseException:
        sock.close()
        raise


def _connect_tcp(address: Address, deadline: Deadline) -> socket.socket:
    """Connect to the first of the host's addresses that accepts; each attempt gets its share of the time left."""
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
    """Return whether the kernel grants `RECEIVE_BUFFER_BYTES`.

    If it does not, no size should be set, because that would switch off the kernel's automatic buffer sizes.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        return probe.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) >= RECEIVE_BUFFER_BYTES


def _resolve(address: Address, deadline: Deadline) -> list[_Candidate]:
    """Return the host's addresses; raise `ConnectError` if the host is unknown, or not found before the deadline.

    A thread looks the name up, because the system's resolver has no timeout; after the deadline its result is ignored.
    """
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

_OTHER_HOST = (62, 64)
"""OpenSSL's codes for a certificate that names other hosts (62), or other IP addresses (64)."""
_OTHER_TIME = (9, 10)
"""OpenSSL's codes for a certificate that is not valid yet (9), or has expired (10)."""


def _tls_context(settings: TlsSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # If renegotiation were allowed, sending might have to wait for incoming bytes.
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
    """Continue the handshake; return None when it is complete, else the events to wait for before the next call.

    0 means that the next call need not wait.
    """
    try:
        return None if stream.shake_hands() else 0
    except ssl.SSLWantWriteError:
        return WRITE
    except ssl.SSLWantReadError:
        return READ


def _no_handshake(address: Address, cause: OSError | ValueError) -> ConnectError:
    if isinstance(cause, ssl.SSLCertVerificationError):
        what = f"the server's certificate was refused: {cause.verify_message}"
        advice = _advise_on_certificate(cause)
    else:
        what = f"no TLS handshake: {_reason(cause)}"
        advice = (
            "check that the server speaks TLS at this port; if it asks for a certificate, set tlsClientCertPath; "
            "if it has no TLS, drop useTLS, and nothing is encrypted"
        )
    return ConnectError(what, advice=advice, address=str(address))


def _advise_on_certificate(cause: ssl.SSLCertVerificationError) -> str:
    """Return advice on a refused certificate; it ends with the option to trust any server, which lets impostors in."""
    if cause.verify_code in _OTHER_HOST:
        cure = "use a host that the certificate names, in nameServer or by brokerAddressMap, or renew the certificate"
    elif cause.verify_code in _OTHER_TIME:
        cure = "renew the server's certificate, or correct the clock here"
    else:
        cure = "name its CA with tlsTrustCertPath or tlsTrustCert"
    return f"{cure}; only in tests, tlsAuthServer=false trusts any server"
