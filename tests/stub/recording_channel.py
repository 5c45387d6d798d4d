"""A client's connection that keeps what the broker sends, for tests of the state without sockets."""

from __future__ import annotations

from dataclasses import dataclass, field

from broker_stub.requests import OnReply, ReplyFault
from pyspark_rocketmq.model import Address
from pyspark_rocketmq.wire.codes import RequestCode
from pyspark_rocketmq.wire.commands import Header
from pyspark_rocketmq.wire.header import Command


@dataclass(eq=False)
class RecordingChannel:
    """Keeps replies, requests that want an answer and requests that do not; `close` only takes note."""

    remote: Address = field(default_factory=lambda: Address("127.0.0.1", 50000))
    replies: list[Command] = field(default_factory=list)
    oneways: list[tuple[RequestCode, Header | None, bytes]] = field(default_factory=list)
    requests: list[tuple[RequestCode, Header | None, bytes, OnReply]] = field(default_factory=list)
    closed: bool = False

    def reply(self, request: Command, answer: Command, reply_fault: ReplyFault | None = None) -> None:
        """Take the answer of a held request."""
        self.replies.append(answer)

    def send_oneway(self, code: RequestCode, header: Header | None = None, body: bytes = b"") -> None:
        """Take a request that wants no answer."""
        self.oneways.append((code, header, body))

    def send_request(
        self, code: RequestCode, header: Header | None, body: bytes, on_reply: OnReply, timeout_ms: int
    ) -> None:
        """Take a request; the test answers by the `on_reply` that is kept with it."""
        self.requests.append((code, header, body, on_reply))

    def close(self) -> None:
        """Take note that the broker closed the connection."""
        self.closed = True

    def take_oneway_codes(self) -> list[RequestCode]:
        """The codes of what was told so far, which is thereby forgotten."""
        codes = [code for code, _, _ in self.oneways]
        self.oneways.clear()
        return codes
