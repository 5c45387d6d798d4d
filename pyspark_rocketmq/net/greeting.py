"""Find out which protocol a server speaks that does not answer as a RocketMQ server does.

A gRPC server sends the first frame of HTTP/2 unasked, an HTTP server answers a line of HTTP, and a TLS server shakes
hands.
"""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import replace
from enum import Enum

from ..errors import RocketMQError
from ..model import Address
from .deadline import Deadline
from .settings import NetSettings, TlsSettings
from .transport import READ, Transport, connect, wait_ready

__all__ = ["Greeting", "identify"]

_UNASKED_S, _ASKED_S = 0.3, 1.0
_LINE = b"GET / HTTP/1.0\r\n\r\n"
_HTTP2_SETTINGS = 4
"""The type of the frame that every HTTP/2 server sends first; it is the fourth byte of the frame."""


class Greeting(Enum):
    """Protocols of servers that a user may take for a RocketMQ server."""

    HTTP = "HTTP"
    HTTP2 = "HTTP/2, as gRPC servers do"
    TLS = "TLS"


def identify(address: Address, settings: NetSettings) -> Greeting | None:
    """Return the protocol that the server at an address speaks; None if it is none of these, or cannot be reached."""
    with suppress(RocketMQError):
        with closing(connect(address, settings.connect_deadline(), replace(settings, tls=None))) as stream:
            if greeting := _classify(_receive(stream, _UNASKED_S)) or _classify(_ask(stream)):
                return greeting
        # Nothing is sent over this stream, so the server's certificate does not matter.
        unverified = replace(settings, tls=TlsSettings(verify_server=False))
        with closing(connect(address, settings.connect_deadline(), unverified)):
            return Greeting.TLS
    return None


def _ask(stream: Transport) -> bytes:
    stream.send(memoryview(_LINE))
    return _receive(stream, _ASKED_S)


def _receive(stream: Transport, seconds: float) -> bytes:
    """Return the bytes that arrive first within a time; none if the server is silent or closes the stream."""
    space, deadline = bytearray(64), Deadline.after(seconds)
    while wait_ready([(stream, READ)], deadline.remaining()):
        count = stream.receive_into(memoryview(space))
        if count is not None:
            return bytes(space[:count])
    return b""


def _classify(data: bytes) -> Greeting | None:
    if data.startswith(b"HTTP/"):
        return Greeting.HTTP
    if len(data) >= 9 and data[0] == 0 and data[3] == _HTTP2_SETTINGS and data[5:9] == bytes(4):
        return Greeting.HTTP2
    return None
