"""Provide a channel that records the frames that a broker sends, for tests without sockets."""

from __future__ import annotations

from dataclasses import dataclass, field

from broker_stub.requests import OnReply, ReplyFault
from pyspark_rocketmq.model import Address
from pyspark_rocketmq.wire.codes import RequestCode
from pyspark_rocketmq.wire.commands import Header
from pyspark_rocketmq.wire.header import Command


@dataclass(eq=False)
class RecordingChannel:
    """A `Channel` that records responses, requests and one-way requests of a broker."""

    remote: Address = field(default_factory=lambda: Address("127.0.0.1", 50000))
    replies: list[Command] = field(default_factory=list)
    oneways: list[tuple[RequestCode, Header | None, bytes]] = field(default_factory=list)
    requests: list[tuple[RequestCode, Header | None, bytes, OnReply]] = field(default_factory=list)
    closed: bool = False

    def reply(self, request: Command, answer: Command, reply_fault: ReplyFault | None = None) -> None:
        """Record a response of the broker."""
        self.replies.append(answer)

    def send_oneway(self, code: RequestCode, header: Header | None = None, body: bytes = b"") -> None:
        """Record a one-way request of the broker."""
        self.oneways.append((code, header, body))

    def send_request(
        self, code: RequestCode, header: Header | None, body: bytes, on_reply: OnReply, timeout_ms: int
    ) -> None:
        """Record a request of the broker; the test responds by calling the recorded `on_reply`."""
        self.requests.append((code, header, body, on_reply))

    def close(self) -> None:
        """Record that the broker closed the connection."""
        self.closed = True

    def take_oneway_codes(self) -> list[RequestCode]:
        """Return the codes of the recorded one-way requests, and forget these requests."""
        codes = [code for code, _, _ in self.oneways]
        self.oneways.clear()
        return codes
