"""Keep the known gRPC clients, and the channels through which brokers reach them.

The proxy knows a client once it has written settings to its Telemetry stream or sent a heartbeat. The proxy can send
commands to a client only through that stream.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark_rocketmq.model import Address
from pyspark_rocketmq.wire.codes import RequestCode
from pyspark_rocketmq.wire.commands import Header
from pyspark_rocketmq.wire.header import Command

from ..clock import Clock
from ..requests import OnReply, ReplyFault

WriteCommand = Callable[[Any], None]
OnOneway = Callable[[RequestCode, Header | None, bytes], None]


class ProxyChannel:
    """The `Channel` by which a broker responds to a gRPC call, or sends one-way requests to a gRPC client."""

    def __init__(
        self,
        remote: Address,
        on_response: Callable[[Command], None] = lambda response: None,
        on_oneway: OnOneway = lambda code, header, body: None,
    ) -> None:
        self.remote = remote
        self._on_response = on_response
        self._on_oneway = on_oneway

    def reply(self, request: Command, response: Command, reply_fault: ReplyFault | None = None) -> None:
        """Pass the broker's response to the gRPC call; ignore the fault: `FaultInjector` makes those of gRPC calls."""
        self._on_response(response)

    def send_oneway(self, code: RequestCode, header: Header | None = None, body: bytes = b"") -> None:
        """Pass a one-way request of the broker to the function that the constructor got for these."""
        self._on_oneway(code, header, body)

    def send_request(
        self, code: RequestCode, header: Header | None, body: bytes, on_reply: OnReply, timeout_ms: int
    ) -> None:
        """Call `on_reply` with None at once, because a gRPC client cannot respond to a broker's request."""
        on_reply(None)

    def close(self) -> None:
        """Do nothing, because there is no connection to close."""


@dataclass(slots=True, eq=False)
class Client:
    """A gRPC client that the proxy knows."""

    client_id: str
    channel: ProxyChannel
    """The channel through which brokers reach the client."""
    seen_ms: float
    settings: Any = None
    write_command: WriteCommand | None = None
    """Writes a command to the client's Telemetry stream; None if no stream is open."""


class Clients:
    """The known gRPC clients, by client id."""

    def __init__(self, clock: Clock, expiry_ms: float) -> None:
        self.table: dict[str, Client] = {}
        self._clock = clock
        self._expiry_ms = expiry_ms

    def find_or_add(self, client_id: str, make_line: Callable[[], ProxyChannel]) -> Client:
        """Return the client with this id and record the time of this call; add the client if it is unknown.

        `make_line` returns the channel for a new client.
        """
        now = self._clock.elapsed_ms()
        client = self.table.setdefault(client_id, Client(client_id, make_line(), now))
        client.seen_ms = now
        return client

    def find(self, client_id: str) -> Client | None:
        """Return the client with this id; None if it is unknown."""
        return self.table.get(client_id)

    def forget(self, client_id: str) -> None:
        """Remove the client with this id."""
        self.table.pop(client_id, None)

    def stream_ended(self, client_id: str, write_command: WriteCommand) -> None:
        """Forget a client's ended Telemetry stream; do nothing if the client has opened another one since."""
        client = self.table.get(client_id)
        if client and client.write_command is write_command:
            client.write_command = None

    def is_alive(self, client_id: str) -> bool:
        """Return whether the proxy knows the client and was called by it within the expiry time."""
        client = self.table.get(client_id)
        return client is not None and self._clock.elapsed_ms() - client.seen_ms <= self._expiry_ms
