"""A hostile name server and hostile brokers: the stub behind a proxy that distorts answers.

    with HostileCluster(stub, on(RequestCode.PULL_MESSAGE, fields(nextBeginOffset="-5"))) as cluster:
        read(cluster.name_server)

Every listener forwards to one server of the stub. Requests pass unchanged; each answer is decoded and handed with its
request to a *behaviour*, which yields the bytes that the client gets instead. So a scenario says what is wrong and
nothing else. Routes name the proxy's addresses. A *greeting* yields bytes that are sent to each new connection while
answers pass, for floods.
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
from pyspark_rocketmq.wire.header import Command, PullResponse, decode_command, encode_command

LOOPBACK = "127.0.0.1"
NAME_SERVER = "name server"


class HangUp(Exception):
    """Raised by a behaviour that ends the connection."""


@dataclass
class Exchange:
    """A request and the stub's answer to it, which a behaviour may change."""

    request: Command
    answer: Command

    def honest(self) -> bytes:
        """Return the frame of the answer as it is now."""
        return encode_command(self.answer)


Behaviour = Callable[[Exchange], Iterable[bytes]]
"""Yields what the client receives for one request; raises `HangUp` to end the connection."""
Greeting = Callable[[], Iterable[bytes]]


def honest(exchange: Exchange) -> Iterable[bytes]:
    """Answer as the stub does."""
    return [exchange.honest()]


@dataclass(frozen=True)
class Manner:
    """How the servers treat their clients."""

    behaviour: Behaviour = honest
    greeting: Greeting | None = None
    """What new connections to brokers are sent unasked."""
    greets_at_name_server: bool = False
    """Whether the name server sends the greeting, and the brokers do not."""
    misunderstanding: Callable[[Command], None] | None = None
    """Changes requests before the stub gets them."""
    deaf_after: int | None = None
    """After so many requests on a connection, brokers do not read from it any more."""
    tls: ssl.SSLContext | None = None
    """With it, clients must speak TLS."""


class HostileCluster:
    """Listeners in front of all servers of a stub."""

    def __init__(self, stub: StubCluster, manner: Manner) -> None:
        servers = {NAME_SERVER: parse_address(stub.name_server)}
        servers |= {f"{broker.name} {broker.broker_id}": broker.address for broker in stub.state.brokers}
        self._fronts = {name: _Front(name, server, manner) for name, server in servers.items()}
        renamed = {str(front.server).encode(): str(front.address).encode() for front in self._fronts.values()}
        for front in self._fronts.values():
            front.start(renamed)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for front in self._fronts.values():
            front.close()

    @property
    def name_server(self) -> str:
        """Where clients find the cluster."""
        return str(self._fronts[NAME_SERVER].address)

    def shut(self, broker: str) -> None:
        """End a broker's connections and refuse new ones; `broker-a 0` is a master."""
        self._fronts[broker].close()


class _Front:
    """One listener, and the connections that it forwards."""

    def __init__(self, name: str, server: Address, manner: Manner) -> None:
        self.server = server
        is_greeting = (name == NAME_SERVER) == manner.greets_at_name_server
        self._manner = manner if is_greeting else replace(manner, greeting=None)
        if name == NAME_SERVER:
            self._manner = replace(self._manner, deaf_after=None)
        self._renamed: dict[bytes, bytes] = {}
        self._listener = socket.create_server((LOOPBACK, 0))
        self._open: list[_Forwarded] = []

    @property
    def address(self) -> Address:
        """Where clients connect."""
        return Address(*self._listener.getsockname()[:2])

    def start(self, renamed: dict[bytes, bytes]) -> None:
        """Accept connections; in answers, these addresses are replaced."""
        self._renamed = renamed
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """End all connections, and take no more."""
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
            if self._manner.tls:
                client.settimeout(10)
                client = self._manner.tls.wrap_socket(client, server_side=True)
                client.settimeout(None)
            forwarded = _Forwarded(client, socket.create_connection(self.server), self._manner, self._renamed)
        except OSError:
            client.close()
            return
        self._open.append(forwarded)
        forwarded.start()


class _Forwarded:
    """One client's connection and the stub's connection behind it."""

    def __init__(
        self, client: socket.socket, server: socket.socket, manner: Manner, renamed: dict[bytes, bytes]
    ) -> None:
        self._client = client
        self._server = server
        self._manner = manner
        self._renamed = renamed
        self._asked: dict[int, Command] = {}
        self._sending = threading.Lock()
        self._closed = threading.Event()

    def start(self) -> None:
        """Begin to forward."""
        works = [self._carry_requests, self._carry_answers]
        if self._manner.greeting:
            works.append(self._greet)
        for work in works:
            threading.Thread(target=self._run, args=(work,), daemon=True).start()

    def close(self) -> None:
        """End both connections."""
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

    def _carry_requests(self) -> None:
        for count, frame in enumerate(_frames(self._client), 1):
            command = decode_command(memoryview(frame))
            if not command.is_response:  # The stub did not ask what floods ask.
                self._asked[command.opaque] = command
                self._server.sendall(self._understood(frame, command))
            if count == self._manner.deaf_after:
                self._closed.wait()

    def _understood(self, frame: bytes, command: Command) -> bytes:
        if self._manner.misunderstanding is None:
            return frame
        wrong = replace(command, fields=dict(command.fields or {}))
        self._manner.misunderstanding(wrong)
        return encode_command(wrong)

    def _carry_answers(self) -> None:
        for frame in _frames(self._server):
            answer = _plain(frame, self._renamed)
            request = self._asked.pop(answer.opaque, None) if answer.is_response else None
            for chunk in [frame] if request is None else self._manner.behaviour(Exchange(request, answer)):
                self._send(chunk)

    def _greet(self) -> None:
        if self._manner.greeting:
            for chunk in self._manner.greeting():
                self._send(chunk)
        self._closed.wait()

    def _send(self, chunk: bytes) -> None:
        with self._sending:
            self._client.sendall(chunk)


def _plain(frame: bytes, renamed: dict[bytes, bytes]) -> Command:
    """Return a frame's command, its body as bytes with addresses replaced."""
    command = decode_command(memoryview(frame))
    if isinstance(command, PullResponse):
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
