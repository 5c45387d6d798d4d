"""Send typed requests to single servers and return typed replies.

The fields of a request's header are sent as text: names get the namespace's prefix, the broker's name is added, and the
signature comes last. A response code that the caller does not accept raises an error, which names server, request,
topic, broker, queue and group.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, NamedTuple, TypeVar, cast

from ..broker_errors import error_for
from ..errors import RocketMQError, Where, located
from ..model import Address
from ..net.deadline import Deadline
from ..wire.bodies import Body, decode_body
from ..wire.codes import ResponseCode
from ..wire.commands import Header, RequestHeader, from_fields, to_fields
from ..wire.header import Command
from ..wire.value_classes import wire_name
from .links import Links
from .routes import MASTER_ID
from .settings import ClusterSettings
from .signing import sign

B = TypeVar("B", bound=Body)
H = TypeVar("H", bound=Header)

OK = frozenset({ResponseCode.SUCCESS})

_TOPICS = ("topic", "origin_topic")
_GROUPS = ("consumer_group", "producer_group", "group", "group_name")


class ServerRequest(NamedTuple):
    """A request to one server, with the user's names of topics and groups."""

    address: Address
    header: RequestHeader
    body: bytes = b""
    broker_name: str = ""
    broker_id: int = MASTER_ID

    def where(self) -> Where:
        """Return the values that errors about this request name: address, request, topic, broker, queue and group."""
        places: Where = {"address": str(self.address), "request": self.header.code.name}
        if topic := getattr(self.header, "topic", None):
            places["topic"] = topic
        if self.broker_name:
            places["broker"] = self.broker_name
        if (queue_id := getattr(self.header, "queue_id", None)) is not None:
            places["queue_id"] = queue_id
        if group := next(filter(None, (getattr(self.header, name, None) for name in _GROUPS)), None):
            places["group"] = group
        return places

    def command(self, settings: ClusterSettings) -> Command:
        """Return the request as it is sent, with namespace, broker name and signature."""
        sent = request_fields(settings, self.header, self.body, self.broker_name)
        return Command(self.header.code, fields=sent, body=self.body)


@dataclass(frozen=True, slots=True)
class Reply:
    """A server's response to a request."""

    request: ServerRequest
    command: Command

    def header(self, cls: type[H]) -> H:
        """Return the header fields of the response as an object of class `cls`; raise if they are missing or broken."""
        with located(self.request.where()):
            return from_fields(cls, self.command.fields)

    def body(self, cls: type[B]) -> B:
        """Return the JSON body of the response as an object of class `cls`; raise if it has another shape."""
        with located(self.request.where()):
            return decode_body(cls, self.command.body)


class Servers:
    """All servers of a cluster; each request is sent once, without repetition."""

    def __init__(self, settings: ClusterSettings, links: Links) -> None:
        self.settings = settings
        self._links = links

    def ask(self, request: ServerRequest, *, welcome: Collection[int] = OK, deadline: Deadline | None = None) -> Reply:
        """Send a request and return the reply; raise the error of its response code unless the code is in `welcome`."""
        with located(request.where()):
            command = self._links.call(request.address, request.command(self.settings), deadline)
        if command.code not in welcome:
            raise error_for(command.code, command.remark, **request.where())
        return Reply(request, command)

    def ask_all(
        self, requests: Sequence[ServerRequest], *, deadline: Deadline | None = None
    ) -> list[Reply | RocketMQError]:
        """Send many requests; return for each its reply, or its error instead of a reply."""
        commands = [(request.address, request.command(self.settings)) for request in requests]
        results = self._links.call_all(commands, deadline)
        return [_judge(request, result) for request, result in zip(requests, results, strict=True)]

    def tell(self, request: ServerRequest, deadline: Deadline | None = None) -> None:
        """Send a one-way request, which gets no reply."""
        with located(request.where()):
            self._links.tell(request.address, request.command(self.settings), deadline)


def request_fields(
    settings: ClusterSettings, header: RequestHeader, body: bytes = b"", broker_name: str = ""
) -> dict[str, str]:
    """Return all header fields of a request as text, as they are sent: with namespace, broker name and signature."""
    return signed(settings, header.code, unsigned_fields(settings, header, broker_name), body)


def signed(
    settings: ClusterSettings, code: int, fields: dict[str, str], body: bytes | memoryview = b""
) -> dict[str, str]:
    """Return header fields with a signature over all of them and the body; without credentials, the same fields."""
    return sign(settings.credentials, code, fields, body) if settings.credentials else fields


def unsigned_fields(settings: ClusterSettings, header: RequestHeader, broker_name: str = "") -> dict[str, str]:
    """Return the header fields of a request without a signature, for callers that change some before they sign."""
    sent = to_fields(header) | settings.namespace.fields()
    for name in _wrapped_names(cast(Any, type(header))):
        if name in sent:
            sent[name] = settings.namespace.wrap(sent[name])
    if broker_name:
        sent.setdefault(wire_name(type(header), "bname"), broker_name)
    return sent


def _judge(request: ServerRequest, result: Command | RocketMQError) -> Reply | RocketMQError:
    """Return the reply to a request, given its response; if that has an error code, return an error.

    If `result` is an error already, return a copy that names this request, since many requests can share one error.
    """
    if isinstance(result, RocketMQError):
        own = copy.copy(result).locate(**request.where())
        own.__cause__ = result.__cause__
        return own
    if result.code not in OK:
        return error_for(result.code, result.remark, **request.where())
    return Reply(request, result)


@cache
def _wrapped_names(cls: Any) -> tuple[str, ...]:
    """Return the wire names of those header fields that hold a topic or group, and thus get the namespace."""
    return tuple(wire_name(cls, field.name) for field in fields(cls) if field.name in (*_TOPICS, *_GROUPS))
