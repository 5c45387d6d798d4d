"""Which clients are known, and how is the proxy's word brought to them?

A client is known from its settings on, which it writes to the Telemetry stream, and from its heartbeats. The stream is
the only way to tell it something.
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
    """One gRPC client, or one call of it, as a broker sees it."""

    def __init__(
        self,
        remote: Address,
        on_response: Callable[[Command], None] = lambda answer: None,
        on_oneway: OnOneway = lambda code, header, body: None,
    ) -> None:
        self.remote = remote
        self._on_response = on_response
        self._on_oneway = on_oneway

    def reply(self, request: Command, answer: Command, reply_fault: ReplyFault | None = None) -> None:
        """Take an answer; there is no way between us on which it could go wrong."""
        self._on_response(answer)

    def tell(self, code: RequestCode, header: Header | None = None, body: bytes = b"") -> None:
        """Take what a broker tells."""
        self._on_oneway(code, header, body)

    def ask(self, code: RequestCode, header: Header | None, body: bytes, on_reply: OnReply, timeout_ms: int) -> None:
        """Say nothing: gRPC clients cannot answer what administrators ask."""
        on_reply(None)

    def close(self) -> None:
        """Nothing to close: the client comes back with its next call."""


@dataclass(slots=True, eq=False)
class Client:
    """One client."""

    client_id: str
    channel: ProxyChannel
    """As what brokers see it."""
    seen_ms: float
    settings: Any = None
    tell: WriteCommand | None = None
    """Writes a command to its Telemetry stream, if there is one."""


class Clients:
    """The clients of the door, by id."""

    def __init__(self, clock: Clock, expiry_ms: float) -> None:
        self.table: dict[str, Client] = {}
        self._clock = clock
        self._expiry_ms = expiry_ms

    def find_or_add(self, client_id: str, make_line: Callable[[], ProxyChannel]) -> Client:
        """A client that calls, known or new."""
        now = self._clock.elapsed_ms()
        client = self.table.setdefault(client_id, Client(client_id, make_line(), now))
        client.seen_ms = now
        return client

    def find(self, client_id: str) -> Client | None:
        """A client that is known."""
        return self.table.get(client_id)

    def forget(self, client_id: str) -> None:
        """A client has gone."""
        self.table.pop(client_id, None)

    def stream_ended(self, client_id: str, tell: WriteCommand) -> None:
        """A Telemetry stream has ended; another one of the same client may have begun."""
        client = self.table.get(client_id)
        if client and client.tell is tell:
            client.tell = None

    def is_alive(self, client_id: str) -> bool:
        """Whether a client was heard of lately."""
        client = self.table.get(client_id)
        return client is not None and self._clock.elapsed_ms() - client.seen_ms <= self._expiry_ms
