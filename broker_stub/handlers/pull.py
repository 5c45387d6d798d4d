"""Handle pulls: check the request, read messages, and hold a pull that finds no new message."""

from __future__ import annotations

from pyspark_rocketmq.errors import LocalProtocolError
from pyspark_rocketmq.wire.bodies import SubscriptionData, SubscriptionGroupConfig, TopicConfig, build_subscription
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from pyspark_rocketmq.wire.commands import PullHeader, PullMessageRequestHeader, PullMessageResponseHeader
from pyspark_rocketmq.wire.header import Command

from ..filters import is_tag_type, make_filter, maybe_compile
from ..group_tables import BROADCASTING
from ..long_polling import HeldPull
from ..queue_scan import GetResult, GetStatus, MessageFilter
from ..registry import handles
from ..requests import HELD, ClientRequest, HandlerResult, Refusal, response
from ..sql92 import MOST_FILTER_CHARACTERS, SqlFilter
from ..state import MASTER_ID, Broker
from ..topic_table import READABLE, illegal_code

COMMIT_FLAG, SUSPEND_FLAG, SUBSCRIPTION_FLAG = 1, 2, 4
SHORT_POLLING_MS = 1_000

_CODES = {
    GetStatus.FOUND: ResponseCode.SUCCESS,
    GetStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_RESET: ResponseCode.PULL_OFFSET_MOVED,
}
_FORBIDDEN_BROKER, _FORBIDDEN_GROUP, _FORBIDDEN_TOPIC, _FORBIDDEN_BROADCAST = "1", "2", "3", "4"


@handles(RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)
def pull_message(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Return messages of a queue from an offset on, or hold the pull until a message arrives."""
    header = request.header(PullMessageRequestHeader)
    group, topic = _check(broker, request, header)
    message_filter = _filter(broker, header)
    found = _read(broker, header, message_filter)
    broker.offsets.record_pull(header.consumer_group, header.topic, header.queue_id, found.next_begin_offset)
    if header.sys_flag & COMMIT_FLAG:
        broker.offsets.commit(header.consumer_group, header.topic, header.queue_id, header.commit_offset)
    result = _response(broker, header, found, group, topic)
    if result.code == ResponseCode.PULL_NOT_FOUND and header.sys_flag & SUSPEND_FLAG:
        _hold(broker, request, header, message_filter, group, topic)
        return HELD
    return result


# --- checks ----------------------------------------------------------------------------------------------------------


def _check(broker: Broker, request: ClientRequest, header: PullHeader) -> tuple[SubscriptionGroupConfig, TopicConfig]:
    """Return the pull's group and topic, or raise the `Refusal` of the first check that fails.

    The checks have a real broker's order. They may create the group.
    """
    if broker.release.is_5x and not broker.is_master and not broker.settings.slave_reads:
        raise Refusal(ResponseCode.SYSTEM_BUSY, "[REJECTREQUEST]system busy, start flow control for a while")
    if not broker.permission & READABLE:
        raise _forbidden(broker, f"the broker[{broker.address.host}] pulling message is forbidden", _FORBIDDEN_BROKER)
    group = broker.group_configs.find(header.consumer_group)
    if group is None:
        remark = f"subscription group [{header.consumer_group}] does not exist, \n{_help(broker)}"
        raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark, {})
    if not group.consume_enable:
        raise _forbidden(broker, f"subscription group no permission, {header.consumer_group}", _FORBIDDEN_GROUP)
    topic = broker.topics.find(header.topic)
    if topic is None:
        remark = f"topic[{header.topic}] not exist, apply first please! \n{_help(broker)}"
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, remark, {})
    if not topic.perm & READABLE:
        raise _forbidden(broker, f"the topic[{header.topic}] pulling message is forbidden", _FORBIDDEN_TOPIC)
    if not 0 <= header.queue_id < topic.read_queue_nums:
        remark = (
            f"queueId[{header.queue_id}] is illegal, topic:[{header.topic}] "
            f"topicConfig.readQueueNums:[{topic.read_queue_nums}] consumer:[/{request.channel.remote}]"
        )
        raise Refusal(illegal_code(broker.release), remark, {})
    return group, topic


def _help(broker: Broker) -> str:
    return f"See {broker.release.help_page} for further details."


def _forbidden(broker: Broker, remark: str, kind: str) -> Refusal:
    return Refusal(ResponseCode.NO_PERMISSION, remark, {"forbiddenType": kind} if broker.release.is_5x else {})


# --- the subscription ------------------------------------------------------------------------------------------------


def _filter(broker: Broker, header: PullHeader) -> MessageFilter | None:
    """Return the filter that the pull itself contains, or else the one from its group's heartbeats.

    None means that every message matches.
    """
    own = header.sys_flag & SUBSCRIPTION_FLAG
    subscription = _own_subscription(header) if own else _group_subscription(broker, header)
    kind = subscription.expression_type
    if is_tag_type(kind):
        return make_filter(subscription)
    if not broker.settings.property_filter:
        remark = f"The broker does not support consumer to filter message by {kind}"
        raise Refusal(ResponseCode.SYSTEM_ERROR, remark, {})
    return make_filter(
        subscription, maybe_compile(subscription.sub_string, kind) if own else _registered_sql(broker, header)
    )


def _own_subscription(header: PullHeader) -> SubscriptionData:
    if len(header.subscription or "") > MOST_FILTER_CHARACTERS:
        remark = f"{len(header.subscription or '')} characters, the stub's limit is {MOST_FILTER_CHARACTERS}"
        raise Refusal(ResponseCode.SUBSCRIPTION_PARSE_FAILED, f"parse the consumer's subscription failed: {remark}", {})
    try:
        return build_subscription(
            header.topic, header.subscription or "", expression_type=header.expression_type or "TAG"
        )
    except LocalProtocolError as cause:
        remark = "parse the consumer's subscription failed"
        raise Refusal(ResponseCode.SUBSCRIPTION_PARSE_FAILED, remark, {}) from cause


def _group_subscription(broker: Broker, header: PullHeader) -> SubscriptionData:
    name = header.consumer_group
    members = broker.consumer_groups.table.get(name)
    config = broker.group_configs.table[name]
    if members is None:
        raise _subscription_refusal(broker, "the consumer's group info not exist")
    if members.message_model == BROADCASTING and not config.consume_broadcast_enable:
        raise _forbidden(broker, f"the consumer group[{name}] can not consume by broadcast way", _FORBIDDEN_BROADCAST)
    subscription = members.subscriptions.get(header.topic)
    if subscription is None:
        raise _subscription_refusal(broker, "the consumer's subscription not exist")
    if subscription.sub_version < header.sub_version:
        raise Refusal(ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest", {})
    return subscription


def _subscription_refusal(broker: Broker, what: str) -> Refusal:
    return Refusal(ResponseCode.SUBSCRIPTION_NOT_EXIST, f"{what}\n{_help(broker)}", {})


def _registered_sql(broker: Broker, header: PullHeader) -> SqlFilter:
    """Return the SQL92 expression that the broker compiled from the heartbeats of the pull's group.

    Raise a `Refusal` if there is none, or if the pull has a newer version of the subscription.
    """
    registered = broker.filters.find(header.topic, header.consumer_group)
    if registered is None:
        remark = "The broker's consumer filter data is not exist!Your expression may be wrong!"
        raise Refusal(ResponseCode.FILTER_DATA_NOT_EXIST, remark, {})
    if registered.client_version < header.sub_version:
        remark = "the consumer's consumer filter data not latest"
        raise Refusal(ResponseCode.FILTER_DATA_NOT_LATEST, remark, {})
    return registered.sql


# --- reading and responding ------------------------------------------------------------------------------------------


def _read(broker: Broker, header: PullHeader, message_filter: MessageFilter | None) -> GetResult:
    reset = broker.offsets.take_reset(header.consumer_group, header.topic, header.queue_id)
    if reset is not None:
        low = broker.store.min_offset(header.topic, header.queue_id)
        high = broker.store.max_offset(header.topic, header.queue_id)
        return GetResult(GetStatus.OFFSET_RESET, reset, low, high)
    return broker.store.get_message(
        header.topic, header.queue_id, header.queue_offset, header.max_msg_nums, message_filter
    )


def _response(
    broker: Broker, header: PullHeader, found: GetResult, group: SubscriptionGroupConfig, topic: TopicConfig
) -> Command:
    code, suggestion = _code(found.status, header.queue_offset), MASTER_ID
    if broker.settings.slave_reads:
        suggestion = group.which_broker_when_consume_slowly if found.cold else group.broker_id
    if not broker.is_master:
        code, suggestion = _slave_response(broker, found, code, suggestion)
    pull_fields = PullMessageResponseHeader(
        suggest_which_broker_id=suggestion,
        next_begin_offset=found.next_begin_offset,
        min_offset=found.min_offset,
        max_offset=found.max_offset,
        topic_sys_flag=topic.topic_sys_flag if broker.release.is_5x else None,
        group_sys_flag=group.group_sys_flag,
    )
    body = found.records[0] if len(found.records) == 1 else b"".join(found.records)
    return response(code, pull_fields, body, remark=found.status.value)


def _code(status: GetStatus, offset: int) -> ResponseCode:
    if status is GetStatus.NO_MESSAGE_IN_QUEUE:
        return ResponseCode.PULL_OFFSET_MOVED if offset else ResponseCode.PULL_NOT_FOUND
    return _CODES[status]


def _slave_response(broker: Broker, found: GetResult, code: ResponseCode, suggestion: int) -> tuple[ResponseCode, int]:
    """Return the response code of a slave to a pull, and the broker id that it suggests for the next pull.

    A slave may be behind its master, so it can tell the client to pull again at the master (PULL_RETRY_IMMEDIATELY).
    At 5.x, while its master is up, a slave does so with every code but SUCCESS, and suggests the master even with
    SUCCESS; this does not apply to cold messages (on disk). In all other cases only PULL_OFFSET_MOVED becomes
    PULL_RETRY_IMMEDIATELY, and only if the settings do not let slaves check offsets.
    """
    if broker.release.is_5x and not found.cold and broker.cluster.reachable_master(broker.name):
        return (code if code == ResponseCode.SUCCESS else ResponseCode.PULL_RETRY_IMMEDIATELY), MASTER_ID
    if code == ResponseCode.PULL_OFFSET_MOVED and not broker.settings.offset_check_in_slave:
        return ResponseCode.PULL_RETRY_IMMEDIATELY, MASTER_ID
    return code, suggestion


def _hold(
    broker: Broker,
    request: ClientRequest,
    header: PullHeader,
    message_filter: MessageFilter | None,
    group: SubscriptionGroupConfig,
    topic: TopicConfig,
) -> None:
    """Hold the pull until a message arrives or its time is up.

    When the pull runs again, it always gets a response, and commits nothing. As in a real broker, `message_filter`
    decides which messages end the wait. Which are returned is decided by a filter made after the wait, because the
    group's subscription may have changed.
    """

    def run() -> None:
        try:
            current = _filter(broker, header)
        except Refusal as refusal:
            request.reply(refusal.response)
            return
        found = _read(broker, header, current)
        broker.offsets.record_pull(header.consumer_group, header.topic, header.queue_id, found.next_begin_offset)
        request.reply(_response(broker, header, found, group, topic))

    wait_ms = header.suspend_timeout_millis if broker.settings.long_polling else SHORT_POLLING_MS
    due_ms = broker.clock.elapsed_ms() + wait_ms
    broker.held_pulls.hold(
        (header.topic, header.queue_id), HeldPull(request.channel, header.queue_offset, message_filter, due_ms, run)
    )
