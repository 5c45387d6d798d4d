"""Send one request over a new connection, and return the response.

This is the simplest possible client: our wire codec over one blocking socket. Tests use it to prepare servers and to
see whether they are ready; it is not under test.
"""

from __future__ import annotations

import socket
import ssl

from pyspark_rocketmq.model import Address
from pyspark_rocketmq.wire.header import Command
from pyspark_rocketmq.wire.session import Response, Session


def ask(
    address: Address,
    code: int,
    fields: dict[str, str] | None = None,
    body: bytes = b"",
    *,
    tls: ssl.SSLContext | None = None,
    timeout_s: float = 20,
) -> Command:
    """Send one request over a new connection and return its response; raise `OSError` if there is none."""
    with Caller(address, tls=tls, timeout_s=timeout_s) as caller:
        return caller.ask(code, fields, body)


class Caller:
    """A connection that sends one request at a time."""

    def __init__(self, address: Address, *, tls: ssl.SSLContext | None = None, timeout_s: float = 20) -> None:
        plain = socket.create_connection(address, timeout_s)
        self._socket = tls.wrap_socket(plain, server_hostname=address.host) if tls else plain
        self._session = Session()

    def __enter__(self) -> Caller:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, code: int, fields: dict[str, str] | None = None, body: bytes = b"") -> Command:
        """Send one request and return its response; raise `OSError` if the server closes the connection."""
        opaque, data = self._session.request(code, fields, body)
        self._socket.sendall(data)
        while received := self._socket.recv_into(self._session.space()):
            for event in self._session.received(received):
                if isinstance(event, Response) and event.opaque == opaque:
                    return event.command
        raise ConnectionResetError("the server closed the connection before it answered")
