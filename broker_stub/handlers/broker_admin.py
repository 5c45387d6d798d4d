"""Handle administrators' requests about one broker: its settings, statistics, disks and replicas.

The stub has no disk and measures no rates, so many statistics have no meaning here. Responses still contain them, with
constant values, because mqadmin prints them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pyspark_rocketmq.wire import fastjson
from pyspark_rocketmq.wire.bodies import DataVersion, KVTable, encode_body
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from pyspark_rocketmq.wire.commands import GetBrokerConfigResponseHeader, RequestHeader
from pyspark_rocketmq.wire.record import decode_record
from pyspark_rocketmq.wire.value_classes import members

from ..admin_codes import AdminCode
from ..registry import handles
from ..requests import ClientRequest, HandlerResult, Refusal, response
from ..settings import Settings
from ..state import Broker
from ..topic_table import illegal_code
from .topic_admin import NO_REMARK

# --- configuration and statistics ------------------------------------------------------------------------------------

_CONFIGURED = {
    "autoCreateSubscriptionGroup": "auto_create_groups",
    "autoCreateTopicEnable": "auto_create_topics",
    "brokerClusterName": "cluster_name",
    "channelExpiredTimeout": "client_expiry_ms",
    "defaultTopicQueueNums": "default_topic_queues",
    "enablePropertyFilter": "property_filter",
    "longPollingEnable": "long_polling",
    "maxMessageSize": "max_message_bytes",
    "maxMsgsNumBatch": "max_messages_per_query",
    "messageDelayLevel": "delay_levels",
    "offsetCheckInSlave": "offset_check_in_slave",
    "recallMessageEnable": "recall_messages",
    "slaveReadEnable": "slave_reads",
    "transactionCheckInterval": "transaction_check_interval_ms",
    "transactionCheckMax": "transaction_check_max",
    "transactionOpBatchInterval": "transaction_op_batch_interval_ms",
    "transactionTimeOut": "transaction_timeout_ms",
    "useServerSideResetOffset": "server_side_reset",
}
"""Names of the stub's own settings, by the name that a broker gives to each."""
_LIMITS = {
    "maxFilterMessageSize": "filter_bytes",
    "maxTransferBytesOnMessageInDisk": "disk_bytes",
    "maxTransferBytesOnMessageInMemory": "memory_bytes",
    "maxTransferCountOnMessageInDisk": "disk_count",
    "maxTransferCountOnMessageInMemory": "memory_count",
}
_FIXED = frozenset({"brokerClusterName", "channelExpiredTimeout", "messageDelayLevel"})
"""Settings that a broker reads only when it starts, so a change has no effect."""
_FORBIDDEN = frozenset({"brokerConfigPath", "configBlackList"})
_STATS = frozenset("TOPIC_PUT_NUMS TOPIC_PUT_SIZE GROUP_GET_NUMS GROUP_GET_SIZE SNDBCK_PUT_NUMS".split())
_NO_RATE = {"avgpt": 0.0, "sum": 0, "tps": 0.0}
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
"""Settings of a real broker that mqadmin prints; they have no effect in the stub."""


@handles(RequestCode.GET_BROKER_CONFIG)
def get_broker_config(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Return the broker's settings under RocketMQ's names, in the form of a properties file."""
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
    return response(fields=GetBrokerConfigResponseHeader(version=version), body=text.encode())


@handles(RequestCode.UPDATE_BROKER_CONFIG)
def update_broker_config(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Change settings of this broker; store unknown ones without effect, ignore malformed numbers.

    Refuse all changes if one of them is of a setting that must not be changed.
    """
    lines = (
        line.partition("=")
        for line in request.body.decode(errors="replace").splitlines()
        if "=" in line and line[0] != "#"
    )
    changes = {name.strip(): value.strip() for name, _, value in lines}
    if _FORBIDDEN & changes.keys():
        raise Refusal(ResponseCode.NO_PERMISSION, "Can not update config in black list.")
    for name, value in changes.items():
        _configure(broker, name, value)
    broker.group_configs.auto_create = broker.settings.auto_create_groups
    return response()


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
def get_runtime_info(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Return the broker's statistics that mqadmin prints; rates are constants."""
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
        "runtime": _uptime(int(broker.clock.elapsed_ms())),
        "timerCongestNum": str(len(broker.delayed_messages.waiting_timers)),
    }
    return response(body=encode_body(KVTable(table=figures)))


def _uptime(elapsed_ms: int) -> str:
    """Return a time span as a broker reports its uptime, in whole seconds."""
    minutes, seconds = divmod(elapsed_ms // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]"


def _earliest_time(broker: Broker) -> int:
    """Return the store time of the oldest message in milliseconds; -1 if there is none."""
    log = broker.store.log
    first = next(iter(log.records(log.min_offset)), None)
    return decode_record(first[1])[0].store_timestamp if first else -1


_QUEUES = ("ack", "litePull", "pull", "query", "send")
_RATES = "getFoundTps getMissTps getTotalTps getTransferedTps getTransferredTps putTps"
_ZEROS = """
    EndTransactionQueueSize dispatchBehindBytes dispatchMaxBuffer getMessageEntireTimeMax
    msgGetTotalTodayMorning msgGetTotalTodayNow msgGetTotalYesterdayMorning msgPutTotalTodayMorning
    msgPutTotalYesterdayMorning pageCacheLockTimeMills putMessageEntireTimeMax putMessageFailedTimes
    startAcceptSendRequestTimeStamp timerOffsetBehind timerReadBehind
"""
_IDLE_FIGURES = {
    **{f"{name}ThreadPoolQueueSize": "0" for name in _QUEUES},
    **{f"{name}ThreadPoolQueueCapacity": "100000" for name in _QUEUES},
    **{f"{name}ThreadPoolQueueHeadWaitTimeMills": "0" for name in _QUEUES},
    **dict.fromkeys(_ZEROS.split(), "0"),
    **dict.fromkeys("commitLogDiskRatio consumeQueueDiskRatio timerDequeueTps timerEnqueueTps".split(), "0.0"),
    **dict.fromkeys(_RATES.split(), "0.0 0.0 0.0"),
    "EndTransactionThreadPoolQueueCapacity": "100000",
    "commitLogDirCapacity": "Total : 0 B, Free : 0 B.",
    "putLatency99": "0.00",
    "putLatency999": "0.00",
    "putMessageDistributeTime": "null",
    "remainHowManyDataToFlush": "0 B",
    "remainTransientStoreBufferNumbs": "2147483647",
}


@members
class ViewBrokerStatsDataRequestHeader(RequestHeader):
    """Header of a request for statistics of a topic or group."""

    stats_name: str
    stats_key: str


@handles(AdminCode.VIEW_BROKER_STATS_DATA)
def view_stats(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Return the statistics of a topic or group; all rates are zero."""
    header = request.header(ViewBrokerStatsDataRequestHeader)
    if header.stats_name not in _STATS or not broker.topics.find(header.stats_key.partition("@")[0]):
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"The stats <{header.stats_name}> <{header.stats_key}> not exist")
    return response(body=fastjson.write({"statsDay": _NO_RATE, "statsHour": _NO_RATE, "statsMinute": _NO_RATE}))


# --- disks and replicas ----------------------------------------------------------------------------------------------


@handles(
    AdminCode.CLEAN_EXPIRED_CONSUMEQUEUE,
    AdminCode.CLEAN_UNUSED_TOPIC,
    AdminCode.DELETE_EXPIRED_COMMITLOG,
    AdminCode.RESET_MASTER_FLUSH_OFFSET,
    AdminCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG,
    AdminCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG,
)
def accept_upkeep(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Accept a request about files or limits without effect: the stub has no files to clean or limit."""
    return response()


@handles(AdminCode.POP_ROLLBACK)
def roll_back_pops(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Accept a rollback of popped messages without effect, because the stub pops no messages over remoting."""
    return response(remark=NO_REMARK)


@handles(AdminCode.SET_COMMITLOG_READ_MODE)
def set_read_mode(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Accept a read-ahead mode without effect, because the stub reads no files; refuse an unknown mode."""
    mode = (request.command.fields or {}).get("READ_AHEAD_MODE")
    if mode is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, "set commitlog readahead mode failed")
    if mode not in ("0", "1"):
        raise Refusal(illegal_code(broker.release), "set commitlog readahead mode param value error")
    return response(remark=f"set commitlog readahead mode success, mode: {mode}")


@handles(AdminCode.GET_COLD_DATA_FLOW_CTR_INFO)
def get_cold_limits(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Return an empty list of groups with limited reads, because the stub reads nothing from disk."""
    thresholds = {"cgColdReadThreshold": 3 * 1024 * 1024, "globalColdReadThreshold": 100 * 1024 * 1024}
    return response(body=fastjson.write({"runtimeTable": {}, "configTable": {}, **thresholds, "globalAcc": 0}))


@handles(AdminCode.GET_BROKER_HA_STATUS)
def get_replication(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Return how much of the log each of the master's slaves has copied; a slave returns an empty list.

    The response always says that the whole log is copied, even if a test lets the slaves lag behind in pulls.
    """
    slaves = [
        other for other in broker.cluster.reachable_brokers() if other.name == broker.name and not other.is_master
    ]
    end = broker.store.log.end
    copied: dict[str, Any] = {"diff": 0, "inSync": True, "slaveAckOffset": end, "transferFromWhere": end}
    connections = [
        {"addr": str(slave.address), **copied, "transferredByteInSecond": 0} for slave in slaves if broker.is_master
    ]
    status: dict[str, Any] = {
        "haClientRuntimeInfo": dict.fromkeys(_NOTHING_COPIED, 0),
        "haConnectionInfo": connections,
        "inSyncSlaveNums": len(connections),
        "master": broker.is_master,
        "masterCommitLogMaxOffset": end if broker.is_master else 0,
    }
    return response(body=fastjson.write(status))


_NOTHING_COPIED = (
    "lastReadTimestamp",
    "lastWriteTimestamp",
    "masterFlushOffset",
    "maxOffset",
    "transferredByteInSecond",
)
