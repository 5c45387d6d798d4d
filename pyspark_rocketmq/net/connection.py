"""Send requests and receive responses over one stream.

A `Channel` joins a transport, a session and the bytes that wait to be sent. It never waits and starts no thread.
`Connection` calls it in its caller's thread, `ThreadedConnection` in a thread of its own.

After an error of sending, the stream may still hold responses. So the error is kept until all bytes have been received;
only `Channel.receive` raises it. If the stream accepts no bytes for `untaken_s`, this counts as an error of sending.
A connection goes on receiving while the server does not accept its bytes, so two sides that both write cannot block
each other.

A server may send a few frames that are no response to a request in flight. More than `MOST_UNASKED` of these in
`UNASKED_S` end the connection. A server that sends requests but does not read loses the connection when
`MOST_UNREAD_BYTES` wait to be sent.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Self

from ..errors import ConnectionLost, Flooded, LocalProtocolError, MalformedFrame, ProtocolError, RocketMQError
from ..model import Address
from ..wire.codes import ResponseCode
from ..wire.header import Command
from ..wire.session import Event, Response, Session, Writer
from .deadline import Deadline, remaining_s
from .failures import for_requests, request_name, timed_out
from .settings import NetSettings
from .transport import Transport, connect, wait_ready

MOST_UNASKED, UNASKED_S = 1000, 60.0
MOST_UNREAD_BYTES = 64 * 1024 * 1024
_TLS_ALERT = b"\x15\x03"
_TLS_ADVICE = "try again; if the server wants TLS, set useTLS=true"


class Outbox:
    """The bytes that wait to be sent, in order; frames are joined, so that many small requests need one system call.

    Bytes that `head` has returned stay the same until `sent` removes them: a TLS stream that did not accept all of them
    must get the same bytes again.
    """

    def __init__(self) -> None:
        self._head = memoryview(b"")
        self._gathered: list[bytes] = []
        self._gathered_bytes = 0

    def __len__(self) -> int:
        return len(self._head) + self._gathered_bytes

    def put(self, frame: bytes) -> None:
        """Add a frame at the end."""
        self._gathered.append(frame)
        self._gathered_bytes += len(frame)

    def head(self) -> memoryview:
        """Return the bytes to send next; an empty view if no bytes wait."""
        if not self._head and self._gathered:
            self._head = memoryview(b"".join(self._gathered))
            self._gathered, self._gathered_bytes = [], 0
        return self._head

    def sent(self, count: int) -> None:
        """Remove the first `count` bytes of `head`."""
        self._head = self._head[count:]


class Channel:
    """The stream to one server, the session that makes and reads its frames, and the bytes that wait to be sent."""

    def __init__(self, transport: Transport, settings: NetSettings) -> None:
        self.transport = transport
        self.session = Session(max_frame_bytes=settings.max_frame_bytes, header_type=settings.header_type)
        self.outbox = Outbox()
        self.heard_at = time.monotonic()
        """The monotonic time when bytes last arrived; before the first bytes, when the stream was opened."""
        self.untaken: Deadline | None = None
        """The deadline until which the stream must accept some bytes; None once it has accepted all."""
        self._untaken_s = settings.untaken_s
        self._forgiven, self._counted_until = 0, self.heard_at + UNASKED_S
        """The number of unrequested frames before the current period of `UNASKED_S`, and the end of that period."""
        self._send_failure: ConnectionLost | None = None
        self._heard = False
        self._silent_since: float | None = None

    # --- filling the outbox ------------------------------------------------------------------------------------------

    def request(self, code: int, fields: dict[str, str] | None, body: bytes) -> int:
        """Put a request into the outbox; return the opaque that its response will carry."""
        return self.request_as(code, 1, self.session.writer(code, fields, body))[0]

    def request_as(self, code: int, count: int, write: Writer) -> Sequence[int]:
        """Assign opaques to `count` requests, and put the frames into the outbox that `write` makes for them."""
        try:
            opaques, frames = self.session.request_as(code, count, write)
        except ProtocolError as error:
            self._locate(error, code)
            raise
        self.outbox.put(frames)
        return opaques

    def tell(self, code: int, fields: dict[str, str] | None, body: bytes) -> None:
        """Put a one-way request, which gets no response, into the outbox."""
        try:
            self.outbox.put(self.session.oneway(code, fields, body))
        except ProtocolError as error:
            self._locate(error, code)
            raise

    def answer(self, request: Command, answer: Command) -> None:
        """Put the response to a request of the server into the outbox, unless the request is one-way.

        Raise `Flooded` if too many bytes wait to be sent.
        """
        if request.is_oneway:
            return
        if len(self.outbox) > MOST_UNREAD_BYTES:
            raise self._flooded(f"the server sends requests and reads no answers: {len(self.outbox)} bytes wait")
        self.outbox.put(self.session.reply(request, answer))

    def decline(self, request: Command) -> None:
        """Tell the server that the code of its request is not supported; count the request as an unrequested frame."""
        self.session.unasked += 1
        remark = f"request code {request.code} is not supported"
        self.answer(request, Command(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark))

    # --- moving bytes: one attempt each ------------------------------------------------------------------------------

    def send(self, data: memoryview) -> int:
        """Send `data`, the outbox's head, as far as the stream accepts it now.

        Return the number of bytes to remove from the outbox. After an error of sending, this is the number of all
        bytes; `receive` raises the error later.
        """
        if self._send_failure:
            return len(data)
        try:
            count = self.transport.send(data)
        except ConnectionLost as error:
            self._send_failure = error
            return len(data)
        if count:
            self.untaken = Deadline.after(self._untaken_s) if count < len(data) else None
        elif self._fail_if_stuck():
            return len(data)
        return count

    def receive(self) -> int | None:
        """Receive bytes into the session; return their number, to be passed to `events`, or None if none have arrived.

        Raise ConnectionLost at the end of the stream, and after an error of sending once all bytes have been received.
        """
        space = self.session.space()
        try:
            count = self.transport.receive_into(space)
        except ConnectionLost as error:
            self._explain(error)
            raise
        if count:
            self._note_heard(space[:2])
        elif self._send_failure:
            raise self._explain(self._send_failure)
        elif count == 0:
            raise self._ended()
        return count

    def events(self, count: int) -> Iterator[Event]:
        """Yield the responses and requests of the server that the `count` received bytes complete."""
        try:
            yield from self.session.received(count)
            if self.session.unasked != self._forgiven:
                self._check_unasked()
        except ProtocolError as error:
            error.locate(address=str(self.transport.address))
            raise

    @property
    def send_failed(self) -> bool:
        """Whether sending has failed; `receive` raises the error once all bytes have been received."""
        return self._send_failure is not None

    @property
    def needs(self) -> int:
        """The events (READ, WRITE) of the stream to wait for, to receive bytes, and to send them if any wait."""
        return self.transport.needs(write=bool(self.outbox))

    # --- silence -----------------------------------------------------------------------------------------------------

    def note_time_out(self, heard_at: float) -> None:
        """Note that a request timed out; `heard_at` is the value that `self.heard_at` had when the request was made.

        If `self.heard_at` has not changed since, no bytes have arrived, and the channel is mute.
        """
        if heard_at == self.heard_at:
            self._silent_since = heard_at

    @property
    def is_mute(self) -> bool:
        """Whether a request timed out, and no bytes have arrived since it was made.

        Bytes that the kernel holds count as arrived, because only this process is late to receive them.
        """
        return self._silent_since == self.heard_at and not self.transport.has_unread

    # --- limits ------------------------------------------------------------------------------------------------------

    def _fail_if_stuck(self) -> bool:
        """Note that the stream accepted no bytes; if this has lasted `untaken_s`, let sending fail and return True."""
        self.untaken = self.untaken or Deadline.after(self._untaken_s)
        if not self.untaken.expired:
            return False
        what = (
            f"the server has taken none of the {len(self.outbox)} bytes that wait to be sent for {self._untaken_s:g} s"
        )
        self._send_failure = self._lost(what, "check whether the server hangs; the next attempt uses a new connection")
        self.untaken = None
        return True

    def _check_unasked(self) -> None:
        """Raise `Flooded` if more than `MOST_UNASKED` unrequested frames arrived within `UNASKED_S`."""
        if self.heard_at > self._counted_until:
            self._forgiven, self._counted_until = self.session.unasked, self.heard_at + UNASKED_S
        count = self.session.unasked - self._forgiven
        if count > MOST_UNASKED:
            raise self._flooded(
                f"the server sent {count} unrequested frames, the limit is {MOST_UNASKED} in {UNASKED_S:g} s "
                "(repeated answers, or requests that clients do not serve)"
            )

    def _flooded(self, what: str) -> Flooded:
        advice = "check the server's log, that it is a RocketMQ server, and that no proxy repeats what it sends"
        return Flooded(what, advice=advice, address=str(self.transport.address))

    # --- the end -----------------------------------------------------------------------------------------------------

    def _note_heard(self, first: memoryview) -> None:
        """Store the present time as the time at which bytes last arrived; `first` are the first two of these bytes.

        Raise `ConnectionLost` if a stream without TLS begins with a TLS alert: then the server expects TLS.
        """
        self.heard_at = time.monotonic()
        if not self._heard and not self.transport.encrypted and first == _TLS_ALERT:
            raise self._lost("the server answered with a TLS alert", "set useTLS=true")
        self._heard = True

    def _ended(self) -> ConnectionLost:
        try:
            self.session.end()
        except MalformedFrame as cut:
            error = self._lost(f"the server closed the connection: {cut.what}", "try again")
            error.__cause__ = cut
            return error
        return self._explain(self._lost("the server closed the connection", "try again"))

    def _explain(self, error: ConnectionLost) -> ConnectionLost:
        """Return the error, with the advice to use TLS if the stream has none and the server has not sent any bytes."""
        if not self._heard and not self.transport.encrypted:
            error.advice = _TLS_ADVICE
        return error

    def _lost(self, what: str, advice: str) -> ConnectionLost:
        return ConnectionLost(what, advice=advice, address=str(self.transport.address))

    def _locate(self, error: ProtocolError, code: int) -> None:
        error.locate(address=str(self.transport.address), request=request_name(code))


class Connection:
    """A connection without a thread of its own, for one caller. Not thread-safe.

    Bytes are sent and received only while the caller waits or calls `exchange`; `submit` only adds to the outbox, so
    that requests leave together. Replies are the server's responses, whatever their response code; their bodies are
    views of the receive buffer. A passed deadline raises `RequestTimeout`, and the connection stays usable. Any other
    error ends the connection: every request in flight, and every later call, raises that error.
    """

    def __init__(self, transport: Transport, settings: NetSettings) -> None:
        self.address: Address = transport.address
        self.settings = settings
        self._channel = Channel(transport, settings)
        self._ready: OrderedDict[int, Response] = OrderedDict()
        self._unwanted = 0
        self._failure: RocketMQError | None = None

    @classmethod
    def open(cls, address: Address, settings: NetSettings, deadline: Deadline | None = None) -> Self:
        """Return a new connection; raise `ConnectError` if none can be made before the deadline.

        Without a deadline, the settings' connect timeout limits the wait.
        """
        return cls(connect(address, deadline or settings.connect_deadline(), settings), settings)

    def __repr__(self) -> str:
        state = f"ended by {self._failure.code}" if self._failure else "open"
        return (
            f"<Connection {self.address} {state}, {self.in_flight} in flight, {len(self._ready)} ready, "
            f"{self.dropped_replies} dropped, {len(self._channel.outbox)} bytes to send>"
        )

    # --- state -------------------------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether no error has ended the connection yet.

        If the server has closed it, this shows only when bytes are next sent or received.
        """
        return self._failure is None

    @property
    def is_settled(self) -> bool:
        """Whether the connection can be reused: it is open, not mute, and has nothing in flight, unsent or unread."""
        channel = self._channel
        unsettled = self.in_flight or self._ready or channel.outbox or channel.session.is_amid_frame or channel.is_mute
        return self.is_open and not unsettled

    @property
    def heard_at(self) -> float:
        """The monotonic time when bytes last arrived; before the first bytes, when the connection was opened."""
        return self._channel.heard_at

    @property
    def has_news(self) -> bool:
        """Whether a response is ready or the connection has ended, so that `next_reply` would not wait."""
        return bool(self._ready or self._failure)

    @property
    def in_flight(self) -> int:
        """The number of requests that await a response."""
        return len(self._channel.session.pending)

    @property
    def pending_codes(self) -> tuple[int, ...]:
        """The codes of the requests in flight."""
        return tuple(self._channel.session.pending.values())

    @property
    def dropped_replies(self) -> int:
        """The number of responses that no caller awaited: to requests given up, one-way, or answered before."""
        return self._channel.session.dropped_replies + self._unwanted

    # --- requests ----------------------------------------------------------------------------------------------------

    def submit(self, code: int, fields: dict[str, str] | None = None, body: bytes = b"") -> int:
        """Put a request into the outbox and return its opaque; `exchange` or the next call that waits sends it."""
        self._raise_if_ended((code,))
        return self._channel.request(code, fields, body)

    def submit_as(self, code: int, count: int, write: Writer) -> Sequence[int]:
        """Assign opaques to `count` requests, and put the frames into the outbox that `write` makes for them."""
        self._raise_if_ended((code,))
        return self._channel.request_as(code, count, write)

    def next_reply(self, deadline: Deadline | None = None) -> Response:
        """Return the next response to any request; raise at the deadline, but leave all requests in flight."""
        if not self.has_news and not self.in_flight:
            raise LocalProtocolError("no request is in flight, no answer can come", address=str(self.address))
        self._drive(lambda: bool(self._ready), self.pending_codes, deadline)
        return self._ready.popitem(last=False)[1]

    def ready_replies(self) -> list[Response]:
        """Remove and return the responses received so far, without waiting.

        If there are none, and an error has ended the connection, raise that error.
        """
        if not self._ready:
            self._raise_if_ended(self.pending_codes)
        replies = list(self._ready.values())
        self._ready.clear()
        return replies

    def call(
        self, code: int, fields: dict[str, str] | None = None, body: bytes = b"", deadline: Deadline | None = None
    ) -> Command:
        """Send a request and return its response; responses to other requests are kept for later calls."""
        opaque = self.submit(code, fields, body)
        try:
            self._drive(lambda: opaque in self._ready, (code,), deadline)
            return self._ready.pop(opaque).command
        finally:
            self.forget(opaque)

    def collect(self, opaques: Iterable[int], deadline: Deadline | None = None) -> Iterator[Response]:
        """Yield the responses to the requests with these opaques in order of arrival.

        The first `next` sends the requests. Raise at the deadline. Requests that are not answered when the iteration
        ends, at the deadline or early, are given up.
        """
        deadline = deadline or self.settings.request_deadline()
        heard_at = self.heard_at
        missing = set(opaques)
        try:
            while missing:
                codes = [code for opaque, code in self._channel.session.pending.items() if opaque in missing]
                self._drive(lambda: not missing.isdisjoint(self._ready), codes, deadline, heard_at)
                for opaque in [opaque for opaque in self._ready if opaque in missing]:
                    missing.discard(opaque)
                    yield self._ready.pop(opaque)
        finally:
            for opaque in missing:
                self.forget(opaque)

    def tell(
        self, code: int, fields: dict[str, str] | None = None, body: bytes = b"", deadline: Deadline | None = None
    ) -> None:
        """Send a one-way request, which gets no response; return when all its bytes are sent."""
        self._raise_if_ended((code,))
        self._channel.tell(code, fields, body)
        self._drive(lambda: not self._channel.outbox, (code,), deadline)

    def forget(self, opaque: int) -> None:
        """Give a request up: if its response arrives, it is dropped and counted in `dropped_replies`."""
        self._channel.session.forget(opaque)
        if self._ready.pop(opaque, None):
            self._unwanted += 1

    # --- moving bytes ------------------------------------------------------------------------------------------------

    def exchange(self) -> bool:
        """Send as much as is possible and receive once, without waiting.

        Return whether bytes arrived or the connection ended now.
        """
        if self._failure:
            return False
        try:
            outbox = self._channel.outbox
            while (head := outbox.head()) and (count := self._channel.send(head)):
                outbox.sent(count)
            return self._take_in()
        except RocketMQError as error:
            self._end(error)
            return True

    @property
    def wants(self) -> tuple[Transport, int]:
        """The stream, and the events on it to wait for before the next `exchange`."""
        return self._channel.transport, self._channel.needs

    def close(self) -> None:
        """Close the connection; every request in flight ends with ConnectionLost."""
        self._end(ConnectionLost("the connection was closed on this side", address=str(self.address)))

    def abandon(self) -> None:
        """Close a forked child's copy of the connection; the parent's stays usable."""
        self._failure = ConnectionLost("the connection stayed with the parent process", address=str(self.address))
        self._channel.transport.abandon()

    def _take_in(self) -> bool:
        count = self._channel.receive()
        if count is None:
            return False
        ready = self._ready
        for event in self._channel.events(count):
            if isinstance(event, Response):
                ready[event.opaque] = event
            else:
                self._channel.decline(event.command)
        return True

    def _drive(
        self,
        done: Callable[[], bool],
        codes: Collection[int],
        deadline: Deadline | None,
        heard_at: float | None = None,
    ) -> None:
        """Exchange bytes until `done` returns True; raise at the deadline, or if the connection ends.

        The error names the requests with the given `codes`. A caller that waits by several calls passes in each the
        value that `heard_at` of the connection had before the first call.
        """
        deadline = deadline or self.settings.request_deadline()
        heard_at = heard_at or self.heard_at
        arrived = done() or self.exchange()
        while not done():
            self._raise_if_ended(codes)
            if deadline.expired:
                self._channel.note_time_out(heard_at)
                raise timed_out(self.address, codes, deadline, len(self._channel.outbox))
            if not arrived:
                wait_ready([self.wants], remaining_s(deadline, self._channel.untaken))
            arrived = self.exchange()

    def _raise_if_ended(self, codes: Collection[int]) -> None:
        if self._failure:
            raise for_requests(self._failure, codes)

    def _end(self, failure: RocketMQError) -> None:
        if not self._failure:
            self._failure = failure
            self._channel.session.pending.clear()
            self._channel.transport.close()
