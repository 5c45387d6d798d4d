"""Serve the gRPC methods that send messages, end transactions and recall delayed messages."""

from __future__ import annotations

from typing import Any

from pyspark_rocketmq.grpc_v2.enums import Code, TransactionResolution, TransactionSource
from pyspark_rocketmq.grpc_v2.schema import message_class
from pyspark_rocketmq.grpc_v2.times import from_timestamp
from pyspark_rocketmq.grpc_v2.translation import is_packed, read_properties
from pyspark_rocketmq.wire.codes import SysFlag, TransactionState
from pyspark_rocketmq.wire.commands import (
    EndTransactionRequestHeader,
    RecallMessageRequestHeader,
    SendMessageRequestHeader,
    SendMessageResponseHeader,
    from_fields,
)
from pyspark_rocketmq.wire.message_id import decode_offset_message_id
from pyspark_rocketmq.wire.properties import java_hash, join_properties

from ..delayed_messages import decode_recall_handle
from ..half_messages import HALF_MESSAGE_PROPERTY
from ..state import Broker
from ..topic_table import TEMPLATE_TOPIC, WRITABLE
from .calls import OK, GrpcCall, StatusError
from .proxy import HalfMessage, Proxy, serves
from .validation import accepted_types, check_message, check_topic

_SendResponse, _EndResponse, _RecallResponse = map(
    message_class, ("SendMessageResponse", "EndTransactionResponse", "RecallMessageResponse")
)
_Entry, _Status = map(message_class, ("SendResultEntry", "Status"))

_STATES = {
    TransactionResolution.COMMIT: TransactionState.COMMIT,
    TransactionResolution.ROLLBACK: TransactionState.ROLLBACK,
}


@serves("SendMessage")
def send_message(proxy: Proxy, call: GrpcCall) -> Any:
    """Check all messages of a request, then store them and return a status for each one.

    If a check fails, StatusError is raised and nothing is stored.
    """
    messages = call.request.messages
    if len({message.topic.name for message in messages}) != 1:
        raise StatusError(Code.MESSAGE_CORRUPTED, "the messages of a request belong to different topics")
    check_topic(messages[0].topic)
    for message in messages:
        _check(proxy, message)
    entries = [_send(proxy, call, message) for message in messages]
    return _SendResponse(status=common_status(entry.status for entry in entries), entries=entries)


def common_status(statuses: Any) -> Any:
    """Return one of the statuses if all have the same code, else MULTIPLE_RESULTS."""
    by_code = {status.code: status for status in statuses}
    if len(by_code) == 1:
        return next(iter(by_code.values()))
    return _Status(code=Code.MULTIPLE_RESULTS, message="the entries differ")


def _check(proxy: Proxy, message: Any) -> None:
    _, config = next(proxy.masters_of(message.topic.name))
    types = accepted_types(config, like_apache=proxy.options.like_apache)
    check_message(message, types, proxy.cluster.settings.max_message_bytes, proxy.clock.now_ms())


def _send(proxy: Proxy, call: GrpcCall, message: Any) -> Any:
    broker, queue_id = _choose_queue(proxy, message)
    properties = read_properties(message)
    message_id = message.system_properties.message_id
    header = _send_header(message, queue_id, properties, proxy.clock.now_ms())
    try:
        stored = from_fields(SendMessageResponseHeader, proxy.call_broker(broker, header, call, message.body))
    except StatusError as error:
        return _Entry(status=error.status, message_id=message_id)
    entry = _Entry(
        status=OK, message_id=message_id, offset=stored.queue_offset, recall_handle=stored.recall_handle or ""
    )
    if HALF_MESSAGE_PROPERTY in properties:
        entry.transaction_id = message_id
        place = decode_offset_message_id(stored.msg_id).physical_offset
        proxy.half_messages[message_id] = HalfMessage(broker, place, stored.queue_offset)
    return entry


def _choose_queue(proxy: Proxy, message: Any) -> tuple[Broker, int]:
    """Return a master and a queue id: by the hash of the message group, or without one the next queue in turn.

    The queue that the client names has no effect, as at Apache's proxy.
    """
    queues = [
        (broker, queue_id)
        for broker, config in proxy.masters_of(message.topic.name)
        if config.perm & WRITABLE
        for queue_id in range(config.write_queue_nums)
    ]
    if not queues:
        raise StatusError(Code.FORBIDDEN, f"topic {message.topic.name} has no queue to write")
    group = message.system_properties.message_group
    return queues[(java_hash(group) if group else next(proxy.send_turns)) % len(queues)]


def _send_header(message: Any, queue_id: int, properties: dict[str, str], now_ms: int) -> SendMessageRequestHeader:
    return SendMessageRequestHeader(
        producer_group=message.topic.name,
        topic=message.topic.name,
        default_topic=TEMPLATE_TOPIC,
        default_topic_queue_nums=1,
        queue_id=queue_id,
        sys_flag=SysFlag.COMPRESSED * is_packed(message)
        | TransactionState.PREPARED * (HALF_MESSAGE_PROPERTY in properties),
        born_timestamp=from_timestamp(message.system_properties.born_timestamp) or now_ms,
        flag=0,
        properties=join_properties(properties),
    )


# --- transactions and recalls ----------------------------------------------------------------------------------------


@serves("EndTransaction")
def end_transaction(proxy: Proxy, call: GrpcCall) -> Any:
    """Commit or roll back a half message; leave the transaction open if the resolution is neither."""
    request = call.request
    topic, transaction_id = check_topic(request.topic), request.transaction_id.strip()
    half = proxy.half_messages.get(transaction_id)
    if not transaction_id or half is None:
        raise StatusError(Code.INVALID_TRANSACTION_ID, f"no transaction {transaction_id!r:.80} is open")
    if request.resolution in _STATES:
        proxy.call_broker(half.broker, _end_header(request, topic, half), call)
        del proxy.half_messages[transaction_id]
    return _EndResponse(status=OK)


def _end_header(request: Any, topic: str, half: HalfMessage) -> EndTransactionRequestHeader:
    return EndTransactionRequestHeader(
        topic=topic,
        producer_group=topic,
        tran_state_table_offset=half.queue_offset,
        commit_log_offset=half.commit_log_offset,
        commit_or_rollback=_STATES[request.resolution],
        from_transaction_check=request.source == TransactionSource.SOURCE_SERVER_CHECK,
        msg_id=request.message_id,
        transaction_id=request.transaction_id,
    )


@serves("RecallMessage")
def recall_message(proxy: Proxy, call: GrpcCall) -> Any:
    """Recall the delayed message that a recall handle names.

    Raise StatusError if the handle is malformed, or if its broker is unknown or down.
    """
    topic = check_topic(call.request.topic)
    handle = decode_recall_handle(call.request.recall_handle)
    broker = proxy.cluster.reachable_master(handle.broker_name) if handle else None
    if broker is None:
        raise StatusError(Code.BAD_REQUEST, "the recall handle names no message")
    header = RecallMessageRequestHeader(producer_group=topic, topic=topic, recall_handle=call.request.recall_handle)
    return _RecallResponse(status=OK, message_id=proxy.call_broker(broker, header, call)["msgId"])
