"""Provide a plain client of the stub: the library's codec over one blocking socket."""

from __future__ import annotations

import socket
import ssl
from collections import deque
from dataclasses import replace
from types import TracebackType
from typing import Self

from pyspark_rocketmq.model import parse_address
from pyspark_rocketmq.wire.commands import (
    PullMessageRequestHeader,
    RequestHeader,
    SendMessageRequestHeaderV2,
    to_fields,
)
from pyspark_rocketmq.wire.header import Command, HeaderType
from pyspark_rocketmq.wire.session import Response, Session

TIMEOUT_S = 30.0


class RemotingClient:
    """A client with one blocking connection."""

    def __init__(self, address: str, tls: ssl.SSLContext | None = None) -> None:
        where = parse_address(address)
        plain = socket.create_connection(where, TIMEOUT_S)
        self.socket = tls.wrap_socket(plain, server_hostname=where.host) if tls else plain
        self.requests: deque[Command] = deque()
        """Requests of the broker that the test has not taken yet."""
        self._session = Session()
        self._answers: dict[int, Command] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()

    def ask(self, header: RequestHeader, body: bytes = b"") -> Command:
        """Send a request and return the response to it."""
        return self.response_to(self.send(Command(header.code, fields=to_fields(header), body=body)))

    def send(self, request: Command) -> int:
        """Send a request and return the opaque that it got; 0 for a one-way request."""
        self._session.header_type = request.header_type
        fields, body = request.fields, bytes(request.body)
        if request.is_oneway:
            self.socket.sendall(self._session.oneway(request.code, fields, body))
            return 0
        opaque, data = self._session.request(request.code, fields, body)
        self._session.header_type = HeaderType.JSON
        self.socket.sendall(data)
        return opaque

    def reply(self, request: Command, answer: Command) -> None:
        """Send a response to a request of the broker."""
        self.socket.sendall(self._session.reply(request, replace(answer)))

    def response_to(self, opaque: int) -> Command:
        """Wait for the response with this opaque and return it."""
        while opaque not in self._answers:
            self._receive()
        return self._answers.pop(opaque)

    def next_request(self) -> Command:
        """Wait for the broker's next request and return it."""
        while not self.requests:
            self._receive()
        return self.requests.popleft()

    def is_ended(self) -> bool:
        """Wait until the other side closes the connection; return False if it sends something instead."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def _receive(self) -> None:
        count = self.socket.recv_into(self._session.space())
        if not count:
            raise ConnectionResetError("the stub closed the connection")
        for event in self._session.received(count):
            if isinstance(event, Response):
                self._answers[event.opaque] = event.command
            else:
                self.requests.append(event.command)


def pull_of(topic: str, offset: int = 0, *, queue_id: int = 0, wait_ms: int = 0) -> PullMessageRequestHeader:
    """Return the header of an unfiltered pull from `offset` on; the broker may hold the pull for up to `wait_ms`."""
    return PullMessageRequestHeader(
        consumer_group="g",
        topic=topic,
        queue_id=queue_id,
        queue_offset=offset,
        max_msg_nums=32,
        sys_flag=6 if wait_ms else 4,
        commit_offset=0,
        suspend_timeout_millis=wait_ms,
        subscription="*",
        sub_version=0,
    )


def send_of(topic: str, properties: str = "", *, queue_id: int = 0, batch: bool = False) -> SendMessageRequestHeaderV2:
    """Return the header of a send to a queue."""
    return SendMessageRequestHeaderV2(
        producer_group="p",
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=queue_id,
        sys_flag=0,
        born_timestamp=1,
        flag=0,
        properties=properties,
        batch=batch,
    )
