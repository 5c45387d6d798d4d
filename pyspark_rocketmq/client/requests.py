"""Serve the requests that brokers send to a member.

    40   the group has changed: plan a round of rebalancing     220  move positions to given offsets
    221  report the positions                                   307  report the member's state
    309  give one message to the listener now

Brokers pass on the requests of administrators, and a member responds with the names that the Java client uses. Other
requests are declined.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from ..cluster.names import Namespace
from ..errors import MalformedFrame
from ..model import Address, MessageQueue
from ..wire import fastjson
from ..wire.bodies import ConsumeMessageDirectlyResult, ResetOffsetBody, decode_body, encode_body
from ..wire.codes import RequestCode, ResponseCode
from ..wire.commands import (
    ConsumeMessageDirectlyResultRequestHeader,
    GetConsumerRunningInfoRequestHeader,
    ResetConsumerClientOffsetRequestHeader,
    from_fields,
)
from ..wire.header import Command
from ..wire.record import decode_record
from .clock import Clock
from .message import Pulled, ReceivedMessage, view_record
from .results import Consumed, Ordered, OrderlyStatus
from .running_info import RunningInfo

__all__ = ["MemberRequests", "Serves"]

_CONSUMED = {
    OrderlyStatus.SUCCESS: "CR_SUCCESS",
    OrderlyStatus.COMMIT: "CR_COMMIT",
    OrderlyStatus.ROLLBACK: "CR_ROLLBACK",
    OrderlyStatus.SUSPEND: "CR_LATER",
}


class Serves(Protocol):
    """The methods of a member that `MemberRequests` calls."""

    def wake(self) -> None:
        """Plan a round of rebalancing, because members of the group may have changed."""

    def reset(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Move the positions of a topic's queues to these offsets."""

    def listen_to(self, messages: Sequence[ReceivedMessage]) -> object:
        """Call the listener with the messages and return its result, or raise what it raises."""

    @property
    def running_info(self) -> RunningInfo:
        """The description of the member for administrators."""


class MemberRequests:
    """Serves requests of brokers. Each connection has a thread that calls it, so many threads may do so at once."""

    def __init__(self, member: Serves, namespace: Namespace, clock: Clock) -> None:
        self._member = member
        self._namespace = namespace
        self._clock = clock
        self._handlers: Mapping[int, Callable[[Command], Command]] = {
            RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: self._notified,
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET: self._reset,
            RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: self._status,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self._running_info,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self._consume,
        }

    def serve(self, address: Address, request: Command) -> Command | None:
        """Return the response to one request; None if members do not serve its request code."""
        handler = self._handlers.get(request.code)
        return handler(request) if handler else None

    def _notified(self, request: Command) -> Command:
        self._member.wake()
        return Command(ResponseCode.SUCCESS)

    def _reset(self, request: Command) -> Command:
        header = from_fields(ResetConsumerClientOffsetRequestHeader, request.fields)
        table = decode_body(ResetOffsetBody, request.body).offset_table
        if wrong := next(((queue, at) for queue, at in table.items() if at < 0), None):
            raise MalformedFrame(f"ResetOffsetBody.offsetTable moves {wrong[0]} to {wrong[1]}, which is no offset")
        offsets = {self._unwrap(queue): offset for queue, offset in table.items()}
        self._member.reset(self._namespace.unwrap(header.topic), offsets)
        return Command(ResponseCode.SUCCESS)

    def _status(self, request: Command) -> Command:
        topic = self._namespace.unwrap((request.fields or {}).get("topic", ""))
        offsets = self._member.running_info.offsets(topic)
        table = {queue._replace(topic=self._namespace.wrap(queue.topic)): at for queue, at in offsets.items()}
        return Command(ResponseCode.SUCCESS, body=fastjson.write({"consumerTable": {}, "messageQueueTable": table}))

    def _running_info(self, request: Command) -> Command:
        header = from_fields(GetConsumerRunningInfoRequestHeader, request.fields)
        info = self._member.running_info.describe(with_stacks=bool(header.jstack_enable))
        return Command(ResponseCode.SUCCESS, body=encode_body(info))

    # --- consuming on demand -----------------------------------------------------------------------------------------

    def _consume(self, request: Command) -> Command:
        header = from_fields(ConsumeMessageDirectlyResultRequestHeader, request.fields)
        message = self._view(request.body, header.broker_name or "")
        began_s = self._clock.now_s()
        result = self._call_listener(message)
        spent_ms = int(1000 * (self._clock.now_s() - began_s))
        return Command(ResponseCode.SUCCESS, body=encode_body(replace(result, spent_time_mills=spent_ms)))

    def _call_listener(self, message: ReceivedMessage) -> ConsumeMessageDirectlyResult:
        """Call the listener with one message, and return its result for the administrator.

        The result has no other effect: no position is committed, and the message is not sent back.
        """
        orderly = self._member.running_info.orderly
        try:
            result = self._member.listen_to([message])
        except BaseException as error:  # `sys.exit()`, too: it must not end the thread that serves brokers.
            remark = f"{type(error).__name__}: {error}"
            return ConsumeMessageDirectlyResult(order=orderly, consume_result="CR_THROW_EXCEPTION", remark=remark)
        return ConsumeMessageDirectlyResult(order=orderly, consume_result=_result_name(result))

    def _view(self, body: bytes | memoryview, broker_name: str) -> ReceivedMessage:
        record = decode_record(body)[0]
        queue = MessageQueue(self._namespace.unwrap(record.topic), broker_name, record.queue_id)
        pulled = Pulled(queue, memoryview(b""), 0, record.queue_offset + 1, self._namespace.unwrap)
        return view_record(pulled, record)

    def _unwrap(self, queue: MessageQueue) -> MessageQueue:
        return queue._replace(topic=self._namespace.unwrap(queue.topic))


def _result_name(result: object) -> str:
    if isinstance(result, Ordered):
        return _CONSUMED[result.status]
    if isinstance(result, Consumed):
        return "CR_SUCCESS" if result.is_success else "CR_LATER"
    return "CR_RETURN_NULL"
