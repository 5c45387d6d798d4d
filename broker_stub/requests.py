"""Define what a request handler receives and what it returns.

A handler returns the response, None for a request that wants none, or `HELD` when the response follows later through
`Call.reply`. A `Refusal` that it raises becomes the response that the exception holds.
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
    """Says that an answer will come later."""

    HELD = "held"


HELD: Final = Held.HELD
HandlerResult = Command | Held | None
OnReply = Callable[[Command | None], None]
"""Takes a client's answer to the broker's own request; None if the client left or kept silent."""


@dataclass(frozen=True, slots=True)
class ReplyFault:
    """How an answer goes wrong on its way; the first that is set counts."""

    drop: bool = False
    delay_ms: int = 0
    cut: bool = False
    """Send only half of the answer and close the connection."""
    half_close: bool = False
    """Say nothing more on this connection, but go on listening."""
    trickle: bool = False
    """Send one byte at a time."""


class Channel(Protocol):
    """One client's connection, as far as the state needs it."""

    @property
    def remote(self) -> Address:
        """Where the client speaks from."""

    def reply(self, request: Command, answer: Command, reply_fault: ReplyFault | None = None) -> None:
        """Answer a request of the client, now or later."""

    def tell(self, code: RequestCode, header: Header | None = None, body: bytes = b"") -> None:
        """Send the client a request that wants no answer."""

    def ask(self, code: RequestCode, header: Header | None, body: bytes, on_reply: OnReply, timeout_ms: int) -> None:
        """Send the client a request; its answer is handed to `on_reply`."""

    def close(self) -> None:
        """End the connection."""


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """One request that arrived."""

    command: Command
    channel: Channel
    reply_fault: ReplyFault | None = None

    def header(self, cls: type[H]) -> H:
        """The request's fields as a typed header."""
        return from_fields(cls, self.command.fields)

    @property
    def body(self) -> bytes:
        """The request's body."""
        return bytes(self.command.body)

    def reply(self, answer: Command) -> None:
        """Give the answer of a held request; one that wants none gets none."""
        if not self.command.is_oneway:
            self.channel.reply(self.command, answer, self.reply_fault)


class Refusal(Exception):
    """An answer other than success, on its way to the caller."""

    def __init__(self, code: int, remark: str, fields: dict[str, str] | Header | None = None) -> None:
        super().__init__(remark)
        self.answer = answer(code, fields, remark=remark)


def answer(
    code: int = ResponseCode.SUCCESS,
    fields: dict[str, str] | Header | None = None,
    body: bytes | memoryview = b"",
    *,
    remark: str | None = None,
) -> Command:
    """An answer; the server adds what only it knows: the opaque, the emulated version, the header form."""
    if isinstance(fields, Header):
        fields = to_fields(fields)
    return Command(code, fields=fields, body=body, remark=remark, flag=RESPONSE_FLAG, language=LanguageCode.JAVA)
