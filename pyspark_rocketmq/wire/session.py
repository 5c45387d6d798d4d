"""Match the responses of one connection to its requests, and reject illegal sequences of frames.

A `Session` knows no socket. Received bytes go in (`space` and `received`, or `receive`) and events come out; each
method that makes a request or a response returns the bytes to send. Clients and servers use the same class.

Responses are matched by *opaque* alone and may come in any order. The peer numbers its own requests with opaques too,
so the response flag decides first whether a frame is a response.

A response to a request that was given up (`forget`) or was one-way is dropped and counted in `dropped_replies`. One
response for each of these requests is expected; further ones are also counted in `unasked`, and the owner of the
session limits that number. A response to a request that was never made breaks the session, as every framing error does.
A broken session raises an error at each further use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ..errors import FrameTooLarge, LocalProtocolError, MalformedFrame, RemoteProtocolError, UnexpectedReply
from .frame import MAX_FRAME_BYTES, FrameBuffer
from .header import (
    ONEWAY_FLAG,
    RESPONSE_FLAG,
    Command,
    HeaderType,
    QuickResponse,
    cut_responses,
    decode_any_command,
    encode_command,
)

_LAST_OPAQUE = 2**31 - 1
_new = tuple.__new__
"""The constructor of tuples; the constructor of a named tuple does the same as a Python function, in twice the time."""


class Response(NamedTuple):
    """A response that arrived, with the `opaque` of the request that it answers."""

    opaque: int
    command: Command


class Request(NamedTuple):
    """A request of the peer; unless it is one-way, `Session.reply` must answer it."""

    command: Command


Event = Response | Request

Writer = Callable[[Sequence[int]], Sequence[bytes | memoryview]]
"""A function that returns the frames of several requests, given an opaque for each.

A frame may be divided into parts, whose sum the writer must keep below the limit of frames.
"""


class Session:
    """The protocol state of one end of a connection; not thread-safe."""

    def __init__(self, *, max_frame_bytes: int = MAX_FRAME_BYTES, header_type: HeaderType = HeaderType.JSON) -> None:
        self.max_frame_bytes = max_frame_bytes
        self.header_type = header_type
        self.pending: dict[int, int] = {}
        """Requests that wait for a response: their request codes by opaque."""
        self.dropped_replies = 0
        """Number of responses that no caller awaited: to requests that were given up, one-way, or answered before."""
        self.unasked = 0
        """Number of unsolicited frames: surplus responses, and requests that were declined.

        The caller that declines a request adds it to this number.
        """
        self.broken: RemoteProtocolError | None = None
        self._buffer = FrameBuffer(max_frame_bytes)
        self._last_opaque = 0
        self._wrapped = False
        self._owed = 0
        """Number of responses that may still arrive for requests that were given up or one-way."""
        self._cut: Iterator[QuickResponse] = iter(())
        """Responses that were cut from the buffer and are not yielded yet."""

    def __repr__(self) -> str:
        state = f"broken: {self.broken}" if self.broken else "open"
        counts = f"{len(self.pending)} pending, {self.dropped_replies} dropped, {len(self._buffer)} buffered"
        return f"<Session {state}, {counts}>"

    # --- sending -----------------------------------------------------------------------------------------------------

    def request(self, code: int, fields: dict[str, str] | None = None, body: bytes = b"") -> tuple[int, bytes]:
        """Return the opaque of a new request, and the bytes to send."""
        (opaque,), data = self.request_as(code, 1, self.writer(code, fields, body))
        return opaque, data

    def writer(self, code: int, fields: dict[str, str] | None, body: bytes) -> Writer:
        """Return a function that, given opaques, returns a request frame with this code, fields and body for each."""
        return lambda opaques: [self._encode(Command(code, opaque, fields, body)) for opaque in opaques]

    def request_as(self, code: int, count: int, write: Writer) -> tuple[Sequence[int], bytes]:
        """Start `count` requests, whose frames `write` makes; return their opaques and the bytes to send."""
        opaques = self._next_opaques(count)
        frames = write(opaques)
        self._check_sendable(max(map(len, frames)))
        for opaque in opaques:
            self.pending[opaque] = code
        return opaques, b"".join(frames)

    def oneway(self, code: int, fields: dict[str, str] | None = None, body: bytes = b"") -> bytes:
        """Return the bytes of a one-way request, which gets no response."""
        opaque = self._next_opaques(1)[0]
        data = self._sendable(self._encode(Command(code, opaque, fields, body, flag=ONEWAY_FLAG)))
        self._owed += 1
        return data

    def reply(self, request: Command, response: Command) -> bytes:
        """Give `response` the opaque of the peer's request, mark it as a response, and return its bytes to send.

        Its `header_type` decides whether the header is JSON or binary.
        """
        response.opaque = request.opaque
        response.flag |= RESPONSE_FLAG
        return self._sendable(encode_command(response))

    def forget(self, opaque: int) -> None:
        """Give a request up: if its response arrives later, drop it and count it."""
        if self.pending.pop(opaque, None) is not None:
            self._owed += 1

    # --- receiving ---------------------------------------------------------------------------------------------------

    def space(self) -> memoryview:
        """Return the memory to receive into; `received` must then be called with the number of received bytes."""
        return self._buffer.space()

    def received(self, count: int) -> Iterator[Event]:
        """Record that `count` bytes were received into `space`; yield the events that they complete.

        If the caller stops before the last event, because of an error, the next call yields the rest first.
        """
        self._buffer.filled(count)
        return self._events()

    def receive(self, data: bytes | memoryview) -> Iterator[Event]:
        """Copy received bytes into the buffer; yield the events that they complete."""
        self._buffer.feed(data)
        return self._events()

    @property
    def is_amid_frame(self) -> bool:
        """Whether a frame has arrived in part but not yet as a whole."""
        return len(self._buffer) > 0

    def end(self) -> None:
        """Record that the peer closed the connection; raise `MalformedFrame` if a frame is incomplete."""
        if rest := len(self._buffer):
            raise self._break(MalformedFrame(f"the stream ended inside a frame, after {rest} bytes of it"))

    def _events(self) -> Iterator[Event]:
        if self.broken:
            raise self.broken
        buffer, pending = self._buffer, self.pending
        try:
            while True:
                responses, buffer.start = cut_responses(buffer.chunk, buffer.start, buffer.end, self.max_frame_bytes)
                self._cut = iter((*self._cut, *responses))
                for response in self._cut:
                    if pending.pop(response.opaque, None) is not None:
                        yield _new(Response, (response.opaque, response))
                    else:
                        self._drop(response)
                # The next frame is no usual response to a pull or send, is illegal, or is incomplete.
                if (frame := buffer.next_frame()) is None:
                    return
                command = decode_any_command(frame)
                if not command.flag & RESPONSE_FLAG:
                    yield Request(command)
                elif pending.pop(command.opaque, None) is not None:
                    yield _new(Response, (command.opaque, command))
                else:
                    self._drop(command)
        except RemoteProtocolError as error:
            raise self._break(error) from error.__cause__

    def _drop(self, command: Command) -> None:
        if not (self._wrapped or 0 < command.opaque <= self._last_opaque):
            raise UnexpectedReply(f"a response to request {command.opaque}, which was never made")
        self.dropped_replies += 1
        if self._owed:
            self._owed -= 1
        else:
            self.unasked += 1

    def _break(self, error: RemoteProtocolError) -> RemoteProtocolError:
        """Mark the session as broken by `error`; return its first error, because later ones are only consequences."""
        self.broken = self.broken or error
        return self.broken

    def _encode(self, command: Command) -> bytes:
        command.header_type = self.header_type
        return encode_command(command)

    def _sendable(self, data: bytes) -> bytes:
        self._check_sendable(len(data))
        return data

    def _check_sendable(self, size: int) -> None:
        if self.broken:
            raise LocalProtocolError(f"the session is broken: {self.broken.what}", advice="open a new connection")
        if size > self.max_frame_bytes:
            raise FrameTooLarge(
                f"a frame of {size} bytes to send, the limit is {self.max_frame_bytes}",
                advice="send less at once, or raise maxFrameSize here and on the server",
            )

    def _next_opaques(self, count: int) -> range:
        if self._last_opaque > _LAST_OPAQUE - count:
            self._last_opaque, self._wrapped = 0, True
        self._last_opaque += count
        return range(self._last_opaque - count + 1, self._last_opaque + 1)
