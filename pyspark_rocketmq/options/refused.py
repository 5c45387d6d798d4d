"""Refuse options of RocketMQ, Kafka and other connectors, and name what replaces them.

Such an option would conflict with Spark, or has another name here. Accepting it without effect would mislead, so it is
refused, and the error names the replacement. For some options the replacement depends on the value.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ..errors import OptionError

__all__ = ["REFUSED", "find_refusal"]

REFUSED: dict[tuple[str, ...], str] = {
    ("path",): "use subscribe to read topics, topic to write to one",
    ("consumer.offset.reset.to", "kafka.auto.offset.reset", "start.mode"): "use startingOffsets",
    ("autoCommit", "kafka.enable.auto.commit", "commit.on.checkpoint", "offsetStore"): "use commitOffsets",
    ("consumeMessageBatchMaxSize",): "use arrowBatchSize; for rows per micro-batch maxOffsetsPerTrigger",
    (
        "consumeThreadMin",
        "consumeThreadMax",
        "adjustThreadPoolNumsThreshold",
        "numTasks",
    ): "use minPartitions and maxPartitions: Spark runs the work",
    (
        "consumeTimeout",
    ): "leave it out: Spark owns running tasks; pollTimeoutMs guards the pull side, send_back the rows",
    ("suspendCurrentQueueTimeMillis", "maxTimeConsumeContinuously"): "use the trigger interval: a failed batch is "
    'replayed as a whole; within a batch retry.consume(model="orderly")',
    ("ackIndex",): "choose the rows for send_back",
    ("unlockDelayTimeMills",): "use lockMaxLiveTime",
    ("messageDelayLevel", "retryMaxTimes", "retryQueueNums", "flushConsumerOffsetInterval", "rocketmq.broker.*"): "it "
    "is a setting of the broker, set it there",
    ("backPressureForAsyncSendNum",): "use maxInFlight",
    ("retryTimesWhenSendAsyncFailed",): "use retryTimesWhenSendFailed",
    ("batchMaxBytes", "batchMaxDelayMs", "autoBatch"): "use sendBatchSize",
    ("postSubscriptionWhenPull",): "leave it out: it is always on here",
    ("pullBatchSizeInBytes",): "leave it out: no broker reads it",
    (
        "vipChannelEnabled",
        "unitMode",
        "clientRebalance",
        "popInvisibleTime",
        "popBatchNums",
        "popThresholdForQueue",
        "awaitTerminationMillisWhenShutdown",
        "compressLevel",
        "createTopicKey",
        "defaultTopicQueueNums",
        "messageQueueListener",
        "messageListener",
        "traceDispatcher",
        "rpcHook",
    ): "leave it out: there is no counterpart",
    ("groupIdPrefix", "kafka.group.id", "predefinedSubscription"): "use consumerGroup",
    ("kafka.bootstrap.servers",): "use nameServer",
    ("kafka.client.id", "clientIdPrefix"): "use instanceName",
    ("kafka.partition.assignment.strategy",): "use allocateMessageQueueStrategy",
    ("kafka.max.poll.records",): "use pullBatchSize",
    ("kafka.metadata.max.age.ms",): "use pollNameServerInterval",
    ("kafka.request.timeout.ms", "kafka.default.api.timeout.ms"): "use mqClientApiTimeout",
    ("kafka.security.protocol",): "use useTLS; for ACL accessKey and secretKey",
    ("kafka.sasl.*",): "use accessKey and secretKey, or credentialsFile",
    ("kafka.ssl.*",): "use useTLS with tlsTrustCertPath and its kin",
    ("kafka.*",): "leave it out: there is no counterpart",
    (
        "ak",
        "sk",
        "access.key",
        "secret.key",
        "acl.enabled",
    ): "use accessKey and secretKey (setting them turns ACL on) or credentialsFile",
    ("rocketmq.client.endpoints",): "use nameServer",
}
"""The refused names, also refused with `rocketmq.` before them, and the advice for each; `*` stands for any ending."""

_CLOCK = re.compile(r"(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)")
_STARTS = {
    "last": "startingOffsets=group and startingOffsetsDefault=latest",
    "first": "startingOffsets=group and startingOffsetsDefault=earliest",
    "timestamp": "startingOffsets=group and startingTimestamp",
}


def _translate_start(text: str) -> str:
    """Return advice that names the options by which to replace RocketMQ's `consumeFromWhere` with this value."""
    meant = next((ours for word, ours in _STARTS.items() if word in text.lower()), None)
    return f"use {meant or '; or '.join(_STARTS.values())}"


def _translate_clock(text: str) -> str:
    """Return advice to replace RocketMQ's `consumeTimestamp` by `startingTimestamp`; the user must add a time zone."""
    match = _CLOCK.fullmatch(text.strip())
    if match is None:
        return "use startingTimestamp"
    year, month, day, hour, minute, second = match.groups()
    iso = f"{year}-{month}-{day}T{hour}:{minute}:{second}"
    return f"use startingTimestamp={iso}<zone>, for example {iso}Z or {iso}+08:00"


TRANSLATED: dict[str, Callable[[str], str]] = {
    "consumeFromWhere": _translate_start,
    "consumeTimestamp": _translate_clock,
}
"""Refused names whose advice depends on the value, and the function that returns the advice."""

_ADVICE = {name.lower(): advice for names, advice in REFUSED.items() for name in names}
_BY_VALUE = {name.lower(): translate for name, translate in TRANSLATED.items()}


def find_refusal(key: str, text: str) -> OptionError | None:
    """Return the error for a key that names a refused option of RocketMQ, Kafka or another connector, else None.

    The error shows the key's value only if its advice depends on the value.
    """
    for name in (key.lower(), key.lower().removeprefix("rocketmq.")):
        if name in _BY_VALUE:
            return _refuse(key, text, _BY_VALUE[name](text))
        advice = _ADVICE.get(name) or _advice_for_family(name)
        if advice:
            return _refuse(key, "***", advice)
    return None


def _advice_for_family(name: str) -> str | None:
    families = (family for family in _ADVICE if family.endswith("*") and name.startswith(family[:-1]))
    return next((_ADVICE[family] for family in families), None)


def _refuse(key: str, shown: str, advice: str) -> OptionError:
    return OptionError(key, shown, "not supported", advice=advice, code="OPTION_REFUSED")
