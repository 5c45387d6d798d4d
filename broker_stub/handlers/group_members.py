"""Handle requests of a group's members: heartbeats, member lists, checks of filters, and queue locks."""

from __future__ import annotations

from pyspark_rocketmq.model import retry_topic
from pyspark_rocketmq.wire.bodies import (
    CheckClientRequestBody,
    ConsumerData,
    GetConsumerListByGroupResponseBody,
    HeartbeatData,
    LockBatchRequestBody,
    LockBatchResponseBody,
    decode_body,
    encode_body,
)
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from pyspark_rocketmq.wire.commands import (
    GetConsumerListByGroupRequestHeader,
    HeartbeatResponseHeader,
    UnregisterClientRequestHeader,
)

from ..filters import is_tag_type, maybe_compile
from ..group_tables import Member
from ..registry import handles
from ..requests import ClientRequest, HandlerResult, Refusal, response
from ..sql92 import SqlSyntaxError, compile_sql
from ..state import Broker


@handles(RequestCode.HEART_BEAT)
def heartbeat(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Register a client in its groups; at 5.x the response says whether its groups' subscriptions may have changed.

    They may have changed if the heartbeat contains no fingerprint (hash) of the client's subscriptions, or another one
    than the last heartbeat of the group.
    """
    beat = decode_body(HeartbeatData, request.body)
    fingerprint = beat.heartbeat_fingerprint if broker.release.is_5x else 0
    member = Member(request.channel, beat.client_id, request.command.language, request.command.version)
    changed = [_register_consumer(broker, member, data, beat, fingerprint) for data in beat.consumer_data_set]
    for data in beat.producer_data_set:
        broker.producer_groups.heartbeat(member, data.group_name)
    if not broker.release.is_5x:
        return response()
    return response(
        fields=HeartbeatResponseHeader(is_support_heart_beat_v2=True, is_sub_change=not fingerprint or any(changed))
    )


def _register_consumer(
    broker: Broker, member: Member, data: ConsumerData, beat: HeartbeatData, fingerprint: int
) -> bool:
    """Register a client in one consumer group; return whether the group's fingerprint (hash of subscriptions) changed.

    5.x does not register the client if the group does not exist and may not be created.
    """
    changed = broker.consumer_groups.exchange_fingerprint(data.group_name, fingerprint)
    config = broker.group_configs.find(data.group_name)
    if config:
        broker.topics.find_or_create(retry_topic(data.group_name), config.retry_queue_nums)
    elif broker.release.is_5x:
        return changed
    without_subscriptions = bool(fingerprint) and beat.without_sub
    broker.consumer_groups.heartbeat(member, data, without_subscriptions=without_subscriptions)
    return changed


@handles(RequestCode.UNREGISTER_CLIENT)
def unregister_client(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Remove a client from its producer group, its consumer group, or both."""
    header = request.header(UnregisterClientRequestHeader)
    if header.producer_group:
        broker.producer_groups.leave(header.producer_group, header.client_id, request.channel)
    if header.consumer_group:
        broker.consumer_groups.leave(header.consumer_group, request.channel)
    return response(fields={})


@handles(RequestCode.GET_CONSUMER_LIST_BY_GROUP)
def get_consumer_list(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Return the client ids of a group's members, one per connection."""
    name = request.header(GetConsumerListByGroupRequestHeader).consumer_group
    group = broker.consumer_groups.table.get(name)
    if not group:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {name}", {})
    body = encode_body(GetConsumerListByGroupResponseBody(consumer_id_list=tuple(group.client_ids)))
    return response(fields={}, body=body)


@handles(RequestCode.CHECK_CLIENT_CONFIG)
def check_client_config(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Check whether the broker can filter by an expression; refuse SQL92 if it is switched off or does not compile."""
    subscription = decode_body(CheckClientRequestBody, request.body).subscription_data
    if is_tag_type(subscription.expression_type):
        return response()
    if not broker.settings.property_filter:
        remark = f"The broker does not support consumer to filter message by {subscription.expression_type}"
        raise Refusal(ResponseCode.SYSTEM_ERROR, remark)
    if not maybe_compile(subscription.sub_string, subscription.expression_type):
        raise Refusal(ResponseCode.SUBSCRIPTION_PARSE_FAILED, _fault(subscription.sub_string))
    return response()


def _fault(expression: str) -> str:
    try:
        compile_sql(expression)
    except SqlSyntaxError as error:
        return f"org.apache.rocketmq.filter.parser.ParseException: {error.what}"
    return "unknown kind of expression"


# --- queue locks -----------------------------------------------------------------------------------------------------


@handles(RequestCode.LOCK_BATCH_MQ)
def lock_queues(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Lock queues for a client, or renew its locks; return those of the requested queues that it then holds."""
    wanted = decode_body(LockBatchRequestBody, request.body)
    locked = broker.locks.lock(wanted.consumer_group, wanted.mq_set, wanted.client_id)
    return response(body=encode_body(LockBatchResponseBody(lock_ok_mq_set=tuple(locked))))


@handles(RequestCode.UNLOCK_BATCH_MQ)
def unlock_queues(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Release queues that the client holds; ignore queues that another client holds."""
    given = decode_body(LockBatchRequestBody, request.body)
    broker.locks.unlock(given.consumer_group, given.mq_set, given.client_id)
    return response()
