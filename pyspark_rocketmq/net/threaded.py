"""How do many threads share one connection, and who answers the server's own questions?

A thread of the connection's own, the *reader*, receives all the time and never waits for anything but the stream: so
the server can always write, and two sides that only write cannot block each other. Whoever has something to say puts
it into the outbox and sends it at once if nobody else is sending; what the stream does not take is left to the reader.
The server's own requests are served by a third thread, started with the first of them, because serving one may
take its time; those that are said to be quick are served by the reader. While too many wait the reader does not
receive, so the server cannot send; when that lasts for a request's time-out the connection ends.

The lock guards the session, the outbox and the futures; it is never held while bytes move. `_sender` says who may
take from the outbox, so only one thread sends at a time.
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
from ..wire.session import Reply
from .connection import Channel
from .deadline import Deadline, remaining_s
from .failures import for_requests, name_requests, request_name, timed_out
from .inbound import InboundRequests
from .settings import NetSettings
from .transport import READ, Transport, Waitable, Waker, connect, wait_ready

Handler = Callable[[Address, Command], Command | None]
"""Serves a request of the server at an address; None says that such requests are not supported."""

MAX_UNSENT_BYTES = 16 * 1024 * 1024
"""With more than this in the outbox callers wait until the server takes some of it."""

_STALE_DEADLINES = 1024
_CLOSING_S = 1.0
_MOST_COMPLAINTS = 3
"""So many requests of the server that could not be served are told in the log, one by one."""
_log = logging.getLogger(__name__)


class _Sender(Enum):
    NOBODY = 0
    CALLER = 1
    READER = 2


class _Waiting(NamedTuple):
    """Somebody who awaits an answer."""

    future: Future[Command]
    code: int
    deadline: Deadline
    heard_at: float
    """When the server had last been heard."""


class ThreadedConnection:
    """A connection for callers in any thread. It lives until it breaks or `close` is called.

    Replies, time-outs and errors are those of `Connection`. Done-callbacks of futures run in the reader and must be
    brief; they may `submit`, but not `call`. The same holds for the handler when it serves a request whose code is
    among the `quick` ones.
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
        self._waiting: dict[int, _Waiting] = {}
        self._deadlines: list[tuple[float, int, Deadline]] = []
        """A heap of when to look at which request; answered requests stay in it until their time."""
        self._sender = _Sender.NOBODY
        self._failure: RocketMQError | None = None
        self._inbound = InboundRequests()
        self._held_up: Deadline | None = None
        """Until when there must be room again for requests of the server; None while there is."""
        self._complaints = 0
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
        """Connect; without a deadline the settings' connect time-out counts."""
        return cls(connect(address, deadline or settings.connect_deadline(), settings.tls), settings, handler, quick)

    def __repr__(self) -> str:
        state = f"ended by {self._failure.code}" if self._failure else "open"
        return (
            f"<ThreadedConnection {self.address} {state}, {self.in_flight} in flight, "
            f"{self.dropped_replies} dropped, {len(self._channel.outbox)} bytes to send>"
        )

    @property
    def is_open(self) -> bool:
        """Whether requests can still be made, as far as we know."""
        return self._failure is None

    @property
    def is_usable(self) -> bool:
        """Whether it is worth making a request."""
        return self.is_open and not self.is_mute

    @property
    def is_mute(self) -> bool:
        """Whether a request timed out, and nothing at all came from the time it was made until now."""
        return self._channel.is_mute

    @property
    def is_held_up(self) -> bool:
        """Whether nothing is received now, because too many requests of the server wait to be served."""
        return self._held_up is not None

    @property
    def in_flight(self) -> int:
        """How many requests await an answer."""
        return len(self._waiting)

    @property
    def dropped_replies(self) -> int:
        """How many answers came for requests that had been given up."""
        return self._channel.session.dropped_replies

    # --- asking ------------------------------------------------------------------------------------------------------

    def submit(
        self, code: int, fields: dict[str, str] | None = None, body: bytes = b"", deadline: Deadline | None = None
    ) -> Future[Command]:
        """Ask; the future ends with the answer or an error, at its deadline at the latest."""
        return self._ask(code, fields, body, deadline or self.settings.request_deadline())[1]

    def call(
        self, code: int, fields: dict[str, str] | None = None, body: bytes = b"", deadline: Deadline | None = None
    ) -> Command:
        """Ask and wait for the answer."""
        if threading.current_thread() is self._reader:
            raise LocalProtocolError("a done-callback would wait for itself", advice="submit instead of call")
        deadline = deadline or self.settings.request_deadline()
        opaque, future = self._ask(code, fields, body, deadline)
        try:
            return future.result(deadline.remaining())
        except TimeoutError:
            with self._lock:
                self._give_up(opaque)
            raise self._timed_out(code, deadline) from None

    def tell(
        self, code: int, fields: dict[str, str] | None = None, body: bytes = b"", deadline: Deadline | None = None
    ) -> None:
        """Send a request that wants no answer."""
        with self._speaking(code, deadline or self.settings.request_deadline()) as channel:
            channel.tell(code, fields, body)

    def _ask(
        self, code: int, fields: dict[str, str] | None, body: bytes, deadline: Deadline
    ) -> tuple[int, Future[Command]]:
        future: Future[Command] = Future()
        future.set_running_or_notify_cancel()  # From here on it cannot be cancelled: an answer may come any time.
        with self._speaking(code, deadline) as channel:
            opaque = channel.request(code, fields, body)
            self._waiting[opaque] = _Waiting(future, code, deadline, channel.heard_at)
            heapq.heappush(self._deadlines, (deadline.at, opaque, deadline))
        return opaque, future

    def _give_up(self, opaque: int) -> _Waiting | None:
        """With the lock held: who waits in vain, if nobody has given that up before."""
        if waiting := self._waiting.pop(opaque, None):
            self._channel.session.forget(opaque)
            self._channel.note_time_out(waiting.heard_at)
        return waiting

    # --- sending -----------------------------------------------------------------------------------------------------

    @contextmanager
    def _speaking(self, code: int, deadline: Deadline) -> Iterator[Channel]:
        """Let somebody put something into the outbox, then see that it is sent."""
        with self._lock:
            self._wait_for_room(code, deadline)
            soonest = self._soonest()
            yield self._channel
            sends = self._sender is _Sender.NOBODY and bool(self._channel.outbox)
            if sends:
                self._sender = _Sender.CALLER
            wakes = self._soonest() is not soonest
        if sends:
            self._send_once()
        if wakes:
            self._waker.wake()

    def _wait_for_room(self, code: int, deadline: Deadline) -> None:
        """The reader is always admitted: it must not wait, and it alone can make room."""
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
        """Send what the stream takes now, and leave the rest to the reader."""
        outbox = self._channel.outbox
        with self._lock:
            head = outbox.head()
        count = self._channel.send(head)
        with self._lock:
            outbox.sent(count)
            self._sender = _Sender.READER if outbox else _Sender.NOBODY
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
        except BaseException as cause:  # A callback's `sys.exit()`, too: others wait for this thread.
            _log.exception("the reader of %s failed", self.address)
            failure = ConnectionLost(f"the reader failed: {cause!r}", address=str(self.address))
            failure.__cause__ = cause
            self._end(failure)
        finally:
            self._channel.transport.close()
            self._waker.close()
            self._end_inbound()

    def _take_in(self) -> bool:
        """Receive and hand out; what came whole before an error is still handed out."""
        count = self._channel.receive()
        if count is None:
            return False
        events: list[tuple[Future[Command] | None, Command]] = []
        try:
            with self._lock:
                for event in self._channel.events(count):
                    future = self._waiting.pop(event.opaque).future if isinstance(event, Reply) else None
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
        overdue: list[_Waiting] = []
        with self._lock:
            while (soonest := self._soonest()) and soonest.expired:
                _, opaque, _ = heapq.heappop(self._deadlines)
                if waiting := self._give_up(opaque):
                    overdue.append(waiting)
            self._drop_stale_deadlines()
        for waiting in overdue:
            waiting.future.set_exception(self._timed_out(waiting.code, waiting.deadline))

    def _drop_stale_deadlines(self) -> None:
        """Keep the heap from growing with answered requests, at a cost that is small per request."""
        if len(self._deadlines) > 2 * len(self._waiting) + _STALE_DEADLINES:
            self._deadlines = [entry for entry in self._deadlines if entry[1] in self._waiting]
            heapq.heapify(self._deadlines)

    def _soonest(self) -> Deadline | None:
        return self._deadlines[0][2] if self._deadlines else None

    def _rest(self) -> None:
        """Wait until there is something to do."""
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
        """Return whether to receive nothing, since too many requests of the server wait; raise when that lasts."""
        if not self._inbound.is_full:
            self._held_up = None
            return False
        self._held_up = self._held_up or self.settings.request_deadline()
        if self._held_up.expired:
            raise Flooded(
                f"{len(self._inbound)} requests of the server wait to be served, and there was no room for more "
                f"within {self._held_up.seconds:g} s",
                advice="look what keeps the listener, or why the server asks so often",
                address=str(self.address),
            )
        return True

    def _end_inbound(self) -> None:
        if left := self._inbound.end():
            _log.warning("%d requests of %s were not served: %s", len(left), self.address, name_requests(left))

    def _handle(self, request: Command) -> Command | None:
        try:
            return self._handler(self.address, request) if self._handler else None
        except BaseException as cause:  # `sys.exit()`, too: it must not end the thread that serves the server.
            self._complain(
                "request %s of %s could not be served", request_name(request.code), self.address, cause=cause
            )
            return Command(ResponseCode.SYSTEM_ERROR, remark=f"{type(cause).__name__}: {cause}")

    def _answer(self, request: Command, answer: Command | None) -> None:
        try:
            with self._speaking(request.code, self.settings.request_deadline()) as channel:
                if answer is None:
                    channel.decline(request)
                else:
                    channel.answer(request, answer)
        except RemoteProtocolError as error:
            self._end(error)
            self._waker.wake()
        except RocketMQError as error:
            self._complain("an answer could not be sent: %s", error)

    def _complain(self, text: str, *values: object, cause: BaseException | None = None) -> None:
        """Log what went wrong with a request of the server, unless that has been done often enough."""
        self._complaints += 1
        if self._complaints <= _MOST_COMPLAINTS:
            _log.log(logging.ERROR if cause else logging.WARNING, text, *values, exc_info=cause)

    # --- ending ------------------------------------------------------------------------------------------------------

    def close(self, why: str = "the connection was closed on this side", advice: str = "") -> None:
        """End the connection and every request in flight, which raises an error that says why."""
        self._end(ConnectionLost(why, advice=advice, address=str(self.address)))
        self._waker.wake()
        if threading.current_thread() is not self._reader:
            self._reader.join(_CLOSING_S)

    def abandon(self) -> None:
        """Give up a forked child's copy; the parent's connection is not touched, and its locks may be stuck."""
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
            ended, self._waiting = self._waiting, {}
            self._channel.session.pending.clear()
            self._room.notify_all()
        for waiting in ended.values():
            waiting.future.set_exception(for_requests(failure, (waiting.code,)))

    def _timed_out(self, code: int, deadline: Deadline) -> RequestTimeout:
        return timed_out(self.address, (code,), deadline, len(self._channel.outbox))
