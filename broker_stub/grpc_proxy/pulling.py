"""Serve the gRPC methods that read by queue and offset, and that keep groups' offsets.

Apache's proxy serves none of these methods; drafts of the protocol define them. A pull commits no offset.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark_rocketmq.grpc_v2.enums import Code, QueryOffsetPolicy
from pyspark_rocketmq.grpc_v2.schema import message_class
from pyspark_rocketmq.grpc_v2.times import from_duration, from_timestamp
from pyspark_rocketmq.grpc_v2.translation import write_message
from pyspark_rocketmq.model import MessageQueue
from pyspark_rocketmq.wire.codes import ResponseCode
from pyspark_rocketmq.wire.commands import (
    GetMaxOffsetRequestHeader,
    GetMinOffsetRequestHeader,
    OffsetResponseHeader,
    PullMessageRequestHeader,
    PullMessageResponseHeader,
    RequestHeader,
    SearchOffsetRequestHeader,
    UpdateConsumerOffsetRequestHeader,
    from_fields,
)
from pyspark_rocketmq.wire.header import Command
from pyspark_rocketmq.wire.record import decode_records

from ..handlers.pull import SUBSCRIPTION_FLAG, SUSPEND_FLAG
from ..state import Broker
from .calls import OK, GrpcCall, PendingResponse, StatusError, stored_message
from .clients import ProxyChannel
from .proxy import Proxy, serves, status_error_of
from .receiving import MAX_POLL_MS
from .validation import check_group, check_topic, read_subscription

_Pulled, _Updated, _Got, _Found = map(
    message_class, ("PullMessageResponse", "UpdateOffsetResponse", "GetOffsetResponse", "QueryOffsetResponse")
)

_NOTHING_THERE = (ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY)


# --- pulling ---------------------------------------------------------------------------------------------------------


@serves("PullMessage")
def pull_message(proxy: Proxy, call: GrpcCall) -> Any:
    """Return messages of a queue from an offset on; if there is none yet, wait for one until the poll timeout."""
    broker, header = _read_pull(proxy, call)

    def time_out() -> list[Any]:
        broker.held_pulls.drop(channel)
        return _stream_items(
            proxy, StatusError(Code.MESSAGE_NOT_FOUND, "no new message").status, [], header.queue_offset
        )

    pending = PendingResponse(time_out)
    channel = ProxyChannel(call.remote, lambda response: pending.complete(_items(proxy, response)))
    proxy.forward(broker, header, call, channel)
    return pending


def _read_pull(proxy: Proxy, call: GrpcCall) -> tuple[Broker, PullMessageRequestHeader]:
    request = call.request
    broker, queue = find_queue(proxy, request.message_queue)
    poll_ms = min(from_duration(request.long_polling_timeout), MAX_POLL_MS)
    if request.batch_size <= 0:
        raise StatusError(Code.BAD_REQUEST, f"batch size {request.batch_size} is not positive")
    subscription = read_subscription(queue.topic, request.filter_expression)
    return broker, PullMessageRequestHeader(
        consumer_group=check_group(request.group),
        topic=queue.topic,
        queue_id=queue.queue_id,
        queue_offset=_check_offset(request.offset),
        max_msg_nums=request.batch_size,
        sys_flag=SUBSCRIPTION_FLAG | SUSPEND_FLAG * (poll_ms > 0),
        commit_offset=0,
        suspend_timeout_millis=poll_ms,
        subscription=subscription.sub_string,
        sub_version=0,
        expression_type=subscription.expression_type,
    )


def _items(proxy: Proxy, response: Command) -> list[Any]:
    """Convert a broker's response to a pull into the gRPC responses that are streamed to the client.

    There is one per message, then one with the next offset; the status comes before or after these
    (`ProxyOptions.status_last`). For an error there is only the status.
    """
    if response.code == ResponseCode.SUCCESS:
        status = OK
    elif response.code in _NOTHING_THERE:
        status = StatusError(Code.MESSAGE_NOT_FOUND, "no new message").status
    elif response.code == ResponseCode.PULL_OFFSET_MOVED:
        status = StatusError(Code.ILLEGAL_OFFSET, "the offset is not in the queue").status
    else:
        return [_Pulled(status=status_error_of(response).status)]
    messages = [write_message(stored_message(record)) for record in decode_records(response.body)]
    next_offset = from_fields(PullMessageResponseHeader, response.fields).next_begin_offset
    return _stream_items(proxy, status, messages, next_offset)


def _stream_items(proxy: Proxy, status: Any, messages: list[Any], next_offset: int) -> list[Any]:
    items = [*(_Pulled(message=message) for message in messages), _Pulled(next_offset=next_offset)]
    return [*items, _Pulled(status=status)] if proxy.options.status_last else [_Pulled(status=status), *items]


# --- offsets ---------------------------------------------------------------------------------------------------------


@serves("QueryOffset")
def query_offset(proxy: Proxy, call: GrpcCall) -> Any:
    """Return a queue's minimum or maximum offset, or the offset of its first message stored at a time or later.

    At 4.9.7 the offset for a time is that of the message stored nearest to it.
    """
    broker, queue = find_queue(proxy, call.request.message_queue)
    policy = call.request.query_offset_policy
    if policy not in _BOUNDS:
        raise StatusError(Code.BAD_REQUEST, f"unknown policy {policy}")
    header = _BOUNDS[policy](queue, call.request)
    return _Found(status=OK, offset=_call_for_offset(proxy, broker, header, call))


def _search(queue: MessageQueue, request: Any) -> RequestHeader:
    if not request.HasField("timestamp"):
        raise StatusError(Code.BAD_REQUEST, "no timestamp to search for")
    return SearchOffsetRequestHeader(
        topic=queue.topic, queue_id=queue.queue_id, timestamp=from_timestamp(request.timestamp)
    )


_BOUNDS: dict[int, Callable[[MessageQueue, Any], RequestHeader]] = {
    QueryOffsetPolicy.BEGINNING: lambda queue, _: GetMinOffsetRequestHeader(topic=queue.topic, queue_id=queue.queue_id),
    QueryOffsetPolicy.END: lambda queue, _: GetMaxOffsetRequestHeader(topic=queue.topic, queue_id=queue.queue_id),
    QueryOffsetPolicy.TIMESTAMP: _search,
}


@serves("GetOffset")
def get_offset(proxy: Proxy, call: GrpcCall) -> Any:
    """Return a group's committed offset of a queue; raise StatusError if the group has none."""
    broker, queue = find_queue(proxy, call.request.message_queue)
    group = check_group(call.request.group)
    offset = broker.offsets.query(group, queue.topic, queue.queue_id)
    if offset is None:
        raise StatusError(Code.OFFSET_NOT_FOUND, f"group {group} has no offset in {queue}")
    return _Got(status=OK, offset=offset)


@serves("UpdateOffset")
def update_offset(proxy: Proxy, call: GrpcCall) -> Any:
    """Commit a group's offset of a queue."""
    broker, queue = find_queue(proxy, call.request.message_queue)
    group = check_group(call.request.group)
    broker.group_configs.find(group)
    header = UpdateConsumerOffsetRequestHeader(
        consumer_group=group,
        topic=queue.topic,
        queue_id=queue.queue_id,
        commit_offset=_check_offset(call.request.offset),
    )
    proxy.call_broker(broker, header, call)
    return _Updated(status=OK)


def find_queue(proxy: Proxy, queue: Any) -> tuple[Broker, MessageQueue]:
    """Return the reachable master that has the requested queue, and the queue; raise StatusError if there is none."""
    topic = check_topic(queue.topic)
    for broker, config in proxy.masters_of(topic):
        if broker.name == queue.broker.name and 0 <= queue.id < config.read_queue_nums:
            return broker, MessageQueue(topic, broker.name, queue.id)
    raise StatusError(Code.BAD_REQUEST, f"topic {topic} has no queue {queue.id} at broker {queue.broker.name!r:.80}")


def _check_offset(offset: int) -> int:
    if offset < 0:
        raise StatusError(Code.ILLEGAL_OFFSET, f"offset {offset} is below 0")
    return offset


def _call_for_offset(proxy: Proxy, broker: Broker, header: RequestHeader, call: GrpcCall) -> int:
    return from_fields(OffsetResponseHeader, proxy.call_broker(broker, header, call)).offset
