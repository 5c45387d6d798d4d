"""What has been said over one stream, and what is still to be said?

A `Channel` joins a transport, a session and an outbox. It never waits and starts no thread: `Connection` drives it
from its caller's thread, `ThreadedConnection` from one of its own.

A stream that breaks while we send may still hold answers. So a failed send is kept back until nothing is left to
read, and `receive` is the only place where the end of the stream shows. A stream that takes nothing for `untaken_s`
counts as broken.

A peer may send some frames that nobody asked for, as late servers and repeating networks do. More than `MOST_UNASKED`
in `UNASKED_S` end the connection, and so do `MOST_UNREAD_BYTES` of answers to a peer that asks but does not read.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from ..errors import ConnectionLost, Flooded, MalformedFrame, ProtocolError
from ..wire.codes import ResponseCode
from ..wire.header import Command
from ..wire.session import Event, Session, Writer
from .deadline import Deadline
from .failures import request_name
from .outbox import Outbox
from .settings import NetSettings
from .transport import Transport

MOST_UNASKED, UNASKED_S = 1000, 60.0
MOST_UNREAD_BYTES = 64 * 1024 * 1024
_TLS_ALERT = b"\x15\x03"
_TLS_ADVICE = "try again; if the server wants TLS, set useTLS=true"


class Channel:
    """One peer: the stream to it, the conversation, and the bytes that wait to be sent."""

    def __init__(self, transport: Transport, settings: NetSettings) -> None:
        self.transport = transport
        self.session = Session(max_frame_bytes=settings.max_frame_bytes, header_type=settings.header_type)
        self.outbox = Outbox()
        self.heard_at = time.monotonic()
        """When bytes last arrived; at first when the stream was opened."""
        self.untaken: Deadline | None = None
        """Until when the stream must take something of what is to be sent; None while it does."""
        self._untaken_s = settings.untaken_s
        self._forgiven, self._counted_until = 0, self.heard_at + UNASKED_S
        """How many unasked frames came before those that are counted now, and for how long these are counted."""
        self._send_failure: ConnectionLost | None = None
        self._heard = False
        self._silent_since: float | None = None

    # --- speaking: into the outbox -----------------------------------------------------------------------------------

    def request(self, code: int, fields: dict[str, str] | None, body: bytes) -> int:
        """Ask; returns the opaque by which the answer will come."""
        return self.request_as(code, 1, self.session.writer(code, fields, body))[0]

    def request_as(self, code: int, count: int, write: Writer) -> Sequence[int]:
        """Ask so many times with frames that `write` makes; returns the opaques."""
        try:
            opaques, frames = self.session.request_as(code, count, write)
        except ProtocolError as error:
            self._locate(error, code)
            raise
        self.outbox.put(frames)
        return opaques

    def tell(self, code: int, fields: dict[str, str] | None, body: bytes) -> None:
        """Tell without wanting an answer."""
        try:
            self.outbox.put(self.session.oneway(code, fields, body))
        except ProtocolError as error:
            self._locate(error, code)
            raise

    def answer(self, request: Command, answer: Command) -> None:
        """Answer the peer's own request, unless it wants no answer; `Flooded` when too many answers wait."""
        if request.is_oneway:
            return
        if len(self.outbox) > MOST_UNREAD_BYTES:
            raise self._flooded(f"the server asks, and reads none of our answers: {len(self.outbox)} bytes wait")
        self.outbox.put(self.session.reply(request, answer))

    def decline(self, request: Command) -> None:
        """Say that we do not serve such requests."""
        self.session.unasked += 1
        remark = f"request code {request.code} is not supported"
        self.answer(request, Command(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark))

    # --- moving bytes: one attempt each ------------------------------------------------------------------------------

    def send(self, data: memoryview) -> int:
        """Send what the stream takes now of the outbox's head; how many bytes that was."""
        if self._send_failure:
            return len(data)
        try:
            count = self.transport.send(data)
        except ConnectionLost as error:
            self._send_failure = error
            return len(data)
        if count:
            self.untaken = Deadline.after(self._untaken_s) if count < len(data) else None
        elif self._is_stuck():
            return len(data)
        return count

    def receive(self) -> int | None:
        """Receive into the session; None when nothing is there, else how many bytes for `events`."""
        space = self.session.space()
        try:
            count = self.transport.receive_into(space)
        except ConnectionLost as error:
            self._explain(error)
            raise
        if count:
            self._hear(space[:2])
        elif self._send_failure:
            raise self._explain(self._send_failure)
        elif count == 0:
            raise self._ended()
        return count

    def events(self, count: int) -> Iterator[Event]:
        """What the received bytes complete."""
        try:
            yield from self.session.received(count)
            if self.session.unasked != self._forgiven:
                self._judge_unasked()
        except ProtocolError as error:
            error.locate(address=str(self.transport.address))
            raise

    @property
    def send_failed(self) -> bool:
        """Whether the stream takes no more, which `receive` will tell in its time."""
        return self._send_failure is not None

    @property
    def needs(self) -> int:
        """What to wait for before another attempt is worth it."""
        return self.transport.needs(write=bool(self.outbox))

    # --- silence -----------------------------------------------------------------------------------------------------

    def note_time_out(self, heard_at: float) -> None:
        """Take note that no answer came in time to what was asked when `heard_at` was as given."""
        if heard_at == self.heard_at:
            self._silent_since = heard_at

    @property
    def is_mute(self) -> bool:
        """Whether a request timed out, and nothing at all came from the time it was made until now.

        What nobody has had time to receive did come: a reader that is held up is no sign of a silent server.
        """
        return self._silent_since == self.heard_at and not self.transport.has_unread

    # --- too much, too little ----------------------------------------------------------------------------------------

    def _is_stuck(self) -> bool:
        """Take note that the stream took nothing; return whether that has been so for too long."""
        self.untaken = self.untaken or Deadline.after(self._untaken_s)
        if not self.untaken.expired:
            return False
        what = (
            f"the server has taken none of the {len(self.outbox)} bytes that wait to be sent for {self._untaken_s:g} s"
        )
        self._send_failure = self._lost(what, "look whether the server hangs; tried again on a new connection")
        self.untaken = None
        return True

    def _judge_unasked(self) -> None:
        """Raise `Flooded` when too many frames came lately that nobody asked for."""
        if self.heard_at > self._counted_until:
            self._forgiven, self._counted_until = self.session.unasked, self.heard_at + UNASKED_S
        count = self.session.unasked - self._forgiven
        if count > MOST_UNASKED:
            raise self._flooded(
                f"the server sent {count} frames that nobody asked for (answers given twice, or requests that clients "
                f"do not serve), the limit is {MOST_UNASKED} in {UNASKED_S:g} s"
            )

    def _flooded(self, what: str) -> Flooded:
        advice = "look at the server's log; is it a RocketMQ server, and does nothing between repeat what it sends?"
        return Flooded(what, advice=advice, address=str(self.transport.address))

    # --- how it ends -------------------------------------------------------------------------------------------------

    def _hear(self, first: memoryview) -> None:
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
        """A server that ends a plain stream without having said anything may be one that wants TLS."""
        if not self._heard and not self.transport.encrypted:
            error.advice = _TLS_ADVICE
        return error

    def _lost(self, what: str, advice: str) -> ConnectionLost:
        return ConnectionLost(what, advice=advice, address=str(self.transport.address))

    def _locate(self, error: ProtocolError, code: int) -> None:
        error.locate(address=str(self.transport.address), request=request_name(code))
