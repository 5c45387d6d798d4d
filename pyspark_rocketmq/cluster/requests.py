"""What does a server get to see of our question, and what does its answer mean to us?

Outwards, a typed header becomes text fields: names are wrapped into the namespace, the broker's name is added, and
last of all the request is signed. Inwards, a response code that is not among the welcome ones becomes its error, which
names server, request, topic, queue and group.
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
from ..wire.members import wire_name
from .links import Call, Links, Outcome
from .routes import MASTER_ID
from .settings import ClusterSettings
from .signing import sign

B = TypeVar("B", bound=Body)
H = TypeVar("H", bound=Header)

OK = frozenset({ResponseCode.SUCCESS})

_TOPICS = ("topic", "origin_topic")
_GROUPS = ("consumer_group", "producer_group", "group", "group_name")


class Question(NamedTuple):
    """A request to one server, in our words."""

    address: Address
    header: RequestHeader
    body: bytes = b""
    broker_name: str = ""
    broker_id: int = MASTER_ID

    def where(self) -> Where:
        """The places that an error about this question can name."""
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


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server said to a question."""

    question: Question
    command: Command

    def header(self, cls: type[H]) -> H:
        """Its header fields."""
        with located(self.question.where()):
            return from_fields(cls, self.command.fields)

    def body(self, cls: type[B]) -> B:
        """Its JSON body."""
        with located(self.question.where()):
            return decode_body(cls, self.command.body)


class Requests:
    """Asks servers questions in our words, once each."""

    def __init__(self, settings: ClusterSettings, links: Links) -> None:
        self.settings = settings
        self._links = links

    def ask(self, question: Question, *, welcome: Collection[int] = OK, deadline: Deadline | None = None) -> Answer:
        """The answer, if its code is welcome."""
        with located(question.where()):
            command = self._links.call(self._call(question), deadline)
        if command.code not in welcome:
            raise error_for(command.code, command.remark, **question.where())
        return Answer(question, command)

    def ask_all(
        self, questions: Sequence[Question], *, deadline: Deadline | None = None
    ) -> list[Answer | RocketMQError]:
        """For each question its answer, or the error in its place."""
        outcomes = self._links.call_all([self._call(question) for question in questions], deadline)
        return [_judged(question, outcome) for question, outcome in zip(questions, outcomes, strict=True)]

    def tell(self, question: Question, deadline: Deadline | None = None) -> None:
        """Send a question that wants no answer."""
        with located(question.where()):
            self._links.tell(self._call(question), deadline)

    def _call(self, question: Question) -> Call:
        given = request_fields(self.settings, question.header, question.body, question.broker_name)
        return Call(question.address, question.header.code, given, question.body)


def request_fields(
    settings: ClusterSettings, header: RequestHeader, body: bytes = b"", broker_name: str = ""
) -> dict[str, str]:
    """All fields that a request carries, in their final form."""
    return signed(settings, header.code, unsigned_fields(settings, header, broker_name), body)


def signed(settings: ClusterSettings, code: int, fields: dict[str, str], body: bytes = b"") -> dict[str, str]:
    """The fields with a signature over all of them, if the cluster asks for one."""
    return sign(settings.credentials, code, fields, body) if settings.credentials else fields


def unsigned_fields(settings: ClusterSettings, header: RequestHeader, broker_name: str = "") -> dict[str, str]:
    """The same without a signature, for who changes some of them before each request and signs it then."""
    given = to_fields(header) | settings.namespace.fields()
    for name in _wrapped_names(cast(Any, type(header))):
        if name in given:
            given[name] = settings.namespace.wrap(given[name])
    if broker_name:
        given.setdefault(wire_name(type(header), "bname"), broker_name)
    return given


def _judged(question: Question, outcome: Outcome) -> Answer | RocketMQError:
    """An error that ended many questions becomes one's own."""
    if isinstance(outcome, RocketMQError):
        own = copy.copy(outcome).locate(**question.where())
        own.__cause__ = outcome.__cause__
        return own
    if outcome.code not in OK:
        return error_for(outcome.code, outcome.remark, **question.where())
    return Answer(question, outcome)


@cache
def _wrapped_names(cls: Any) -> tuple[str, ...]:
    """Wire names of the fields that hold a topic or a group."""
    return tuple(wire_name(cls, field.name) for field in fields(cls) if field.name in (*_TOPICS, *_GROUPS))
