"""Keep the gRPC clients, and the channels that brokers see for them.

A client is known after its settings, which it writes to the Telemetry stream, or after a heartbeat. Only through that
stream can the proxy send it commands.
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
    """A gRPC client, or one of its calls, as a broker's `Channel`."""

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
        """Pass a response on; the fault injector of the proxy acts elsewhere."""
        self._on_response(response)

    def send_oneway(self, code: RequestCode, header: Header | None = None, body: bytes = b"") -> None:
        """Pass on a request that takes no response."""
        self._on_oneway(code, header, body)

    def send_request(
        self, code: RequestCode, header: Header | None, body: bytes, on_reply: OnReply, timeout_ms: int
    ) -> None:
        """Respond with None at once: gRPC clients cannot answer administrators' requests."""
        on_reply(None)

    def close(self) -> None:
        """Do nothing: there is no connection to close."""


@dataclass(slots=True, eq=False)
class Client:
    """One gRPC client."""

    client_id: str
    channel: ProxyChannel
    """The channel that brokers see."""
    seen_ms: float
    settings: Any = None
    write_command: WriteCommand | None = None
    """Writes a command to its Telemetry stream; None without a stream."""


class Clients:
    """The clients of the proxy, by id."""

    def __init__(self, clock: Clock, expiry_ms: float) -> None:
        self.table: dict[str, Client] = {}
        self._clock = clock
        self._expiry_ms = expiry_ms

    def find_or_add(self, client_id: str, make_line: Callable[[], ProxyChannel]) -> Client:
        """Return the calling client, adding it if it is unknown."""
        now = self._clock.elapsed_ms()
        client = self.table.setdefault(client_id, Client(client_id, make_line(), now))
        client.seen_ms = now
        return client

    def find(self, client_id: str) -> Client | None:
        """Return a client; None if it is unknown."""
        return self.table.get(client_id)

    def forget(self, client_id: str) -> None:
        """Remove a client."""
        self.table.pop(client_id, None)

    def stream_ended(self, client_id: str, write_command: WriteCommand) -> None:
        """Forget an ended Telemetry stream, unless the client has opened another one since."""
        client = self.table.get(client_id)
        if client and client.write_command is write_command:
            client.write_command = None

    def is_alive(self, client_id: str) -> bool:
        """Return whether a client called lately."""
        client = self.table.get(client_id)
        return client is not None and self._clock.elapsed_ms() - client.seen_ms <= self._expiry_ms
