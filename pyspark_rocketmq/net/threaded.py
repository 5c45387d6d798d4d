"""Share one connection among many threads, and serve the requests that the server sends.

The connection has a thread of its own, the *reader*. It goes on receiving while bytes wait to be sent, so two sides
that both write cannot block each other. A caller puts its frame into the outbox and sends it at once if no other thread
is sending; the reader sends the bytes that the stream does not accept at once.

Another thread serves the requests sent by the server, because serving one may take long; it starts with the first of
them. The reader itself serves requests with a `quick` code. It stops receiving only while too many requests wait to be
served; when that lasts for a request's timeout, the connection ends.

The lock guards the session, the outbox and the futures; it is never held while bytes move. `_sender` names the thread
that may take from the outbox, so only one thread sends at a time.
"""

from __future__ import annotations

import heapq
import logging
import threading
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from enum import Enum
from typing import NamedTuple, Self

from ..errors import ConnectionLost, Flooded, LocalProtocolError, RemoteProtocolError, RequestTimeout, RocketMQError
from ..model import Address
from ..wire.codes import ResponseCode
from ..wire.header import Command
from ..wire.session import Response
from .connection import Channel
from .deadline import Deadline, remaining_s
from .failures import for_requests, name_requests, request_name, timed_out
from .inbound import InboundRequests
from .settings import NetSettings
from .transport import READ, Transport, Waitable, Waker, connect, wait_ready

Handler = Callable[[Address, Command], Command | None]
"""A function that returns the response to a request of the server at an address; None for an unsupported code."""

MAX_UNSENT_BYTES = 16 * 1024 * 1024
"""The size of the outbox at which callers wait until the server has accepted some of its bytes."""

_STALE_DEADLINES = 1024
_CLOSING_S = 1.0
_MOST_LOGGED = 3
"""The largest number of log lines per connection about failures to serve requests of the server."""
_log = logging.getLogger(__name__)


class _Sender(Enum):
    """The thread that is sending: only this one may take bytes from the outbox."""

    NONE = 0
    CALLER = 1
    READER = 2


class _Pending(NamedTuple):
    """A request that awaits a response."""

    future: Future[Command]
    code: int
    deadline: Deadline
    heard_at: float
    """The channel's `heard_at` when the request was made."""


class ThreadedConnection:
    """A connection for callers in any thread; it stays open until it breaks or is closed.

    Replies, timeouts and errors are those of `Connection`. Done-callbacks of futures run in the thread that receives,
    the *reader*, and must be brief; they may call `submit`, but not `call`. The same holds for the handler when it
    serves a request of the server whose code is in `quick`: the reader itself serves these.
    """

    def __init__(
        self,
        transport: Transport,
        settings: NetSettings,
        handler: Handler | None = None,
        quick: Collection[int] = frozenset(),
    ) -> None:
        self.address: Address = transport.address
        self.settings = settings
        self._handler = handler
        self._quick = quick
        self._channel = Channel(transport, settings)
        self._waker = Waker()
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._pending: dict[int, _Pending] = {}
        self._deadlines: list[tuple[float, int, Deadline]] = []
        """A heap of (due time, opaque, deadline); answered requests may stay in it until they are due."""
        self._sender = _Sender.NONE
        self._failure: RocketMQError | None = None
        self._inbound = InboundRequests()
        self._held_up: Deadline | None = None
        """The deadline until which `_inbound` must have room again; None while it has room."""
        self._logged = 0
        self._server: threading.Thread | None = None
        self._reader = threading.Thread(target=self._read, name=f"rocketmq {self.address}", daemon=True)
        self._reader.start()

    @classmethod
    def open(
        cls,
        address: Address,
        settings: NetSettings,
        deadline: Deadline | None = None,
        handler: Handler | None = None,
        quick: Collection[int] = frozenset(),
    ) -> Self:
        """Return a new connection; raise `ConnectError` if none can be made before the deadline.

        Without a deadline, the settings' connect timeout limits the wait. `handler` serves requests sent by the server:
        those with a code in `quick` in the thread that receives, others in a thread of their own.
        """
        return cls(connect(address, deadline or settings.connect_deadline(), settings), settings, handler, quick)

    def __repr__(self) -> str:
        open_state = "held up" if self._held_up else "open"
        state = f"ended by {self._failure.code}" if self._failure else open_state
        return (
            f"<ThreadedConnection {self.address} {state}, {self.in_flight} in flight, "
            f"{self.dropped_replies} dropped, {len(self._channel.outbox)} bytes to send>"
        )

    @property
    def is_open(self) -> bool:
        """Whether no error has ended the connection yet."""
        return self._failure is None

    @property
    def is_usable(self) -> bool:
        """Whether the connection is open and not mute, that is, not silent since a request on it timed out."""
        return self.is_open and not self.is_mute

    @property
    def is_mute(self) -> bool:
        """Whether a request timed out, and no bytes have arrived since it was made."""
        return self._channel.is_mute

    @property
    def in_flight(self) -> int:
        """The number of requests that await a response."""
        return len(self._pending)

    @property
    def dropped_replies(self) -> int:
        """The number of responses that no caller awaited: to requests given up, one-way, or answered before."""
        return self._channel.session.dropped_replies

    # --- requests ----------------------------------------------------------------------------------------------------

    def submit(
        self, code: int, fields: dict[str, str] | None = None, body: bytes = b"", deadline: Deadline | None = None
    ) -> Future[Command]:
        """Send a request; return a future that gets the response, or an error at the deadline or before.

        Wait while too many bytes are unsent; raise `RequestTimeout` if that lasts until the deadline.
        """
        return self._submit(code, fields, body, deadline or self.settings.request_deadline())[1]

    def call(
        self, code: int, fields: dict[str, str] | None = None, body: bytes = b"", deadline: Deadline | None = None
    ) -> Command:
        """Send a request and return its response; raise RequestTimeout at the deadline."""
        if threading.current_thread() is self._reader:
            raise LocalProtocolError("a done-callback would wait for itself", advice="use submit instead of call")
        deadline = deadline or self.settings.request_deadline()
        opaque, future = self._submit(code, fields, body, deadline)
        try:
            return future.result(deadline.remaining())
        except TimeoutError:
            with self._lock:
                self._give_up(opaque)
            raise self._timed_out(code, deadline) from None

    def tell(
        self, code: int, fields: dict[str, str] | None = None, body: bytes = b"", deadline: Deadline | None = None
    ) -> None:
        """Send a one-way request, which gets no response, without waiting until its bytes are sent."""
        with self._filling_outbox(code, deadline or self.settings.request_deadline()) as channel:
            channel.tell(code, fields, body)

    def _submit(
        self, code: int, fields: dict[str, str] | None, body: bytes, deadline: Deadline
    ) -> tuple[int, Future[Command]]:
        future: Future[Command] = Future()
        future.set_running_or_notify_cancel()  # It cannot be cancelled from here on: a response may come at any time.
        with self._filling_outbox(code, deadline) as channel:
            opaque = channel.request(code, fields, body)
            self._pending[opaque] = _Pending(future, code, deadline, channel.heard_at)
            heapq.heappush(self._deadlines, (deadline.at, opaque, deadline))
        return opaque, future

    def _give_up(self, opaque: int) -> _Pending | None:
        """Give up and return a request that timed out, or None if it is not in flight. The caller holds the lock."""
        if pending := self._pending.pop(opaque, None):
            self._channel.session.forget(opaque)
            self._channel.note_time_out(pending.heard_at)
        return pending

    # --- sending -----------------------------------------------------------------------------------------------------

    @contextmanager
    def _filling_outbox(self, code: int, deadline: Deadline) -> Iterator[Channel]:
        """Yield the channel for putting frames into the outbox, with the lock held; then send the bytes.

        If another thread is sending already, the reader's thread sends these bytes afterwards.
        """
        with self._lock:
            self._wait_for_room(code, deadline)
            soonest = self._soonest()
            yield self._channel
            sends = self._sender is _Sender.NONE and bool(self._channel.outbox)
            if sends:
                self._sender = _Sender.CALLER
            wakes = self._soonest() is not soonest
        if sends:
            self._send_once()
        if wakes:
            self._waker.wake()

    def _wait_for_room(self, code: int, deadline: Deadline) -> None:
        """Wait until the outbox has room; raise `RequestTimeout` at the deadline.

        In the reader's thread do not wait, because this is the thread that makes room.
        """
        is_reader = threading.current_thread() is self._reader
        outbox = self._channel.outbox
        admitted = self._room.wait_for(
            lambda: self._failure or is_reader or len(outbox) < MAX_UNSENT_BYTES, deadline.remaining()
        )
        if self._failure:
            raise for_requests(self._failure, (code,))
        if not admitted:
            raise self._timed_out(code, deadline)

    def _send_once(self) -> None:
        """Send as many bytes of the outbox as the stream accepts now; the connection's thread sends the rest."""
        outbox = self._channel.outbox
        with self._lock:
            head = outbox.head()
        count = self._channel.send(head)
        with self._lock:
            outbox.sent(count)
            self._sender = _Sender.READER if outbox else _Sender.NONE
            self._room.notify_all()
            is_left = bool(outbox) and threading.current_thread() is not self._reader
        if is_left or self._channel.send_failed:
            self._waker.wake()

    # --- the reader --------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        try:
            while not self._failure:
                arrived = not self._hold_up() and self._take_in()
                if self._sender is _Sender.READER:
                    self._send_once()
                self._expire()
                if not arrived:
                    self._rest()
        except RocketMQError as error:
            self._end(error)
        except BaseException as cause:  # Also `sys.exit()` in a callback, because callers wait for this thread.
            _log.exception("the reader of %s failed", self.address)
            failure = ConnectionLost(f"the reader failed: {cause!r}", address=str(self.address))
            failure.__cause__ = cause
            self._end(failure)
        finally:
            self._channel.transport.close()
            self._waker.close()
            self._end_inbound()

    def _take_in(self) -> bool:
        """Receive bytes, complete futures and serve requests; return whether bytes arrived.

        Frames that arrived completely before an error are processed before it is raised.
        """
        count = self._channel.receive()
        if count is None:
            return False
        events: list[tuple[Future[Command] | None, Command]] = []
        try:
            with self._lock:
                for event in self._channel.events(count):
                    future = self._pending.pop(event.opaque).future if isinstance(event, Response) else None
                    events.append((future, event.command))
        finally:
            for future, command in events:
                self._hand_out(future, command)
        return True

    def _hand_out(self, future: Future[Command] | None, command: Command) -> None:
        if future:
            future.set_result(command)
        elif not self._handler:
            self._answer(command, None)
        elif command.code in self._quick:
            self._answer(command, self._handle(command))
        else:
            self._serve(command)

    def _expire(self) -> None:
        overdue: list[_Pending] = []
        with self._lock:
            while (soonest := self._soonest()) and soonest.expired:
                _, opaque, _ = heapq.heappop(self._deadlines)
                if pending := self._give_up(opaque):
                    overdue.append(pending)
            self._drop_stale_deadlines()
        for pending in overdue:
            pending.future.set_exception(self._timed_out(pending.code, pending.deadline))

    def _drop_stale_deadlines(self) -> None:
        """Remove answered requests from the heap of deadlines once they clearly outnumber those in flight."""
        if len(self._deadlines) > 2 * len(self._pending) + _STALE_DEADLINES:
            self._deadlines = [entry for entry in self._deadlines if entry[1] in self._pending]
            heapq.heapify(self._deadlines)

    def _soonest(self) -> Deadline | None:
        return self._deadlines[0][2] if self._deadlines else None

    def _rest(self) -> None:
        """Wait until bytes can be received or sent, a deadline passes, or another thread wakes the reader."""
        with self._lock:
            timeout_s = remaining_s(self._soonest(), self._channel.untaken, self._held_up)
            needs = self._channel.transport.needs(write=self._sender is _Sender.READER)
        waits: list[tuple[Waitable, int]] = [(self._waker, READ)]
        if self._held_up:
            needs &= ~READ
        if needs:
            waits.append((self._channel.transport, needs))
        wait_ready(waits, timeout_s)
        self._waker.clear()

    # --- the server's own requests -----------------------------------------------------------------------------------

    def _serve(self, request: Command) -> None:
        if not self._server:
            self._server = threading.Thread(target=self._serve_all, name=f"serve {self.address}", daemon=True)
            self._server.start()
        self._inbound.put(request)

    def _serve_all(self) -> None:
        while True:
            request, made_room = self._inbound.take()
            if made_room:
                self._waker.wake()
            if request is None or not self.is_open:
                return
            self._answer(request, self._handle(request))

    def _hold_up(self) -> bool:
        """Return True while too many requests of the server wait to be served, so that nothing may be received.

        Raise `Flooded` if this lasts for a request's timeout.
        """
        if not self._inbound.is_full:
            self._held_up = None
            return False
        self._held_up = self._held_up or self.settings.request_deadline()
        if self._held_up.expired:
            raise Flooded(
                f"{len(self._inbound)} requests of the server wait to be served, and there was no room for more "
                f"within {self._held_up.seconds:g} s",
                advice="check why the listener is slow, or why the server sends so many requests",
                address=str(self.address),
            )
        return True

    def _end_inbound(self) -> None:
        if left := self._inbound.end():
            _log.warning("%d requests of %s were not served: %s", len(left), self.address, name_requests(left))

    def _handle(self, request: Command) -> Command | None:
        try:
            return self._handler(self.address, request) if self._handler else None
        except BaseException as cause:  # Also `sys.exit()`, which must not end the thread that serves requests.
            self._log_failure(
                "request %s of %s could not be served", request_name(request.code), self.address, cause=cause
            )
            return Command(ResponseCode.SYSTEM_ERROR, remark=f"{type(cause).__name__}: {cause}")

    def _answer(self, request: Command, answer: Command | None) -> None:
        try:
            with self._filling_outbox(request.code, self.settings.request_deadline()) as channel:
                if answer is None:
                    channel.decline(request)
                else:
                    channel.answer(request, answer)
        except RemoteProtocolError as error:
            self._end(error)
            self._waker.wake()
        except RocketMQError as error:
            self._log_failure("an answer could not be sent: %s", error)

    def _log_failure(self, text: str, *values: object, cause: BaseException | None = None) -> None:
        """Log a failure to serve a request of the server, at most `_MOST_LOGGED` times per connection."""
        self._logged += 1
        if self._logged <= _MOST_LOGGED:
            _log.log(logging.ERROR if cause else logging.WARNING, text, *values, exc_info=cause)

    # --- ending ------------------------------------------------------------------------------------------------------

    def close(self, why: str = "the connection was closed on this side", advice: str = "") -> None:
        """Close the connection; every request in flight raises ConnectionLost with this reason and advice."""
        self._end(ConnectionLost(why, advice=advice, address=str(self.address)))
        self._waker.wake()
        if threading.current_thread() is not self._reader:
            self._reader.join(_CLOSING_S)

    def abandon(self) -> None:
        """Close a forked child's copy of the connection; the parent's stays usable.

        Locks are replaced, because another thread of the parent may have held them at the fork.
        """
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._failure = ConnectionLost("the connection stayed with the parent process", address=str(self.address))
        self._channel.transport.abandon()
        self._waker.abandon()

    def _end(self, failure: RocketMQError) -> None:
        with self._lock:
            if self._failure:
                return
            self._failure = failure
            ended, self._pending = self._pending, {}
            self._channel.session.pending.clear()
            self._room.notify_all()
        for pending in ended.values():
            pending.future.set_exception(for_requests(failure, (pending.code,)))

    def _timed_out(self, code: int, deadline: Deadline) -> RequestTimeout:
        return timed_out(self.address, (code,), deadline, len(self._channel.outbox))
