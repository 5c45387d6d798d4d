"""Serve sockets: pass requests to the dispatcher and send responses.

One thread runs an event loop, in which everything runs that the stub does: sockets, handlers, timers. Other threads
pass their calls to this thread (`Runtime.call`) and wait for the result. So the state needs no locks, and a handler can
write to any connection at once.

Received bytes go straight into the session's buffer. Malformed bytes close only the connection on which they came.
While a client does not read its responses, the stub does not read its requests.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, NamedTuple, TypeVar

from pyspark_rocketmq.errors import (
    ConnectError,
    LocalProtocolError,
    OptionError,
    ProtocolError,
    RemoteProtocolError,
    RequestTimeout,
    RocketMQError,
)
from pyspark_rocketmq.model import Address
from pyspark_rocketmq.wire.codes import LanguageCode, RequestCode, ResponseCode
from pyspark_rocketmq.wire.commands import Header, to_fields
from pyspark_rocketmq.wire.header import ONEWAY_FLAG, Command, encode_command
from pyspark_rocketmq.wire.session import Response, Session

from .clock import Clock
from .dispatcher import Dispatcher
from .requests import OnReply, ReplyFault
from .requests import response as make_response

T = TypeVar("T")
_log = logging.getLogger(__name__)

CALL_TIMEOUT_S = 120.0
JOIN_TIMEOUT_S = 10.0
IDLE_TIMEOUT_S = 120.0
"""Seconds without a byte in either direction after which the stub closes a connection, as clients do, too."""
_SEND_BUFFER_BYTES = 4 * 1024 * 1024
_BACKLOG = 1024
_TLS_HELLO = b"\x16"
_WILDCARDS = ("0.0.0.0", "::")
_LOOPBACK = "127.0.0.1"


class TlsFiles(NamedTuple):
    """Paths of the server's certificate and private key, in PEM format."""

    certificate: str
    key: str


def make_tls_context(files: TlsFiles) -> ssl.SSLContext:
    """Return the TLS context for a certificate and key; raise OptionError if the files are unusable."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(files.certificate, files.key)
    except OSError as cause:
        raise OptionError("tls", ":".join(files), f"unusable: {cause}", advice="give PEM files") from cause
    return context


class Runtime:
    """The stub's thread and its event loop."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.loop = asyncio.new_event_loop()
        self.server_sockets: list[ServerSocket] = []
        self._alarm: asyncio.TimerHandle | None = None
        self._repeat: asyncio.TimerHandle | None = None
        self._thread = threading.Thread(target=self._run, name="broker-stub", daemon=True)
        clock.on_schedule = self._set_alarm
        self._thread.start()

    def __repr__(self) -> str:
        return f"<Runtime {'running' if self._thread.is_alive() else 'ended'}, {self.server_sockets}>"

    @property
    def is_running(self) -> bool:
        """Whether the stub's thread runs."""
        return self._thread.is_alive()

    def call(self, function: Callable[[], T]) -> T:
        """Run a function in the stub's thread and return its result; raise after a timeout or if the stub is closed."""
        if threading.current_thread() is self._thread:
            return function()
        if self.loop.is_closed():
            raise LocalProtocolError("the stub is closed", advice="use it inside its with block")
        future: Future[T] = Future()
        self.loop.call_soon_threadsafe(_complete, future, function)
        try:
            return future.result(CALL_TIMEOUT_S)
        except TimeoutError as cause:
            raise RequestTimeout(
                f"the stub did not finish within {CALL_TIMEOUT_S} s", advice="ask for less at once"
            ) from cause

    def listen(self, address: Address, tls: ssl.SSLContext | None = None) -> ServerSocket:
        """Return a `ServerSocket` that is bound to an address (port 0: any free one) but accepts nothing yet."""
        server_socket = ServerSocket(self, address, tls)
        self.server_sockets.append(server_socket)
        return server_socket

    def call_repeatedly(self, seconds: float, function: Callable[[], None]) -> None:
        """Call a function every `seconds` of real time until the runtime is closed; log its errors."""

        def run() -> None:
            try:
                function()
            except RocketMQError as error:
                _log.error("%s", error)
            except Exception:
                _log.exception("a repeated task of the stub failed; trying again in %g s", seconds)
            finally:
                self._repeat = self.loop.call_later(seconds, run)

        self._repeat = self.loop.call_later(seconds, run)

    def close(self) -> None:
        """End all connections and then the thread."""
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(lambda: self.loop.create_task(self._shut_down()))
            self._thread.join(JOIN_TIMEOUT_S)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        self.loop.close()

    async def _shut_down(self) -> None:
        for server_socket in self.server_sockets:
            server_socket.close()
        for alarm in (self._alarm, self._repeat):
            if alarm:
                alarm.cancel()
        while any(server_socket.connections or server_socket.tasks for server_socket in self.server_sockets):
            await asyncio.sleep(0)
        self.loop.stop()

    def _set_alarm(self) -> None:
        """Schedule `_run_timers` for the due time of the clock's next timer, unless an earlier call is scheduled."""
        wait_ms = self.clock.wait_ms()
        if wait_ms is None or self.loop.is_closed():
            return
        due = self.loop.time() + wait_ms / 1000
        if self._alarm is None or self._alarm.when() > due:
            if self._alarm:
                self._alarm.cancel()
            self._alarm = self.loop.call_at(due, self._run_timers)

    def _run_timers(self) -> None:
        self._alarm = None
        try:
            self.clock.run_due()
        except Exception:
            _log.exception("a timer of the stub failed; going on with the next one")
            self._set_alarm()


def _complete(future: Future[T], function: Callable[[], T]) -> None:
    try:
        future.set_result(function())
    except BaseException as error:
        future.set_exception(error)


class ServerSocket:
    """One listening socket and its connections; all methods but the constructor must run in the stub's thread."""

    def __init__(self, runtime: Runtime, address: Address, tls: ssl.SSLContext | None) -> None:
        self.connections: set[Connection] = set()
        self.tasks: set[asyncio.Task[Any]] = set()
        self.loop = runtime.loop
        self._runtime = runtime
        self._tls = tls
        self._dispatcher: Dispatcher[Any] | None = None
        self._socket: socket.socket | None = _bind(address)
        host, port = self._socket.getsockname()[:2]
        self._bound = Address(host, port)
        self.address = Address(_own_host() if host in _WILDCARDS else host, port)
        """Address that clients are told to connect to."""

    def __repr__(self) -> str:
        state = "open" if self._socket else "closed"
        return f"<ServerSocket {self.address} {state}, {len(self.connections)} connections>"

    def open(self, dispatcher: Dispatcher[Any]) -> None:
        """Accept connections, and pass their requests to this dispatcher."""
        self._dispatcher = dispatcher
        self._socket = self._socket or _bind(self._bound)
        self.loop.add_reader(self._socket, self._accept)

    def refuse(self) -> None:
        """Stop accepting connections; the open ones stay."""
        if self._socket:
            self.loop.remove_reader(self._socket)
            self._socket.close()
            self._socket = None

    def close(self) -> None:
        """Stop accepting connections and end the open ones."""
        self.refuse()
        for task in self.tasks:
            task.cancel()
        for connection in list(self.connections):
            connection.abort()

    def _accept(self) -> None:
        assert self._socket
        try:
            peer, _ = self._socket.accept()
        except OSError:  # the client has closed it already
            return
        peer.setblocking(False)
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
        task = self.loop.create_task(self._start(peer))
        self.tasks.add(task)
        task.add_done_callback(partial(self._end_start, peer))

    def _end_start(self, peer: socket.socket, task: asyncio.Task[Any]) -> None:
        """Forget an ended task that was to start serving a connection.

        Close the connection's socket if the task was cancelled, because it may never have begun to run.
        """
        self.tasks.discard(task)
        if task.cancelled():
            peer.close()

    async def _start(self, peer: socket.socket) -> None:
        """Start serving an accepted connection; given a certificate, the first byte tells TLS clients from others."""
        try:
            tls = self._tls if self._tls and await self._first_byte(peer) == _TLS_HELLO else None
            await self.loop.connect_accepted_socket(self._make_connection, peer, ssl=tls)
        except (OSError, asyncio.CancelledError):
            peer.close()

    async def _first_byte(self, peer: socket.socket) -> bytes:
        readable: asyncio.Future[None] = self.loop.create_future()
        self.loop.add_reader(peer, _resolve, readable)
        try:
            async with asyncio.timeout(IDLE_TIMEOUT_S):
                await readable
            return peer.recv(1, socket.MSG_PEEK)
        finally:
            self.loop.remove_reader(peer)

    def _make_connection(self) -> Connection:
        assert self._dispatcher
        return Connection(self, self._dispatcher, self._runtime.clock)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _bind(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        listening = socket.create_server(tuple(address), family=family, backlog=_BACKLOG, reuse_port=False)
    except OSError as cause:
        raise ConnectError(
            f"cannot listen: {cause.strerror}", advice="choose another port, or 0 for a free one", address=str(address)
        ) from cause
    listening.setblocking(False)
    return listening


def _own_host() -> str:
    """Return the IPv4 address from which this machine reaches others, or loopback; no packet is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return _LOOPBACK
        host: str = probe.getsockname()[0]
        return host


class Connection(asyncio.BufferedProtocol):
    """The `Channel` of one client that is connected by a socket."""

    def __init__(self, server_socket: ServerSocket, dispatcher: Dispatcher[Any], clock: Clock) -> None:
        self.remote = Address("", 0)
        self._server_socket = server_socket
        self._dispatcher = dispatcher
        self._clock = clock
        self._session = Session()
        self._transport: asyncio.Transport | None = None
        self._on_reply: dict[int, OnReply] = {}
        self._outbox: deque[bytes] | None = None
        self._is_write_closed = False
        self._loop = server_socket.loop
        self._last_activity = self._loop.time()
        self._idle_check: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<Connection from {self.remote} to {self._server_socket.address}>"

    # --- what handlers call ------------------------------------------------------------------------------------------

    def reply(self, request: Command, response: Command, reply_fault: ReplyFault | None = None) -> None:
        """Send the response to a client's request, with a fault if one is given; do nothing on an ending connection."""
        if self._session.broken:
            return
        response.version = self._dispatcher.release.version
        response.header_type = self._dispatcher.header_type(request)
        try:
            data = self._session.reply(request, response)
        except ProtocolError as error:  # it is too large, for example
            data = self._session.reply(request, self._error_response(request, error))
        if reply_fault is None:
            self._write(data)
        else:
            self._send_faulty(data, reply_fault)

    def _error_response(self, request: Command, error: ProtocolError) -> Command:
        refusal = make_response(ResponseCode.SYSTEM_ERROR, remark=f"the response cannot be sent: {error.what}")
        refusal.version, refusal.header_type = self._dispatcher.release.version, self._dispatcher.header_type(request)
        return refusal

    def send_oneway(self, code: RequestCode, header: Header | None = None, body: bytes = b"") -> None:
        """Send the client a one-way request, to which it does not respond."""
        command = Command(code, 0, to_fields(header) if header else None, body, flag=ONEWAY_FLAG)
        command.version, command.language = self._dispatcher.release.version, LanguageCode.JAVA
        self._write(encode_command(command))

    def send_request(
        self, code: RequestCode, header: Header | None, body: bytes, on_reply: OnReply, timeout_ms: int
    ) -> None:
        """Send the client a request; `on_reply` gets its response, or None if it leaves or `timeout_ms` pass."""
        if self._session.broken:
            on_reply(None)
            return
        opaque, data = self._session.request(code, to_fields(header) if header else None, body)
        timer = self._clock.call_later(timeout_ms, lambda: self._time_out(opaque))

        def complete(response: Command | None) -> None:
            timer.cancel()
            on_reply(response)

        self._on_reply[opaque] = complete
        self._write(data)

    def close(self) -> None:
        """End the connection once all written bytes have been sent."""
        if self._transport:
            self._transport.close()

    def abort(self) -> None:
        """End the connection at once, and discard unsent bytes."""
        if self._transport:
            self._transport.abort()

    # --- what the event loop calls -----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the connection; called by the event loop."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.remote = Address(*transport.get_extra_info("peername")[:2])
        self._server_socket.connections.add(self)
        self._idle_check = self._loop.call_later(IDLE_TIMEOUT_S, self._check_idle)
        self._dispatcher.on_open(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """End a lost connection's open requests, its memberships and its held pulls; called by the event loop."""
        self._transport = None
        self._server_socket.connections.discard(self)
        if self._idle_check:
            self._idle_check.cancel()
        for opaque in list(self._on_reply):
            self._time_out(opaque)
        self._dispatcher.on_close(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the memory into which the event loop receives bytes."""
        return self._session.space()

    def buffer_updated(self, nbytes: int) -> None:
        """Serve each request, and pass on each response, that the received bytes complete; close on malformed ones."""
        self._last_activity = self._loop.time()
        try:
            for event in self._session.received(nbytes):
                if isinstance(event, Response):
                    self._complete(event.opaque, event.command)
                else:
                    self._dispatcher.serve(event.command, self)
        except RemoteProtocolError as error:
            _log.info("closing %r, which sent malformed bytes: %s", self, error)
            self.abort()

    def pause_writing(self) -> None:
        """Stop reading requests, because the client does not read its responses."""
        if self._transport:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Resume reading requests, which `pause_writing` stopped: the client takes its responses again."""
        if self._transport:
            self._transport.resume_reading()

    # --- writing -----------------------------------------------------------------------------------------------------

    def _write(self, data: bytes) -> None:
        if self._outbox is not None:
            self._outbox.append(data)
        elif self._transport and not self._is_write_closed and not self._transport.is_closing():
            self._last_activity = self._loop.time()
            self._transport.write(data)

    def _send_faulty(self, data: bytes, reply_fault: ReplyFault) -> None:
        """Send a response with the given fault: late, in part, byte by byte, or not at all."""
        if reply_fault.drop:
            return
        if reply_fault.cut:
            self._write(data[: len(data) // 2])
            self.close()
        elif reply_fault.half_close:
            self._is_write_closed = True
            self._close_half()
        elif reply_fault.trickle:
            self._trickle(data)
        else:
            self._clock.call_later(reply_fault.delay_ms, lambda: self._write(data))

    def _close_half(self) -> None:
        if self._transport and self._transport.can_write_eof():
            self._transport.write_eof()
        else:
            self.close()

    def _trickle(self, data: bytes, at: int = 0) -> None:
        """Send `data` from `at` on, one byte in each round of the event loop; later responses wait until it is sent."""
        waiting, self._outbox = self._outbox or deque(), None
        self._write(data[at : at + 1])
        if at + 1 < len(data) and self._transport:
            self._outbox = waiting
            self._loop.call_soon(self._trickle, data, at + 1)
        else:
            for later in waiting:
                self._write(later)

    # --- timeouts ----------------------------------------------------------------------------------------------------

    def _complete(self, opaque: int, response: Command | None) -> None:
        if on_reply := self._on_reply.pop(opaque, None):
            on_reply(response)

    def _time_out(self, opaque: int) -> None:
        self._session.forget(opaque)
        self._complete(opaque, None)

    def _check_idle(self) -> None:
        rest = self._last_activity + IDLE_TIMEOUT_S - self._loop.time()
        if rest <= 0:
            self.close()
        else:
            self._idle_check = self._loop.call_later(rest, self._check_idle)
