"""Define what a request handler receives and what it returns.

A handler returns the response, None for a request that takes none, or `HELD` when the response follows later through
`ClientRequest.reply`. A `Refusal` that it raises becomes the response that the exception holds.
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
    """Marks a response that follows later."""

    HELD = "held"


HELD: Final = Held.HELD
HandlerResult = Command | Held | None
OnReply = Callable[[Command | None], None]
"""Takes a client's response to the broker's own request; None if the client left or did not respond in time."""


@dataclass(frozen=True, slots=True)
class ReplyFault:
    """A fault that is injected into a response on its way; the first field that is set counts."""

    drop: bool = False
    delay_ms: int = 0
    cut: bool = False
    """Send only half of the response and close the connection."""
    half_close: bool = False
    """Send nothing more on this connection, but go on reading."""
    trickle: bool = False
    """Send one byte at a time."""


class Channel(Protocol):
    """One client's connection, as the broker's state uses it."""

    @property
    def remote(self) -> Address:
        """Address of the client."""

    def reply(self, request: Command, response: Command, reply_fault: ReplyFault | None = None) -> None:
        """Respond to a request of the client, at once or later."""

    def send_oneway(self, code: RequestCode, header: Header | None = None, body: bytes = b"") -> None:
        """Send the client a request that takes no response."""

    def send_request(
        self, code: RequestCode, header: Header | None, body: bytes, on_reply: OnReply, timeout_ms: int
    ) -> None:
        """Send the client a request, and pass its response to `on_reply`."""

    def close(self) -> None:
        """End the connection."""


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """One request of a client."""

    command: Command
    channel: Channel
    reply_fault: ReplyFault | None = None

    def header(self, cls: type[H]) -> H:
        """Return the request's fields as a typed header."""
        return from_fields(cls, self.command.fields)

    @property
    def body(self) -> bytes:
        """The request's body."""
        return bytes(self.command.body)

    def reply(self, response: Command) -> None:
        """Send the response of a held request, unless the request takes none."""
        if not self.command.is_oneway:
            self.channel.reply(self.command, response, self.reply_fault)


class Refusal(Exception):
    """A response other than success."""

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
    """Build a response; the server adds opaque, emulated version and header form."""
    if isinstance(fields, Header):
        fields = to_fields(fields)
    return Command(code, fields=fields, body=body, remark=remark, flag=RESPONSE_FLAG, language=LanguageCode.JAVA)
