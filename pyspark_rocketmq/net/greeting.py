"""Find out which protocol a server speaks that does not answer as a RocketMQ server does, and how long it is trusted.

A gRPC server sends the first frame of HTTP/2 unasked, an HTTP server answers a line of HTTP, and a TLS server shakes
hands. A server is asked without encryption first, and then over TLS; each attempt may fail in any way.
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

__all__ = ["Greeting", "fetch_certificate_end", "identify"]

_LONGEST_S = 2.5
"""The most time for all attempts."""
_UNASKED_S, _ASKED_S = 0.3, 1.0
_LINE = b"GET / HTTP/1.0\r\n\r\n"
_ENOUGH = 12
"""The number of bytes that tell protocols apart."""
_HTTP2_SETTINGS = 4
"""The type of the frame that every HTTP/2 server sends first; it is the fourth byte of the frame."""
_BAD_REQUEST = b" 400"
"""The status with which an HTTP server answers plain text at a port for TLS."""


class Greeting(Enum):
    """Protocols of servers that a user may take for a RocketMQ server."""

    HTTP = "HTTP"
    HTTP2 = "HTTP/2, as gRPC servers do"
    TLS = "TLS"


def identify(address: Address, settings: NetSettings) -> Greeting | None:
    """Return the protocol that the server at an address speaks; None if it is none of these, or cannot be reached."""
    deadline = Deadline.after(_LONGEST_S)
    plain = _listen(address, deadline, replace(settings, tls=None)) or b""
    greeting = _classify(plain)
    if greeting is not None and not plain.endswith(_BAD_REQUEST):
        return greeting
    # Nothing but a line of HTTP is sent over this stream, so the server's certificate does not matter.
    unverified = replace(settings.tls or TlsSettings(), verify_server=False)
    encrypted = _listen(address, deadline, replace(settings, tls=unverified))
    return greeting if encrypted is None else _classify(encrypted) or Greeting.TLS


def fetch_certificate_end(address: Address, settings: NetSettings) -> float | None:
    """Return the time until which a server's certificate is valid, in seconds since 1970.

    Return None if the settings do not check it. Raise `ConnectError` if it is not trusted, or there is no server.
    """
    with closing(connect(address, settings.connect_deadline(), settings)) as stream:
        return stream.certificate_end


def _listen(address: Address, deadline: Deadline, settings: NetSettings) -> bytes | None:
    """Return the first bytes that a server sends, unasked or else when asked; None if no stream can be opened."""
    try:
        stream = connect(address, deadline, settings)
    except RocketMQError:
        return None
    with closing(stream), suppress(RocketMQError):
        if unasked := _receive(stream, _within(deadline, _UNASKED_S)):
            return unasked
        stream.send(memoryview(_LINE))
        return _receive(stream, _within(deadline, _ASKED_S))
    return b""


def _within(deadline: Deadline, seconds: float) -> Deadline:
    return Deadline.after(min(seconds, deadline.remaining()))


def _receive(stream: Transport, deadline: Deadline) -> bytes:
    """Return the first bytes that arrive, at most `_ENOUGH`; fewer if the server is silent or closes the stream."""
    data = bytearray()
    while len(data) < _ENOUGH and not deadline.expired and wait_ready([(stream, READ)], deadline.remaining()):
        space = bytearray(_ENOUGH - len(data))
        count = stream.receive_into(memoryview(space))
        if count == 0:
            break
        data += space[: count or 0]
    return bytes(data)


def _classify(data: bytes) -> Greeting | None:
    if data.startswith(b"HTTP/"):
        return Greeting.HTTP
    if len(data) >= 9 and data[0] == 0 and data[3] == _HTTP2_SETTINGS and data[5:9] == bytes(4):
        return Greeting.HTTP2
    return None
