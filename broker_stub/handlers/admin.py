"""What does an administrator ask a broker, and what does the broker pass on to a consumer?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pyspark_rocketmq.errors import DecodeError
from pyspark_rocketmq.model import MessageQueue
from pyspark_rocketmq.wire import fastjson
from pyspark_rocketmq.wire.bodies import DataVersion, KVTable, ResetOffsetBody, TopicConfig, encode_body
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from pyspark_rocketmq.wire.commands import (
    ConsumeMessageDirectlyResultRequestHeader,
    GetBrokerConfigResponseHeader,
    GetConsumerRunningInfoRequestHeader,
    ResetConsumerClientOffsetRequestHeader,
    ResetOffsetHeader,
    ResetOffsetRequestHeader,
)
from pyspark_rocketmq.wire.header import Command
from pyspark_rocketmq.wire.message_id import decode_offset_message_id
from pyspark_rocketmq.wire.record import decode_record

from ..registry import HELD, Answer, Call, Refusal, answer, handles
from ..state import Broker, Settings
from ..store import Boundary
from .topics import NO_REMARK

CONSUMER_TIMEOUT_MS = 10_000

# --- offsets ---------------------------------------------------------------------------------------------------------


@handles(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET)
def reset_offset(broker: Broker, call: Call) -> Answer:
    """Move a group: in the broker's own table, or (4.9.7) by telling its members."""
    header = call.header(ResetOffsetRequestHeader)
    if broker.release.is_5x and broker.settings.server_side_reset:
        moved = _reset_here(broker, header)
        return answer(body=encode_body(ResetOffsetBody(offset_table=moved)))
    moved = _reset_at_members(broker, header)
    return answer(body=encode_body(ResetOffsetBody(offset_table=moved)), remark=NO_REMARK)


def _reset_here(broker: Broker, header: ResetOffsetHeader) -> dict[MessageQueue, int]:
    if not broker.is_master:
        raise Refusal(ResponseCode.SYSTEM_ERROR, "Can not reset offset in slave broker")
    config = broker.topics.find(header.topic)
    if config is None:
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"Topic {header.topic} does not exist")
    if header.group not in broker.group_configs.table:
        raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {header.group} does not exist")
    moved = _wanted_offsets(broker, header, config)
    if not moved:
        raise Refusal(ResponseCode.SYSTEM_ERROR, "No queues to reset.")
    for queue_id, offset in moved.items():
        broker.offsets.reset(header.group, header.topic, queue_id, offset)
    return {MessageQueue(header.topic, broker.name, queue_id): offset for queue_id, offset in moved.items()}


def _wanted_offsets(broker: Broker, header: ResetOffsetHeader, config: TopicConfig) -> dict[int, int]:
    one_queue = -1 if header.queue_id is None else header.queue_id
    if one_queue < 0:
        every = range(config.read_queue_nums)
        return {queue_id: _offset_at(broker, header.topic, queue_id, header.timestamp) for queue_id in every}
    if header.offset is None or header.offset == -1:
        return {one_queue: _offset_at(broker, header.topic, one_queue, header.timestamp)}
    low = broker.store.min_offset(header.topic, one_queue)
    high = broker.store.max_offset(header.topic, one_queue)
    if not low <= header.offset <= high + 1:
        remark = f"Target offset {header.offset} not in consume queue range [{low}-{high}]"
        raise Refusal(ResponseCode.SYSTEM_ERROR, remark)
    return {one_queue: header.offset}


def _offset_at(broker: Broker, topic: str, queue_id: int, time_ms: int) -> int:
    """The offset at a time; a negative time means the end."""
    if time_ms < 0:
        return broker.store.max_offset(topic, queue_id)
    boundary = Boundary.LOWER if broker.release.is_5x else Boundary.NEAREST
    return broker.store.search(topic, queue_id, time_ms, boundary)


def _reset_at_members(broker: Broker, header: ResetOffsetHeader) -> dict[MessageQueue, int]:
    config = broker.topics.find(header.topic)
    if config is None:
        remark = f"[reset-offset] reset offset failed, no topic in this broker. topic={header.topic}"
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, remark)
    moved = {}
    for queue_id in range(config.write_queue_nums):
        committed = broker.offsets.query(header.group, header.topic, queue_id)
        if committed is None:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"THe consumer group <{header.group}> not exist")
        wanted = _offset_at(broker, header.topic, queue_id, header.timestamp)
        offset = wanted if header.is_force else min(wanted, committed)
        moved[MessageQueue(header.topic, broker.name, queue_id)] = offset
    _tell_members(broker, header, moved)
    return moved


def _tell_members(broker: Broker, header: ResetOffsetHeader, moved: dict[MessageQueue, int]) -> None:
    group = broker.consumer_groups.table.get(header.group)
    if group is None:
        remark = (
            f"Consumer not online, so can not reset offset, Group: {header.group} "
            f"Topic: {header.topic} Timestamp: {header.timestamp}"
        )
        raise Refusal(ResponseCode.CONSUMER_NOT_ONLINE, remark)
    told = ResetConsumerClientOffsetRequestHeader(
        topic=header.topic,
        group=header.group,
        timestamp=header.timestamp,
        is_force=False,
        queue_id=-1 if broker.release.is_5x else None,
    )
    body = encode_body(ResetOffsetBody(offset_table=moved))
    for channel in list(group.members):
        channel.tell(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, told, body)


@handles(RequestCode.GET_ALL_DELAY_OFFSET)
def get_delay_offsets(broker: Broker, call: Call) -> Answer:
    """How far the delay queues have been delivered."""
    table: dict[str, Any] = {"dataVersion": _data_version(broker), "offsetTable": broker.delays.delivered}
    return answer(body=fastjson.write(table, bare_integer_keys=True))


def _data_version(broker: Broker) -> dict[str, int]:
    version = {"counter": 0, "timestamp": broker.clock.now_ms()}
    return {**version, "stateVersion": 0} if broker.release.is_5x else version


# --- configuration and figures ---------------------------------------------------------------------------------------

_CONFIGURED = {
    "autoCreateSubscriptionGroup": "auto_create_groups",
    "autoCreateTopicEnable": "auto_create_topics",
    "brokerClusterName": "cluster_name",
    "channelExpiredTimeout": "client_expiry_ms",
    "defaultTopicQueueNums": "default_topic_queues",
    "enablePropertyFilter": "property_filter",
    "longPollingEnable": "long_polling",
    "maxMessageSize": "max_message_bytes",
    "messageDelayLevel": "delay_levels",
    "recallMessageEnable": "recall_messages",
    "slaveReadEnable": "slave_reads",
    "transactionCheckInterval": "transaction_check_interval_ms",
    "transactionCheckMax": "transaction_check_max",
    "transactionTimeOut": "transaction_timeout_ms",
    "useServerSideResetOffset": "server_side_reset",
}
"""A broker's own names for our settings."""
_LIMITS = {
    "maxFilterMessageSize": "filter_bytes",
    "maxTransferBytesOnMessageInDisk": "disk_bytes",
    "maxTransferBytesOnMessageInMemory": "memory_bytes",
    "maxTransferCountOnMessageInDisk": "disk_count",
    "maxTransferCountOnMessageInMemory": "memory_count",
}
_FIXED = frozenset({"brokerClusterName", "channelExpiredTimeout", "messageDelayLevel"})
"""What is read once, when the broker starts."""
_FORBIDDEN = frozenset({"brokerConfigPath", "configBlackList"})
_USUAL = {
    "brokerRole": "ASYNC_MASTER",
    "deleteWhen": "04",
    "diskMaxUsedSpaceRatio": "75",
    "fileReservedTime": "72",
    "flushDiskType": "ASYNC_FLUSH",
    "msgTraceTopicName": "RMQ_SYS_TRACE_TOPIC",
    "traceOn": "true",
    "traceTopicEnable": "false",
    "useTLS": "false",
}
"""What a real broker has and tools show, but what means nothing here."""


@handles(RequestCode.GET_BROKER_CONFIG)
def get_broker_config(broker: Broker, call: Call) -> Answer:
    """The settings that mean something here, under a broker's names."""
    values = {
        "brokerId": broker.broker_id,
        "brokerIP1": broker.address.host,
        "brokerName": broker.name,
        "brokerPermission": broker.permission,
        "listenPort": broker.address.port,
        **_USUAL,
        **({} if broker.is_master else {"brokerRole": "SLAVE"}),
        **broker.other_config,
        **{name: getattr(broker.settings, attribute) for name, attribute in _CONFIGURED.items()},
        **{name: getattr(broker.settings.limits, attribute) for name, attribute in _LIMITS.items()},
    }
    text = "".join(f"{name}={_as_java(value)}\n" for name, value in sorted(values.items()))
    version = encode_body(DataVersion(counter=0, state_version=0, timestamp=broker.clock.now_ms())).decode()
    return answer(fields=GetBrokerConfigResponseHeader(version=version), body=text.encode())


@handles(RequestCode.UPDATE_BROKER_CONFIG)
def update_broker_config(broker: Broker, call: Call) -> Answer:
    """Change settings of this broker; those it does not have are kept and mean nothing, broken numbers passed over."""
    lines = (line.partition("=") for line in call.body.decode().splitlines() if "=" in line and line[0] != "#")
    wishes = {name.strip(): value.strip() for name, _, value in lines}
    if _FORBIDDEN & wishes.keys():
        raise Refusal(ResponseCode.NO_PERMISSION, "Can not update config in black list.")
    for name, value in wishes.items():
        _configure(broker, name, value)
    broker.group_configs.auto_create = broker.settings.auto_create_groups
    return answer()


def _configure(broker: Broker, name: str, text: str) -> None:
    attribute = _CONFIGURED.get(name)
    if name == "brokerPermission":
        broker.permission = _to_integer(text, broker.permission)
    elif attribute is None:
        broker.other_config[name] = text
    elif name not in _FIXED:
        broker.settings = _with_setting(broker.settings, attribute, text)


def _with_setting(settings: Settings, attribute: str, text: str) -> Settings:
    known = getattr(settings, attribute)
    change: dict[str, Any] = {
        attribute: text.lower() == "true" if isinstance(known, bool) else _to_integer(text, known)
    }
    return replace(settings, **change)


def _to_integer(text: str, known: int) -> int:
    try:
        return int(text)
    except ValueError:
        return known


def _as_java(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@handles(RequestCode.GET_BROKER_RUNTIME_INFO)
def get_runtime_info(broker: Broker, call: Call) -> Answer:
    """Figures of the broker, as far as tools ask for them; rates are not measured."""
    messages = str(sum(queue.max_offset for queue in broker.store.queues.values()))
    average = broker.store.log.end / max(1, int(messages))
    figures = {
        **_IDLE_FIGURES,
        "bootTimestamp": str(broker.clock.now_ms() - int(broker.clock.elapsed_ms())),
        "brokerActive": "true",
        "brokerVersion": str(broker.release.version),
        "brokerVersionDesc": f"V{broker.release.name.replace('.', '_')}",
        "commitLogMaxOffset": str(broker.store.log.end),
        "commitLogMinOffset": str(broker.store.log.min_offset),
        "earliestMessageTimeStamp": str(_earliest_time(broker)),
        "msgPutTotalTodayNow": messages,
        "putMessageAverageSize": str(average),
        "putMessageSizeTotal": str(broker.store.log.end),
        "putMessageTimesTotal": messages,
        "timerCongestNum": str(len(broker.delays.waiting_timers)),
    }
    return answer(body=encode_body(KVTable(table=figures)))


def _earliest_time(broker: Broker) -> int:
    """When the oldest message was stored; -1 if there is none."""
    log = broker.store.log
    first = next(iter(log.records(log.min_offset)), None)
    return decode_record(first[1])[0].store_timestamp if first else -1


_QUEUES = ("ack", "litePull", "pull", "query", "send")
_IDLE_FIGURES = {
    **{f"{name}ThreadPoolQueueSize": "0" for name in _QUEUES},
    **{f"{name}ThreadPoolQueueCapacity": "100000" for name in _QUEUES},
    **{f"{name}ThreadPoolQueueHeadWaitTimeMills": "0" for name in _QUEUES},
    "EndTransactionQueueSize": "0",
    "EndTransactionThreadPoolQueueCapacity": "100000",
    "commitLogDirCapacity": "Total : 0 B, Free : 0 B.",
    "commitLogDiskRatio": "0.0",
    "consumeQueueDiskRatio": "0.0",
    "dispatchBehindBytes": "0",
    "dispatchMaxBuffer": "0",
    "getFoundTps": "0.0 0.0 0.0",
    "getMessageEntireTimeMax": "0",
    "getMissTps": "0.0 0.0 0.0",
    "getTotalTps": "0.0 0.0 0.0",
    "getTransferedTps": "0.0 0.0 0.0",
    "getTransferredTps": "0.0 0.0 0.0",
    "msgGetTotalTodayMorning": "0",
    "msgGetTotalTodayNow": "0",
    "msgGetTotalYesterdayMorning": "0",
    "msgPutTotalTodayMorning": "0",
    "msgPutTotalYesterdayMorning": "0",
    "pageCacheLockTimeMills": "0",
    "putLatency99": "0.00",
    "putLatency999": "0.00",
    "putMessageDistributeTime": "null",
    "putMessageEntireTimeMax": "0",
    "putMessageFailedTimes": "0",
    "putTps": "0.0 0.0 0.0",
    "remainHowManyDataToFlush": "0 B",
    "remainTransientStoreBufferNumbs": "2147483647",
    "runtime": "[ 0 days, 0 hours, 0 minutes, 0 seconds ]",
    "startAcceptSendRequestTimeStamp": "0",
    "timerDequeueTps": "0.0",
    "timerEnqueueTps": "0.0",
    "timerOffsetBehind": "0",
    "timerReadBehind": "0",
}

# --- passed on to a consumer -----------------------------------------------------------------------------------------


@handles(RequestCode.GET_CONSUMER_RUNNING_INFO)
def get_running_info(broker: Broker, call: Call) -> Answer:
    """Ask a consumer how it is doing."""
    header = call.header(GetConsumerRunningInfoRequestHeader)
    _ask_consumer(broker, call, header, header.consumer_group, header.client_id)
    return HELD


@handles(RequestCode.CONSUME_MESSAGE_DIRECTLY)
def consume_directly(broker: Broker, call: Call) -> Answer:
    """Have a consumer consume a message of the log now."""
    header = call.header(ConsumeMessageDirectlyResultRequestHeader)
    try:
        place = decode_offset_message_id(header.msg_id or "")
    except DecodeError as error:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"java.nio.BufferUnderflowException, {error.what}") from None
    data = broker.store.log.record_at(place.physical_offset)
    if data is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, "java.lang.NullPointerException: there is no such message")
    told = _complete(broker, header)
    _ask_consumer(broker, call, told, header.consumer_group, header.client_id or "", bytes(data))
    return HELD


def _complete(
    broker: Broker, header: ConsumeMessageDirectlyResultRequestHeader
) -> ConsumeMessageDirectlyResultRequestHeader:
    """The header as the consumer gets it."""
    told = replace(header, broker_name=broker.name)
    if not broker.release.is_5x:
        return told
    topic = broker.topics.find(header.topic or "")
    group = broker.group_configs.find(header.consumer_group)
    return replace(
        told,
        topic_sys_flag=topic.topic_sys_flag if topic else None,
        group_sys_flag=group.group_sys_flag if group else None,
    )


def _ask_consumer(
    broker: Broker,
    call: Call,
    header: GetConsumerRunningInfoRequestHeader | ConsumeMessageDirectlyResultRequestHeader,
    group_name: str,
    client_id: str,
    body: bytes = b"",
) -> None:
    group = broker.consumer_groups.table.get(group_name)
    member = group.find_member(client_id) if group else None
    if member is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"The Consumer <{group_name}> <{client_id}> not online")
    pass_on = _passer(call, f"consumer <{group_name}> <{client_id}> Timeout: {CONSUMER_TIMEOUT_MS}ms")
    member.channel.ask(header.code, header, body, pass_on, CONSUMER_TIMEOUT_MS)


def _passer(call: Call, silence: str) -> Callable[[Command | None], None]:
    """Gives a consumer's answer to whoever asked the broker."""

    def pass_on(reply: Command | None) -> None:
        if reply is None:
            call.reply(answer(ResponseCode.CONSUME_MSG_TIMEOUT, remark=silence))
            return
        passed = answer(fields=reply.fields, body=bytes(reply.body), remark=reply.remark)
        passed.code = reply.code
        call.reply(passed)

    return pass_on
