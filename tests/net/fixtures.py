"""Start servers that follow a test's script, on real loopback sockets, with one thread per connection."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Protocol

import pytest

from pyspark_rocketmq.model import Address
from pyspark_rocketmq.net.settings import NetSettings, TlsSettings
from pyspark_rocketmq.wire.header import ONEWAY_FLAG, RESPONSE_FLAG, Command, encode_command
from pyspark_rocketmq.wire.session import Event, Request, Response, Session

PKI = Path(__file__).parent / "pki"
TIMEOUT_S = 30.0

QUICK = NetSettings(connect_timeout_s=TIMEOUT_S, request_timeout_s=TIMEOUT_S)
TRUSTING = TlsSettings(trust_cert_path=str(PKI / "ca.pem"))


def until(condition: Callable[[], object]) -> None:
    """Wait until a condition is true; fail if that takes longer than `TIMEOUT_S`."""
    end = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < end, "the condition did not come true"
        time.sleep(0.001)


# Spark's worker daemon forks; since Python 3.12 a fork in a process with several threads warns.
forks = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")


def in_child(check: Callable[[], bool]) -> bool:
    """Return the result of `check` in a forked child; False if the child hangs, which is killed then."""
    child = os.fork()
    if not child:
        held = False
        try:
            held = check()
        finally:
            os._exit(0 if held else 1)
    timer = threading.Timer(TIMEOUT_S, os.kill, (child, signal.SIGKILL))
    timer.start()
    try:
        return os.waitpid(child, 0)[1] == 0
    finally:
        timer.cancel()


class Talk:
    """The server's side of one connection, for use by a script."""

    def __init__(self, sock: socket.socket) -> None:
        sock.settimeout(TIMEOUT_S)
        self.sock = sock
        self._session = Session()
        self._events: list[Event] = []

    def read(self) -> Command:
        """Return the next request of the client."""
        event = self._next()
        assert isinstance(event, Request), event
        return event.command

    def ask(self, code: int) -> Command:
        """Send the client a request; return its response."""
        self.sock.sendall(self._session.request(code)[1])
        event = self._next()
        assert isinstance(event, Response), event
        return event.command

    def tell(self, code: int) -> None:
        """Send the client a one-way request."""
        self.sock.sendall(encode_command(Command(code, opaque=77, flag=ONEWAY_FLAG)))

    def answer(self, request: Command, code: int = 0, body: bytes = b"") -> None:
        """Send the response to a request; the default code is success."""
        self.sock.sendall(answer_to(request, code, body))

    def wait_gone(self) -> None:
        """Read and ignore bytes until the client has closed the connection."""
        while self.sock.recv(65536):
            pass

    def _next(self) -> Event:
        while not self._events:
            data = self.sock.recv(65536)
            if not data:
                raise ConnectionResetError("the client has left")
            self._events.extend(self._session.receive(data))
        return self._events.pop(0)


def answer_to(request: Command, code: int = 0, body: bytes = b"") -> bytes:
    """Return the frame of a response to a request."""
    return encode_command(Command(code, request.opaque, body=body, flag=RESPONSE_FLAG))


Script = Callable[[Talk], None]


class Peer:
    """A server that runs its script with every client that connects."""

    def __init__(self, script: Script, tls: ssl.SSLContext | None = None, port: int = 0) -> None:
        self._script = script
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", port))
        self._socks: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self.failures: list[BaseException] = []
        self._start(self._accept)

    @property
    def address(self) -> Address:
        """The address where the peer listens."""
        return Address(*self._listener.getsockname())

    @property
    def accepted(self) -> int:
        """The number of connections accepted so far."""
        return len(self._socks)

    def close(self) -> None:
        """End all connections and threads."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._threads[0].join(TIMEOUT_S)  # It accepts clients, and must not accept one behind the loop's back.
        for sock in tuple(self._socks):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in tuple(self._threads):
            thread.join(TIMEOUT_S)
            assert not thread.is_alive(), "the script did not end"

    def _start(self, function: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=function, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                sock, _ = self._listener.accept()
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._socks.append(sock)
                self._start(self._play, sock)

    def _play(self, sock: socket.socket) -> None:
        try:
            sock.settimeout(TIMEOUT_S)
            with sock if self._tls is None else self._tls.wrap_socket(sock, server_side=True) as stream:
                self._script(Talk(stream))
        except OSError:
            return  # The client has closed the connection, or the test has ended.
        except BaseException as failure:
            self.failures.append(failure)


class StartPeer(Protocol):
    """Starts servers that run a script; they end with the test."""

    def __call__(self, script: Script, *, tls: ssl.SSLContext | None = None) -> Peer: ...


@pytest.fixture
def start_peer() -> Iterator[StartPeer]:
    """Return a function that starts scripted servers; an assertion that fails in a script fails the test."""
    peers: list[Peer] = []

    def start(script: Script, *, tls: ssl.SSLContext | None = None) -> Peer:
        peers.append(Peer(script, tls))
        return peers[-1]

    yield start
    for peer in peers:
        peer.close()
    assert not [failure for peer in peers for failure in peer.failures]


def server_tls(name: str = "server", client_ca: str | None = None) -> ssl.SSLContext:
    """Return a server's TLS context with a certificate from `pki`; clients need one of `client_ca`, if it is given."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PKI / f"{name}.pem", PKI / f"{name}.key")
    if client_ca:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(PKI / f"{client_ca}.pem")
    return context


# --- scripts ---------------------------------------------------------------------------------------------------------


def echo(talk: Talk) -> None:
    """Send a response with the request's own body to each request."""
    while True:
        request = talk.read()
        if not request.is_oneway:
            talk.answer(request, body=bytes(request.body))


def never_answer(talk: Talk) -> None:
    """Read all requests and send no response."""
    talk.wait_gone()


def never_read(done: threading.Event) -> Script:
    """Return a script that reads nothing until `done` is set."""

    def script(talk: Talk) -> None:
        done.wait(TIMEOUT_S)

    return script


def end_at_once(talk: Talk) -> None:
    """Close the connection after the first request."""
    talk.read()


def sends(data: bytes) -> Script:
    """Return a script that sends these bytes after the first request, and waits until the client has left."""

    def script(talk: Talk) -> None:
        talk.read()
        talk.sock.sendall(data)
        talk.wait_gone()

    return script


@pytest.fixture
def deaf() -> Iterator[Address]:
    """Return an address that neither accepts nor refuses connections, because its backlog is full."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(3):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield Address(*listener.getsockname())
