"""What can go wrong, and what may a caller do about it?

    RocketMQError                      stable `code`, flags `retriable` and `refresh_routes`
    ├─ OptionError (ValueError)        a setting of the user
    ├─ ProtocolError                   AnswerMismatch
    │  ├─ LocalProtocolError           we were about to break the protocol
    │  └─ RemoteProtocolError          the peer did: MalformedFrame, FrameTooLarge, UnexpectedReply, Flooded,
    │                                  LimitExceeded
    ├─ TransportError    [retriable]   ConnectError, ConnectionLost, RequestTimeout (TimeoutError)
    ├─ RouteError   [refresh_routes]   TopicNotFound, QueueMoved, NoBrokerAvailable, StaticTopicUnsupported
    ├─ BrokerError                     a response code that is not success; leaves in `broker_errors`
    ├─ GroupError                      GroupInUse, GroupReadTwice, LockRefused
    ├─ PlanTooLarge                    a batch of too many tasks
    ├─ NoPullApi                       the server speaks gRPC without pulling
    ├─ DataLossError                   OffsetBeforeEarliest, OffsetBeyondEnd, OffsetWentBack, QueueVanished,
    │                                MessagesMissing
    ├─ DecodeError                     a stored message that cannot be read
    ├─ SendError                       which messages landed, which did not, which are unknown
    └─ SendBackError                   how many rows brokers did not take back

Only the text of an error is sure to cross from a Spark worker to the driver. So the text is built from
the fields: it opens with the code, says what happened and where, and ends with what to do. Retry loops
read the two flags and never list classes. Every error survives pickling.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Self, TypedDict, Unpack


class Where(TypedDict, total=False):
    """The places an error can name; they are printed in this order."""

    address: str
    request: str
    topic: str
    broker: str
    queue_id: int
    offset: int
    group: str


class RocketMQError(Exception):
    """Base of everything this library raises on purpose."""

    code: ClassVar[str] = "ROCKETMQ"
    retriable: ClassVar[bool] = False
    refresh_routes: ClassVar[bool] = False

    def __init__(self, what: str, *, advice: str = "", **where: Unpack[Where]) -> None:
        super().__init__(what)
        self.what = what
        self.advice = advice
        self.where = where

    def locate(self, **where: Unpack[Where]) -> Self:
        """Fill in places that the raiser could not know; what is already named stays."""
        self.where = {**where, **self.where}
        return self

    def __str__(self) -> str:
        named: dict[str, object] = {**self.where}
        places = [f"{name.removesuffix('_id')} {named[name]}" for name in Where.__annotations__ if name in named]
        where = f" ({', '.join(places)})" if places else ""
        advice = f"; {self.advice}" if self.advice else ""
        return f"[{self.code}] {self.what}{where}{advice}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, self.__dict__.copy())


@contextmanager
def located(where: Where) -> Iterator[None]:
    """Errors that pass name these places, too."""
    try:
        yield
    except RocketMQError as error:
        error.locate(**where)
        raise


def _rebuild(cls: type[RocketMQError], args: tuple[Any, ...], state: dict[str, Any]) -> RocketMQError:
    """Unpickle without calling constructors, whose signatures differ."""
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(state)
    return error


class OptionError(RocketMQError, ValueError):
    """A setting is wrong: `[CODE] option = 'value': what is wrong; what is accepted`."""

    code = "OPTION_VALUE"

    def __init__(
        self, option: str, value: str | None, what: str, *, advice: str = "", code: str = "OPTION_VALUE"
    ) -> None:
        shown = option if value is None else f"{option} = '{value}'"
        super().__init__(f"{shown}: {what}", advice=advice)
        self.option = option
        self.value = value
        self.code = code  # type: ignore[misc]  # one class, six documented codes


class ProtocolError(RocketMQError):
    """The rules of the protocol were broken."""

    code = "PROTOCOL"


class LocalProtocolError(ProtocolError):
    """We were about to send something illegal; the connection is unharmed."""

    code = "LOCAL_PROTOCOL"


class RemoteProtocolError(ProtocolError):
    """The peer sent something illegal; the connection cannot be trusted any more."""

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
    """The peer sends more than anybody asked for, or more than can be served."""

    code = "FLOODED"


class LimitExceeded(RemoteProtocolError):
    """What the peer sent would become larger than a limit of ours."""

    code = "LIMIT_EXCEEDED"
    retriable = False


class AnswerMismatch(ProtocolError):
    """An answer holds other messages than were asked for: of another queue, out of order, or twice."""

    code = "ANSWER_MISMATCH"


class TransportError(RocketMQError):
    """Bytes did not get through."""

    code = "TRANSPORT"
    retriable = True
    refresh_routes = True


class ConnectError(TransportError):
    """No connection could be made (refused, unreachable, TLS handshake failed)."""

    code = "CONNECT"


class ConnectionLost(TransportError):
    """An open connection ended."""

    code = "CONNECTION_LOST"


class RequestTimeout(TransportError, TimeoutError):
    """No answer within the deadline; the request may have been carried out."""

    code = "REQUEST_TIMEOUT"


class RouteError(RocketMQError):
    """The cluster does not look as needed."""

    code = "ROUTE"
    refresh_routes = True


class TopicNotFound(RouteError):
    """No name server knows the topic."""

    code = "TOPIC_NOT_FOUND"


class QueueMoved(RouteError):
    """A queue is not where the route said."""

    code = "QUEUE_MOVED"
    retriable = True


class NoBrokerAvailable(RouteError):
    """No broker address can serve this request."""

    code = "NO_BROKER_AVAILABLE"
    retriable = True


class StaticTopicUnsupported(RouteError):
    """The topic uses logical queue mapping, whose offsets we would misread."""

    code = "STATIC_TOPIC_UNSUPPORTED"
    refresh_routes = False


class BrokerError(RocketMQError):
    """A server answered with a response code other than success; code and remark are kept verbatim."""

    code = "BROKER"
    response_code: int = -1

    def __init__(
        self, remark: str | None, *, response_code: int | None = None, advice: str = "", **where: Unpack[Where]
    ) -> None:
        if response_code is not None:
            self.response_code = response_code
        super().__init__(f"response code {self.response_code}: {remark or 'no remark'}", advice=advice, **where)
        self.remark = remark


class GroupError(RocketMQError):
    """The consumer group does not allow this."""

    code = "GROUP"


class GroupInUse(GroupError):
    """The group has live members whose offsets we would overwrite."""

    code = "GROUP_IN_USE"


class GroupReadTwice(GroupError):
    """Another read of this host publishes positions of the same queues for the group."""

    code = "GROUP_READ_TWICE"


class LockRefused(GroupError):
    """Another client holds the queue's lock at the broker."""

    code = "LOCK_REFUSED"
    retriable = True


class PlanTooLarge(RocketMQError):
    """A batch would be cut into more tasks than Spark can schedule."""

    code = "PLAN_TOO_LARGE"


class NoPullApi(RocketMQError):
    """The server speaks the RocketMQ 5 gRPC API but does not implement pulling."""

    code = "NO_PULL_API"


class DataLossError(RocketMQError):
    """Messages that should be read are gone."""

    code = "DATA_LOSS"


class OffsetBeforeEarliest(DataLossError):
    """A position lies below the queue's minimum (retention)."""

    code = "OFFSET_BEFORE_EARLIEST"


class OffsetBeyondEnd(DataLossError):
    """A position lies above the queue's maximum (topic made anew, broker restored)."""

    code = "OFFSET_BEYOND_END"


class OffsetWentBack(DataLossError):
    """The queue's maximum fell below an end that was planned."""

    code = "OFFSET_WENT_BACK"


class QueueVanished(DataLossError):
    """A queue with planned messages is no longer in the route."""

    code = "QUEUE_VANISHED"


class MessagesMissing(DataLossError):
    """Messages within a range that a broker still claims to hold cannot be read."""

    code = "MESSAGES_MISSING"


class DecodeError(RocketMQError):
    """A stored message, or one part of it, cannot be read."""

    code = "DECODE"


class SendError(RocketMQError):
    """A send failed in part or in whole; indexes count from the first message given."""

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
    """Brokers did not take back all rows that were to be delivered again."""

    code = "SEND_BACK"

    def __init__(
        self, what: str, *, counts: Mapping[str, int] | None = None, advice: str = "", **where: Unpack[Where]
    ) -> None:
        super().__init__(what, advice=advice, **where)
        self.counts = dict(counts or {})
        """Rows that were not taken back, by broker."""
