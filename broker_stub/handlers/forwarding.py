"""Forward an administrator's requests to members of a consumer group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from pyspark_rocketmq.errors import DecodeError
from pyspark_rocketmq.model import MessageQueue
from pyspark_rocketmq.wire import fastjson
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from pyspark_rocketmq.wire.commands import (
    ConsumeMessageDirectlyResultRequestHeader,
    GetConsumerRunningInfoRequestHeader,
    RequestHeader,
)
from pyspark_rocketmq.wire.header import Command
from pyspark_rocketmq.wire.message_id import decode_offset_message_id
from pyspark_rocketmq.wire.value_classes import members

from ..admin_codes import AdminCode
from ..registry import handles
from ..requests import HELD, ClientRequest, HandlerResult, Refusal, response
from ..state import Broker
from .topic_admin import NO_REMARK

CONSUMER_TIMEOUT_MS = 10_000


@handles(RequestCode.GET_CONSUMER_RUNNING_INFO)
def get_running_info(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Forward a request for running information to a consumer, and the consumer's response to the administrator."""
    header = request.header(GetConsumerRunningInfoRequestHeader)
    _forward(broker, request, header, header.consumer_group, header.client_id)
    return HELD


@handles(RequestCode.CONSUME_MESSAGE_DIRECTLY)
def consume_directly(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Have a member consume one stored message at once, and forward the member's response to the administrator."""
    header = request.header(ConsumeMessageDirectlyResultRequestHeader)
    try:
        place = decode_offset_message_id(header.msg_id or "")
    except DecodeError as error:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"java.nio.BufferUnderflowException, {error.what}") from None
    data = broker.store.log.record_at(place.physical_offset)
    if data is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, "java.lang.NullPointerException: there is no such message")
    forwarded = _with_broker_fields(broker, header)
    _forward(broker, request, forwarded, header.consumer_group, header.client_id or "", bytes(data))
    return HELD


def _with_broker_fields(
    broker: Broker, header: ConsumeMessageDirectlyResultRequestHeader
) -> ConsumeMessageDirectlyResultRequestHeader:
    """Return the header of a request to consume a message directly, as the broker forwards it to the consumer.

    The broker adds its name, and at 5.x the system flags of the topic and the group.
    """
    forwarded = replace(header, broker_name=broker.name)
    if not broker.release.is_5x:
        return forwarded
    topic = broker.topics.find(header.topic or "")
    group = broker.group_configs.find(header.consumer_group)
    return replace(
        forwarded,
        topic_sys_flag=topic.topic_sys_flag if topic else None,
        group_sys_flag=group.group_sys_flag if group else None,
    )


def _forward(
    broker: Broker,
    request: ClientRequest,
    header: GetConsumerRunningInfoRequestHeader | ConsumeMessageDirectlyResultRequestHeader,
    group_name: str,
    client_id: str,
    body: bytes = b"",
) -> None:
    group = broker.consumer_groups.table.get(group_name)
    member = group.find_member(client_id) if group else None
    if member is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"The Consumer <{group_name}> <{client_id}> not online")
    forward_response = _forwarder(request, f"consumer <{group_name}> <{client_id}> Timeout: {CONSUMER_TIMEOUT_MS}ms")
    member.channel.send_request(header.code, header, body, forward_response, CONSUMER_TIMEOUT_MS)


def _forwarder(request: ClientRequest, timeout_remark: str) -> Callable[[Command | None], None]:
    """Return a callback that passes a consumer's response on to the administrator who sent `request`.

    If the consumer does not respond in time, the callback gets None and sends an error with `timeout_remark`.
    """

    def forward_response(reply: Command | None) -> None:
        if reply is None:
            request.reply(response(ResponseCode.CONSUME_MSG_TIMEOUT, remark=timeout_remark))
            return
        forwarded_response = response(fields=reply.fields, body=bytes(reply.body), remark=reply.remark)
        forwarded_response.code = reply.code
        request.reply(forwarded_response)

    return forward_response


@members
class GetConsumerStatusRequestHeader(RequestHeader):
    """Header of a request for the offsets of a group's members."""

    topic: str
    group: str
    client_addr: str | None = None


@handles(AdminCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS)
def get_consumer_status(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Return the offsets that each member of a group reports; a member that does not respond has none."""
    header = request.header(GetConsumerStatusRequestHeader)
    group = broker.consumer_groups.table.get(header.group)
    if group is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"No Any Consumer online in the consumer group: [{header.group}]")
    members = list(group.members.values())
    tables: dict[str, Any] = {}

    def collect(client_id: str, reply: Command | None) -> None:
        tables[client_id] = _queue_offsets(reply)
        if len(tables) == len({member.client_id for member in members}):
            forwarded = {"consumerTable": tables, "messageQueueTable": {}}
            request.reply(response(body=fastjson.write(forwarded), remark=NO_REMARK))

    for member in members:
        code, on_reply = RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, partial(collect, member.client_id)
        member.channel.send_request(code, header, b"", on_reply, CONSUMER_TIMEOUT_MS)
    return HELD


def _queue_offsets(reply: Command | None) -> dict[MessageQueue, int]:
    parsed = fastjson.parse(reply.body) if reply and reply.body else {}
    return {fastjson.parse_queue(key): offset for key, offset in (parsed.get("messageQueueTable") or {}).items()}
