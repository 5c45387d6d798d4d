"""Which requests does the stub answer, and with which function?

A handler is registered under the request's real code and knows no sockets:

    @handles(RequestCode.GET_MAX_OFFSET)
    def get_max_offset(broker: Broker, call: Call) -> Answer: ...

It returns the answer, None for a request that wants none, or `HELD` when the answer comes later through `call.reply`.
A `Refusal` raised on the way becomes the answer it holds. Handlers run one at a time, in one thread.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from pyspark_rocketmq.model import Address
from pyspark_rocketmq.wire.codes import LanguageCode, RequestCode, ResponseCode
from pyspark_rocketmq.wire.commands import Header, from_fields, to_fields
from pyspark_rocketmq.wire.header import RESPONSE_FLAG, Command

from .codes import AdminCode

if TYPE_CHECKING:
    from .state import Broker, Cluster

H = TypeVar("H", bound=Header)
S = TypeVar("S")


class Held(Enum):
    """Says that an answer will come later."""

    HELD = "held"


HELD: Final = Held.HELD
Answer = Command | Held | None
OnReply = Callable[[Command | None], None]
"""Takes a client's answer to the broker's own request; None if the client left or kept silent."""


@dataclass(frozen=True, slots=True)
class Manner:
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

    def reply(self, request: Command, answer: Command, manner: Manner | None = None) -> None:
        """Answer a request of the client, now or later."""

    def tell(self, code: RequestCode, header: Header | None = None, body: bytes = b"") -> None:
        """Send the client a request that wants no answer."""

    def ask(self, code: RequestCode, header: Header | None, body: bytes, on_reply: OnReply, timeout_ms: int) -> None:
        """Send the client a request; its answer is handed to `on_reply`."""

    def close(self) -> None:
        """End the connection."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request that arrived."""

    command: Command
    channel: Channel
    manner: Manner | None = None

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
            self.channel.reply(self.command, answer, self.manner)


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


Handler = Callable[[S, Call], Answer]


class Registry(Generic[S]):
    """The handlers of one role, by request code."""

    def __init__(self, role: str) -> None:
        self.role = role
        self.handlers: dict[int, Handler[S]] = {}

    def handles(
        self, *codes: RequestCode | AdminCode
    ) -> Callable[[Callable[[S, Call], Answer]], Callable[[S, Call], Answer]]:
        """Register a function for these request codes; a code has one handler."""

        def register(handler: Handler[S]) -> Handler[S]:
            for code in codes:
                if code in self.handlers:
                    raise ValueError(f"{code.name} has a handler already: {self.handlers[code].__qualname__}")
                self.handlers[code] = handler
            return handler

        return register


BROKER: Registry[Broker] = Registry("broker")
NAME_SERVER: Registry[Cluster] = Registry("name server")
handles = BROKER.handles
handles_as_name_server = NAME_SERVER.handles


def load_handlers() -> tuple[Registry[Broker], Registry[Cluster]]:
    """Both registries, with every handler module imported."""
    from . import handlers

    for module in pkgutil.iter_modules(handlers.__path__, f"{handlers.__name__}."):
        importlib.import_module(module.name)
    return BROKER, NAME_SERVER
