"""Match the responses of one connection to its requests, and refuse illegal sequences of frames.

A `Session` knows no socket: received bytes go in (`space` and `received`, or `receive`), events come out, and each call
that makes a request or a response returns the bytes to send. Clients and servers use the same class.

Responses are matched by *opaque* alone and may come in any order. The peer's own requests carry opaques from
its own counter, so the direction is read from the response flag first. A response to a request that was given
up (`forget`) or was one-way is dropped and counted. A response to a request that was never made breaks the session, as
does every framing error; a broken session refuses all further use. Responses beyond one for each request that was given
up are counted as `unasked`, too; the session's owner limits their number.
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
    cut_pull_responses,
    decode_any_command,
    encode_command,
)

_LAST_OPAQUE = 2**31 - 1
_new = tuple.__new__
"""The constructor of tuples; that of a named tuple is a Python function that does the same at twice the cost."""


class Reply(NamedTuple):
    """The response to our request `opaque`."""

    opaque: int
    command: Command


class Request(NamedTuple):
    """A request of the peer, to be answered with `Session.reply` unless it is one-way."""

    command: Command


Event = Reply | Request

Writer = Callable[[Sequence[int]], list[bytes]]
"""A function that makes the frames of some requests, given an opaque for each."""


class Session:
    """One side of one connection; not thread-safe."""

    def __init__(self, *, max_frame_bytes: int = MAX_FRAME_BYTES, header_type: HeaderType = HeaderType.JSON) -> None:
        self.max_frame_bytes = max_frame_bytes
        self.header_type = header_type
        self.pending: dict[int, int] = {}
        """Request codes of the requests that await a response, by opaque."""
        self.dropped_replies = 0
        self.unasked = 0
        """Number of unsolicited frames: responses that came twice, and requests that are declined. The caller that
        declines a request counts it here."""
        self.broken: RemoteProtocolError | None = None
        self._buffer = FrameBuffer(max_frame_bytes)
        self._last_opaque = 0
        self._wrapped = False
        self._owed = 0
        """Number of responses that may still come to requests that were given up or one-way."""

    def __repr__(self) -> str:
        state = f"broken: {self.broken}" if self.broken else "open"
        counts = f"{len(self.pending)} pending, {self.dropped_replies} dropped, {len(self._buffer)} buffered"
        return f"<Session {state}, {counts}>"

    # --- sending -----------------------------------------------------------------------------------------------------

    def request(self, code: int, fields: dict[str, str] | None = None, body: bytes = b"") -> tuple[int, bytes]:
        """Make a request; return the opaque that its response will carry, and the bytes to send."""
        (opaque,), data = self.request_as(code, 1, self.writer(code, fields, body))
        return opaque, data

    def writer(self, code: int, fields: dict[str, str] | None, body: bytes) -> Writer:
        """Return the function that makes the frames of equal requests."""
        return lambda opaques: [self._encode(Command(code, opaque, fields, body)) for opaque in opaques]

    def request_as(self, code: int, count: int, write: Writer) -> tuple[Sequence[int], bytes]:
        """Make `count` requests with the frames that `write` makes; return the opaques and the bytes to send."""
        opaques = self._next_opaques(count)
        frames = write(opaques)
        self._check_sendable(max(map(len, frames)))
        for opaque in opaques:
            self.pending[opaque] = code
        return opaques, b"".join(frames)

    def oneway(self, code: int, fields: dict[str, str] | None = None, body: bytes = b"") -> bytes:
        """Make a request that expects no response; return the bytes to send."""
        opaque = self._next_opaques(1)[0]
        data = self._sendable(self._encode(Command(code, opaque, fields, body, flag=ONEWAY_FLAG)))
        self._owed += 1
        return data

    def reply(self, request: Command, response: Command) -> bytes:
        """Answer the peer's request, in the header form of the response; return the bytes to send."""
        response.opaque = request.opaque
        response.flag |= RESPONSE_FLAG
        return self._sendable(encode_command(response))

    def forget(self, opaque: int) -> None:
        """Give a request up; drop and count its response if it comes."""
        if self.pending.pop(opaque, None) is not None:
            self._owed += 1

    # --- receiving ---------------------------------------------------------------------------------------------------

    def space(self) -> memoryview:
        """Return room to receive into; call `received` with the number of bytes put there."""
        return self._buffer.space()

    def received(self, count: int) -> Iterator[Event]:
        """Take note of `count` bytes in `space`; yield the events that they complete."""
        self._buffer.filled(count)
        return self._events()

    def receive(self, data: bytes | memoryview) -> Iterator[Event]:
        """Copy received bytes in; yield the events that they complete."""
        self._buffer.feed(data)
        return self._events()

    @property
    def is_amid_frame(self) -> bool:
        """Whether only a part of the next frame has arrived."""
        return len(self._buffer) > 0

    def end(self) -> None:
        """Take note that the peer closed its side; raise `MalformedFrame` if that cut a frame."""
        if rest := len(self._buffer):
            raise self._break(MalformedFrame(f"the stream ended inside a frame, after {rest} bytes of it"))

    def _events(self) -> Iterator[Event]:
        if self.broken:
            raise self.broken
        buffer, pending = self._buffer, self.pending
        try:
            while True:
                responses, buffer.start = cut_pull_responses(
                    buffer.chunk, buffer.start, buffer.end, self.max_frame_bytes
                )
                for response in responses:
                    if pending.pop(response.opaque, None) is not None:
                        yield _new(Reply, (response.opaque, response))
                    else:
                        self._drop(response)
                # The next frame is of another kind, wrong, or incomplete.
                if (frame := buffer.next_frame()) is None:
                    return
                command = decode_any_command(frame)
                if not command.flag & RESPONSE_FLAG:
                    yield Request(command)
                elif pending.pop(command.opaque, None) is not None:
                    yield _new(Reply, (command.opaque, command))
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
        """Keep the first error, of which later ones are consequences; return it."""
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
