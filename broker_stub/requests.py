"""Define what a request handler receives and what it returns.

A handler returns the response, None for a request that gets no response, or `HELD` if the response follows later
through `ClientRequest.reply`. If it raises a `Refusal`, the response in this exception is sent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol, TypeVar

from pyspark_rocketmq.model import Address
from pyspark_rocketmq.wire.codes import LanguageCode, RequestCode, ResponseCode
from pyspark_rocketmq.wire.commands import Header, from_fields, to_fields
from pyspark_rocketmq.wire.header import RESPONSE_FLAG, Command

H = TypeVar("H", bound=Header)


class Held(Enum):
    """Type of `HELD`, which a handler returns if its response follows later."""

    HELD = "held"


HELD: Final = Held.HELD
HandlerResult = Command | Held | None
OnReply = Callable[[Command | None], None]
"""Called with the client's response to a request of the broker; None if the client left or did not respond in time."""


@dataclass(frozen=True, slots=True)
class ReplyFault:
    """A fault that the stub injects into a response; exactly one field is set."""

    drop: bool = False
    delay_ms: int = 0
    cut: bool = False
    """Send only half of the response and close the connection."""
    half_close: bool = False
    """Send nothing more on this connection, but go on reading."""
    trickle: bool = False
    """Send the response one byte at a time."""


class Channel(Protocol):
    """The connection to one client, as handlers and the broker's state use it."""

    @property
    def remote(self) -> Address:
        """Address of the client."""

    def reply(self, request: Command, response: Command, reply_fault: ReplyFault | None = None) -> None:
        """Send the response to a request of the client, with a fault if one is given."""

    def send_oneway(self, code: RequestCode, header: Header | None = None, body: bytes = b"") -> None:
        """Send the client a one-way request, to which it does not respond."""

    def send_request(
        self, code: RequestCode, header: Header | None, body: bytes, on_reply: OnReply, timeout_ms: int
    ) -> None:
        """Send the client a request; `on_reply` gets its response, or None if it leaves or `timeout_ms` pass."""

    def close(self) -> None:
        """Close the connection."""


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """A request that a client has sent."""

    command: Command
    channel: Channel
    reply_fault: ReplyFault | None = None

    def header(self, cls: type[H]) -> H:
        """Return the request's fields as a typed header of class `cls`."""
        return from_fields(cls, self.command.fields)

    @property
    def body(self) -> bytes:
        """The body of the request."""
        return bytes(self.command.body)

    def reply(self, response: Command) -> None:
        """Send the response to this request, with its fault if it has one; do nothing if the request is one-way."""
        if not self.command.is_oneway:
            self.channel.reply(self.command, response, self.reply_fault)


class Refusal(Exception):
    """Raised by a handler to respond with an error; it contains the response."""

    def __init__(self, code: int, remark: str, fields: dict[str, str] | Header | None = None) -> None:
        super().__init__(remark)
        self.response = response(code, fields, remark=remark)


def response(
    code: int = ResponseCode.SUCCESS,
    fields: dict[str, str] | Header | None = None,
    body: bytes | memoryview = b"",
    *,
    remark: str | None = None,
) -> Command:
    """Return a response with this code, fields, body and remark.

    Opaque, version and header form of the response are set by the connection that sends it.
    """
    if isinstance(fields, Header):
        fields = to_fields(fields)
    return Command(code, fields=fields, body=body, remark=remark, flag=RESPONSE_FLAG, language=LanguageCode.JAVA)
