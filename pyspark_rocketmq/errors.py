"""Define every error that the library raises on purpose, and what a caller may do about it.

    RocketMQError                      stable `code`, flags `retriable` and `refresh_routes`
    ├─ OptionError (ValueError)        a setting of the user
    ├─ ProtocolError                   AnswerMismatch
    │  ├─ LocalProtocolError           this side was about to break the protocol
    │  └─ RemoteProtocolError          the peer broke it: MalformedFrame, FrameTooLarge, UnexpectedReply, Flooded,
    │                                  LimitExceeded
    ├─ TransportError    [retriable]   ConnectError, ConnectionLost, RequestTimeout (TimeoutError)
    ├─ RouteError   [refresh_routes]   TopicNotFound, TopicUnconfirmed, QueueMoved, NoBrokerAvailable,
    │                                  StaticTopicUnsupported, AddressNotAllowed
    ├─ BrokerError                     a response code that is not success; leaves in `broker_errors`
    ├─ GroupError                      GroupInUse, GroupReadTwice, LockRefused
    ├─ SparkSetupError                 a PySpark or Python that Spark cannot run the source with
    ├─ ExtraMissing                    packages of an extra that are not installed
    ├─ PlanTooLarge                    a batch of too many tasks
    ├─ NoPullApi                       a gRPC server without pulling
    ├─ DataLossError                   OffsetBeforeEarliest, OffsetBeyondEnd, OffsetWentBack, QueueVanished,
    │                                  MessagesMissing
    ├─ DecodeError                     a stored message that cannot be read
    ├─ ColumnError (ValueError)        a DataFrame that cannot be written
    ├─ WriteError                      a Spark task that could not write all its rows: BadRow
    ├─ SendError                       messages that landed, failed, or have an unknown fate
    └─ SendBackError                   rows that brokers did not take back

Only the text of an error is sure to cross from a Spark worker to the driver. So the text is built from the fields: it
opens with the code, states what happened and where, and ends with advice. Retry loops read the two flags and never list
classes. Every error survives pickling.

Servers send remarks, names and client ids of any length and with any characters. `shown` returns such a text as one
line of limited length. Errors and queues apply it when they become text; log lines call it for other texts of servers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Self, TypedDict, Unpack

MOST_NAME, MOST_REMARK, MOST_TEXT = 255, 1_000, 2_000
"""Limits of a name, of a remark, and of any other text in errors and logs, in characters."""


def shown(text: str, most: int = MOST_NAME) -> str:
    """Return a text as errors and logs show it: control characters escaped, and cut to `most` characters.

    Escaped are also line separators, marks that change the direction of text, and lone surrogates.
    """
    if len(text) <= most and text.isprintable():
        return text
    line = "".join(map(_escape, text[:most]))
    if max(len(text), len(line)) <= most:
        return line
    count = f"… ({len(text)} characters)"
    return line[: most - len(count)] + count


def _escape(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode("ascii")


class Where(TypedDict, total=False):
    """The parts of the system that an error can name, in the order of its text."""

    address: str
    request: str
    topic: str
    broker: str
    queue_id: int
    offset: int
    group: str


class RocketMQError(Exception):
    """Base of all errors that this library raises on purpose."""

    code: ClassVar[str] = "ROCKETMQ"
    retriable: ClassVar[bool] = False
    refresh_routes: ClassVar[bool] = False

    def __init__(self, what: str, *, advice: str = "", **where: Unpack[Where]) -> None:
        super().__init__(what)
        self.what = what
        self.advice = advice
        self.where = where

    def locate(self, **where: Unpack[Where]) -> Self:
        """Add parts (topic, broker, ...) to the error's text unless it names them already, and return this error."""
        self.where = {**where, **self.where}
        return self

    def __str__(self) -> str:
        named = {name: shown(str(place)) for name, place in self.where.items()}
        places = [f"{name.removesuffix('_id')} {named[name]}" for name in Where.__annotations__ if name in named]
        where = f" ({', '.join(places)})" if places else ""
        advice = f"; {shown(self.advice, MOST_TEXT)}" if self.advice else ""
        return f"[{self.code}] {shown(self.what, MOST_TEXT)}{where}{advice}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, self.__dict__.copy())


@contextmanager
def located(where: Where) -> Iterator[None]:
    """Add parts (topic, broker, ...) to the text of a library error that the `with` block raises."""
    try:
        yield
    except RocketMQError as error:
        error.locate(**where)
        raise


def _rebuild(cls: type[RocketMQError], args: tuple[Any, ...], state: dict[str, Any]) -> RocketMQError:
    """Return an unpickled error without calling its constructor, since the constructors of the classes differ."""
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(state)
    return error


class OptionError(RocketMQError, ValueError):
    """A wrong setting. The text is `[CODE] option = 'value': what is wrong; what is accepted`."""

    code = "OPTION_VALUE"

    def __init__(
        self, option: str, value: str | None, what: str, *, advice: str = "", code: str = "OPTION_VALUE"
    ) -> None:
        given = option if value is None else f"{option} = '{shown(value, MOST_REMARK)}'"
        super().__init__(f"{given}: {what}", advice=advice)
        self.option = option
        self.value = value
        self.code = code  # type: ignore[misc]  # one class, six documented codes


class ProtocolError(RocketMQError):
    """A breach of the protocol."""

    code = "PROTOCOL"


class LocalProtocolError(ProtocolError):
    """An illegal request that was not sent; the connection is unharmed."""

    code = "LOCAL_PROTOCOL"


class RemoteProtocolError(ProtocolError):
    """Illegal data from the peer, after which the connection cannot be trusted."""

    code = "REMOTE_PROTOCOL"
    retriable = True


class MalformedFrame(RemoteProtocolError):
    """Bytes that are no frame: lengths, header type or header text are wrong."""

    code = "MALFORMED_FRAME"


class FrameTooLarge(RemoteProtocolError):
    """A frame above `maxFrameSize`."""

    code = "FRAME_TOO_LARGE"
    retriable = False


class UnexpectedReply(RemoteProtocolError):
    """A reply to a request that was never sent on this connection."""

    code = "UNEXPECTED_REPLY"


class Flooded(RemoteProtocolError):
    """More frames from the peer than were requested, or more requests than can be served."""

    code = "FLOODED"


class LimitExceeded(RemoteProtocolError):
    """Data from the peer that exceeds a limit, for example the number of brokers in a reply."""

    code = "LIMIT_EXCEEDED"
    retriable = False


class AnswerMismatch(ProtocolError):
    """A response with other messages than requested: of another queue, out of order, or twice."""

    code = "ANSWER_MISMATCH"


class TransportError(RocketMQError):
    """A failure to carry bytes."""

    code = "TRANSPORT"
    retriable = True
    refresh_routes = True


class ConnectError(TransportError):
    """A connection that could not be made (refused, unreachable, TLS handshake failed)."""

    code = "CONNECT"


class ConnectionLost(TransportError):
    """An open connection that ended."""

    code = "CONNECTION_LOST"


class RequestTimeout(TransportError, TimeoutError):
    """A response that did not arrive before the deadline; the request may have been carried out."""

    code = "REQUEST_TIMEOUT"
    is_silent = False
    """Whether its connection has brought no byte at all since the request was sent, as if the server stood still."""


class RouteError(RocketMQError):
    """A route that does not allow the request."""

    code = "ROUTE"
    refresh_routes = True


class TopicNotFound(RouteError):
    """A topic that no name server knows."""

    code = "TOPIC_NOT_FOUND"


class TopicUnconfirmed(RouteError):
    """A topic that some name servers do not know, while others, which may know it, do not reply."""

    code = "TOPIC_UNCONFIRMED"
    retriable = True


UNKNOWN_TOPIC = (TopicNotFound, TopicUnconfirmed)
"""The errors of a topic that no name server knows, or none of those that reply."""


class QueueMoved(RouteError):
    """A queue that is not where the route says."""

    code = "QUEUE_MOVED"
    retriable = True


class NoBrokerAvailable(RouteError):
    """A request that no process of a broker can serve now."""

    code = "NO_BROKER_AVAILABLE"
    retriable = True


class StaticTopicUnsupported(RouteError):
    """A topic with logical queue mapping, whose offsets would be misread."""

    code = "STATIC_TOPIC_UNSUPPORTED"
    refresh_routes = False


class AddressNotAllowed(RouteError):
    """An address that `allowedBrokers` does not list, to which no connection is opened."""

    code = "ADDRESS_NOT_ALLOWED"


class BrokerError(RocketMQError):
    """A response code other than success; the text has the server's remark, escaped and cut to a limited length."""

    code = "BROKER"
    response_code: int = -1

    def __init__(
        self, remark: str | None, *, response_code: int | None = None, advice: str = "", **where: Unpack[Where]
    ) -> None:
        if response_code is not None:
            self.response_code = response_code
        self.remark = remark
        """The remark as the server sent it: of any length, with any characters. Apply `shown` before you log it."""
        text = shown(remark, MOST_REMARK) if remark else "no remark"
        super().__init__(f"response code {self.response_code}: {text}", advice=advice, **where)


class GroupError(RocketMQError):
    """Something that a consumer group does not allow."""

    code = "GROUP"


class GroupInUse(GroupError):
    """A commit for a group that has live members: it would overwrite their positions."""

    code = "GROUP_IN_USE"


class GroupReadTwice(GroupError):
    """Another read on this host that commits positions of the same queues for the group."""

    code = "GROUP_READ_TWICE"


class LockRefused(GroupError):
    """A queue's lock that another client holds at the broker."""

    code = "LOCK_REFUSED"
    retriable = True


class SparkSetupError(RocketMQError):
    """A release of PySpark, or a Python of Spark's processes, with which the source cannot run."""

    code = "SPARK_SETUP"


class ExtraMissing(RocketMQError):
    """Packages that a part of the library needs, and that are not installed."""

    code = "EXTRA_MISSING"


class PlanTooLarge(RocketMQError):
    """A batch of more tasks than Spark can schedule."""

    code = "PLAN_TOO_LARGE"


class NoPullApi(RocketMQError):
    """A server that speaks the RocketMQ 5 gRPC API but does not implement pulling."""

    code = "NO_PULL_API"


class DataLossError(RocketMQError):
    """Loss: messages that should be read are gone."""

    code = "DATA_LOSS"


class OffsetBeforeEarliest(DataLossError):
    """A position below the queue's minimum offset, because retention has deleted messages."""

    code = "OFFSET_BEFORE_EARLIEST"


class OffsetBeyondEnd(DataLossError):
    """A position above the queue's maximum offset, because the topic was created again or a broker was restored."""

    code = "OFFSET_BEYOND_END"


class OffsetWentBack(DataLossError):
    """A planned end above the queue's maximum, because the maximum fell."""

    code = "OFFSET_WENT_BACK"


class QueueVanished(DataLossError):
    """A queue that left the route before its planned messages were read."""

    code = "QUEUE_VANISHED"


class MessagesMissing(DataLossError):
    """Messages missing within a range that a broker claims to hold."""

    code = "MESSAGES_MISSING"


class DecodeError(RocketMQError):
    """A stored message, or a part of it, that cannot be read."""

    code = "DECODE"


class ColumnError(RocketMQError, ValueError):
    """A DataFrame to be written that lacks a column, or has one that cannot be written."""

    code = "SINK_COLUMN"


class WriteError(RocketMQError):
    """A Spark task that could not write all its rows; the numbers add up to the rows that it had taken by then."""

    code = "SINK_WRITE"

    def __init__(
        self,
        what: str,
        *,
        landed: int = 0,
        failed: int = 0,
        unknown: int = 0,
        dead_letters: int = 0,
        dropped: int = 0,
        advice: str = "",
        **where: Unpack[Where],
    ) -> None:
        counts = f"{landed} rows of the task landed, {failed} did not, {unknown} may have"
        counts += f", {dead_letters} became dead letters" * bool(dead_letters)
        counts += f", {dropped} were dropped" * bool(dropped)
        super().__init__(f"{what}: {counts}", advice=advice, **where)
        self.landed, self.failed, self.unknown = landed, failed, unknown
        self.dead_letters, self.dropped = dead_letters, dropped


class BadRow(WriteError):
    """A row that no broker would take, or that a broker refused for good."""

    code = "SINK_ROW"


class SendError(RocketMQError):
    """A send that failed in part or in whole; messages are numbered from 0, in the order in which they were given."""

    code = "SEND"

    def __init__(
        self,
        what: str,
        *,
        landed: Sequence[int] = (),
        failed: Sequence[int] = (),
        unknown: Sequence[int] = (),
        advice: str = "",
        **where: Unpack[Where],
    ) -> None:
        counts = f"{len(landed)} landed, {len(failed)} failed, {len(unknown)} unknown"
        super().__init__(f"{what}: {counts}", advice=advice, **where)
        self.landed, self.failed, self.unknown = tuple(landed), tuple(failed), tuple(unknown)


class SendBackError(RocketMQError):
    """Rows that were sent back for redelivery, and that brokers did not accept."""

    code = "SEND_BACK"

    def __init__(
        self, what: str, *, counts: Mapping[str, int] | None = None, advice: str = "", **where: Unpack[Where]
    ) -> None:
        super().__init__(what, advice=advice, **where)
        self.counts = dict(counts or {})
        """Number of rows that were not taken back, by broker name."""
