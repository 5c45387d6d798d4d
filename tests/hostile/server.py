"""Run a hostile name server and hostile brokers: the stub behind a proxy that distorts responses.

    with HostileCluster(stub, ServerFaults(on(PULLS, fields(nextBeginOffset="-5")))) as cluster:
        read(cluster.name_server)

Every listener forwards to one server of the stub. Requests pass unchanged. Each response is decoded and given, with its
request, to a *behaviour*, which yields the bytes that the client gets instead. So a scenario defines only the
difference from honest servers. Routes contain the proxy's addresses. For floods, a *greeting* yields bytes that are
sent to each new connection between responses.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Self

from broker_stub import StubCluster
from pyspark_rocketmq.model import Address, parse_address
from pyspark_rocketmq.wire.header import Command, QuickResponse, decode_command, encode_command

LOOPBACK = "127.0.0.1"
NAME_SERVER = "name server"


class HangUp(Exception):
    """Raised by a behaviour to make the proxy close the connection."""


@dataclass
class Exchange:
    """A client's request and the stub's response to it, which a behaviour may change."""

    request: Command
    answer: Command

    def honest(self) -> bytes:
        """Return the frame of the response, with the changes that behaviours made to it."""
        return encode_command(self.answer)


Behaviour = Callable[[Exchange], Iterable[bytes]]
"""Yields the bytes that the client receives for one request; raises `HangUp` to close the connection."""
Greeting = Callable[[], Iterable[bytes]]


def honest(exchange: Exchange) -> Iterable[bytes]:
    """Send the stub's response unchanged."""
    return [exchange.honest()]


@dataclass(frozen=True)
class ServerFaults:
    """The ways in which hostile servers deviate from the stub."""

    behaviour: Behaviour = honest
    greeting: Greeting | None = None
    """Yields bytes that brokers send to each new connection without a request; None: nothing."""
    greets_at_name_server: bool = False
    """Whether the name server sends the greeting, instead of the brokers."""
    change_request: Callable[[Command], None] | None = None
    """Changes each request before the stub gets it; None: requests pass unchanged."""
    stop_reading_after: int | None = None
    """Number of requests after which brokers stop reading from a connection; None: never."""
    tls: ssl.SSLContext | None = None
    """TLS context of the servers; None: they speak plain TCP."""


class HostileCluster:
    """The hostile servers: one listener in front of each server of a stub."""

    def __init__(self, stub: StubCluster, faults: ServerFaults) -> None:
        servers = {NAME_SERVER: parse_address(stub.name_server)}
        servers |= {f"{broker.name} {broker.broker_id}": broker.address for broker in stub.state.brokers}
        self._listeners = {name: _Listener(name, server, faults) for name, server in servers.items()}
        renamed = {
            str(listener.server).encode(): str(listener.address).encode() for listener in self._listeners.values()
        }
        for listener in self._listeners.values():
            listener.start(renamed)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for listener in self._listeners.values():
            listener.close()

    @property
    def name_server(self) -> str:
        """Address of the hostile name server."""
        return str(self._listeners[NAME_SERVER].address)

    def shut(self, broker: str) -> None:
        """Close the connections of a broker process and refuse new ones; `broker-a 0` is the master of broker-a."""
        self._listeners[broker].close()


class _Listener:
    """One listening port of the proxy, and the connections that it forwards."""

    def __init__(self, name: str, server: Address, faults: ServerFaults) -> None:
        self.server = server
        is_greeting = (name == NAME_SERVER) == faults.greets_at_name_server
        self._faults = faults if is_greeting else replace(faults, greeting=None)
        if name == NAME_SERVER:
            self._faults = replace(self._faults, stop_reading_after=None)
        self._renamed: dict[bytes, bytes] = {}
        self._listener = socket.create_server((LOOPBACK, 0))
        self._open: list[_ForwardedConnection] = []

    @property
    def address(self) -> Address:
        """Address at which clients reach this listener."""
        return Address(*self._listener.getsockname()[:2])

    def start(self, renamed: dict[bytes, bytes]) -> None:
        """Accept connections, and replace the addresses in `renamed` in all responses."""
        self._renamed = renamed
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Close all connections and accept no more."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for forwarded in self._open:
            forwarded.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._forward, args=(client,), daemon=True).start()

    def _forward(self, client: socket.socket) -> None:
        try:
            if self._faults.tls:
                client.settimeout(10)
                client = self._faults.tls.wrap_socket(client, server_side=True)
                client.settimeout(None)
            forwarded = _ForwardedConnection(client, socket.create_connection(self.server), self._faults, self._renamed)
        except OSError:
            client.close()
            return
        self._open.append(forwarded)
        forwarded.start()


class _ForwardedConnection:
    """A connection of a client, and the proxy's connection to the stub that belongs to it."""

    def __init__(
        self, client: socket.socket, server: socket.socket, faults: ServerFaults, renamed: dict[bytes, bytes]
    ) -> None:
        self._client = client
        self._server = server
        self._faults = faults
        self._renamed = renamed
        self._requests: dict[int, Command] = {}
        self._sending = threading.Lock()
        self._closed = threading.Event()

    def start(self) -> None:
        """Start forwarding in both directions."""
        works = [self._forward_requests, self._forward_responses]
        if self._faults.greeting:
            works.append(self._send_greeting)
        for work in works:
            threading.Thread(target=self._run, args=(work,), daemon=True).start()

    def close(self) -> None:
        """Close both connections."""
        self._closed.set()
        for end in (self._client, self._server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            with suppress(OSError):
                end.close()

    def _run(self, work: Callable[[], None]) -> None:
        with suppress(OSError, HangUp, ValueError):
            work()
        self.close()

    def _forward_requests(self) -> None:
        for count, frame in enumerate(_frames(self._client), 1):
            command = decode_command(memoryview(frame))
            if not command.is_response:  # a response to the greeting, which the stub did not send
                self._requests[command.opaque] = command
                self._server.sendall(self._changed_request(frame, command))
            if count == self._faults.stop_reading_after:
                self._closed.wait()

    def _changed_request(self, frame: bytes, command: Command) -> bytes:
        if self._faults.change_request is None:
            return frame
        wrong = replace(command, fields=dict(command.fields or {}))
        self._faults.change_request(wrong)
        return encode_command(wrong)

    def _forward_responses(self) -> None:
        for frame in _frames(self._server):
            answer = _plain(frame, self._renamed)
            request = self._requests.pop(answer.opaque, None) if answer.is_response else None
            for chunk in [frame] if request is None else self._faults.behaviour(Exchange(request, answer)):
                self._send(chunk)

    def _send_greeting(self) -> None:
        if self._faults.greeting:
            for chunk in self._faults.greeting():
                self._send(chunk)
        self._closed.wait()

    def _send(self, chunk: bytes) -> None:
        with self._sending:
            self._client.sendall(chunk)


def _plain(frame: bytes, renamed: dict[bytes, bytes]) -> Command:
    """Return the frame's command with its body as bytes, in which the addresses of `renamed` are replaced."""
    command = decode_command(memoryview(frame))
    if isinstance(command, QuickResponse):
        command = command.plain()
    body = bytes(command.body)
    if command.code == 0 and body[:1] == b"{":
        for address, ours in renamed.items():
            body = body.replace(b'"' + address + b'"', b'"' + ours + b'"')
    command.body = body
    return command


def _frames(source: socket.socket) -> Iterator[bytes]:
    with source.makefile("rb") as stream:
        while len(size := stream.read(4)) == 4:
            rest = stream.read(int.from_bytes(size, "big"))
            if len(rest) < int.from_bytes(size, "big"):
                return
            yield size + rest
