"""Parse options in tests, and hold one sample value for each implemented option."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from pyspark_rocketmq.errors import OptionError
from pyspark_rocketmq.options import HelperOptions, ReaderOptions, parse_helper_options, parse_reader_options

NOW_S = 1_800_000_000.0
LEAST = {"nameServer": "ns:9876", "subscribe": "orders"}
"""The options that every read needs."""

ORDERLY = {"ordering": "queue", "consumerGroup": "spark-orders"}
SHARED = {"groupMembership": "shared", "consumerGroup": "spark-orders"}
LOCKING = {"lockQueues": "true", **ORDERLY}

SAMPLES: dict[str, tuple[str, dict[str, str]]] = {
    "nameServer": ("other:9876", {}),
    "brokerAddressMap": ('{"10.0.0.1:10911": "localhost:10911"}', {}),
    "connectTimeoutMillis": ("5s", {}),
    "mqClientApiTimeout": ("4000", {}),
    "pollNameServerInterval": ("2m", {}),
    "maxFrameSize": ("32m", {}),
    "subscribe": ("orders, payments", {}),
    "subscribePattern": ("ord.*", {}),
    "assign": ('{"orders": {"broker-a": [0, 1]}}', {}),
    "tags": ("paid || sent", {}),
    "sqlFilter": ("amount > 10", {}),
    "startingOffsets": ("earliest", {}),
    "startingOffsetsDefault": ("earliest", {}),
    "startingTimestamp": ("-2h", {}),
    "startingOffsetsByTimestamp": ('{"orders": "-1d"}', {}),
    "startingOffsetsByTimestampStrategy": ("latest", {"startingTimestamp": "-2h"}),
    "endingOffsets": ('{"orders": {"broker-a": {"0": 7}}}', {}),
    "endingTimestamp": ("2026-01-31T00:00:00Z", {}),
    "endingOffsetsByTimestamp": ('{"orders": {"broker-a": {"0": 5}}}', {}),
    "failOnDataLoss": ("FALSE", {}),
    "fetchOffset.numRetries": ("0", {}),
    "fetchOffset.retryIntervalMs": ("2s", {}),
    "maxOffsetsPerTrigger": ("100", {}),
    "maxOffsetsPerQueue": ("10", {}),
    "minOffsetsPerTrigger": ("5", {}),
    "maxTriggerDelay": ("1m", {"minOffsetsPerTrigger": "5"}),
    "allocateMessageQueueStrategy": ("AllocateMessageQueueAveragelyByCircle", {}),
    "virtualNodeCnt": ("20", {"allocateMessageQueueStrategy": "consistent_hash"}),
    "messageQueueList": ('[{"orders": {"broker-a": "*"}}]', {"allocateMessageQueueStrategy": "CONFIG"}),
    "machineRooms": ("east, west", {"allocateMessageQueueStrategy": "MACHINE_ROOM_NEARBY"}),
    "brokerRooms": ('{"broker-a": "east"}', {"allocateMessageQueueStrategy": "MACHINE_ROOM_NEARBY-AVG_BY_CIRCLE"}),
    "minPartitions": ("4", {}),
    "maxPartitions": ("2", {}),
    "maxRecordsPerPartition": ("1000", {}),
    "ordering": ("queue", {}),
    "consumerGroup": ("spark-orders", {}),
    "commitOffsets": ("none", {"consumerGroup": "spark-orders"}),
    "persistConsumerOffsetInterval": ("5s", {"consumerGroup": "spark-orders"}),
    "readRetryTopic": ("true", {"consumerGroup": "spark-orders"}),
    "maxReconsumeTimes": ("3", {}),
    "delayLevelWhenNextConsume": ("-1", {}),
    "pullBatchSize": ("64", {}),
    "pullPipelineDepth": ("8", {}),
    "pullThresholdForQueue": ("500", {}),
    "pullThresholdForTopic": ("4000", {}),
    "pullThresholdSizeForQueue": ("64m", {}),
    "pullThresholdSizeForTopic": ("200", {}),
    "consumeConcurrentlyMaxSpan": ("100", {}),
    "pullInterval": ("10", {}),
    "pullTimeDelayMillsWhenFlowControl": ("50", {}),
    "pullTimeDelayMillsWhenException": ("3s", {}),
    "pullTimeoutMs": ("20s", {}),
    "pullMaxRetries": ("0", {}),
    "pollTimeoutMs": ("1h", {}),
    "readFrom": ("Master", {}),
    "arrowBatchSize": ("500", {}),
    "rowLayout": ("kafka", {}),
    "columns": ("body, MSGID", {}),
    "includeHeaders": ("true", {"rowLayout": "kafka"}),
    "propertiesFormat": ("json", {}),
    "includeSystemProperties": ("true", {}),
    "mode": ("permissive", {}),
    "checkCrc": ("true", {}),
    "accessKey": ("AK", {"secretKey": "SK"}),
    "secretKey": ("SK", {"accessKey": "AK"}),
    "securityToken": ("token", {"accessKey": "AK", "secretKey": "SK"}),
    "allowedBrokers": ("10.1.0.0/16, broker-a:10911", {}),
    "namespace": ("NS", {}),
    "useTLS": ("true", {}),
    "tlsTrustCertPath": ("ca.pem", {"useTLS": "true"}),
    "tlsTrustCert": ("-----BEGIN", {"useTLS": "true"}),
    "tlsClientCertPath": ("c.pem", {"useTLS": "true", "tlsClientKeyPath": "k.pem"}),
    "tlsClientKeyPath": ("k.pem", {"useTLS": "true", "tlsClientCertPath": "c.pem"}),
    "tlsClientKeyPassword": ("hush", {"useTLS": "true", "tlsClientCertPath": "c.pem", "tlsClientKeyPath": "k.pem"}),
    "tlsAuthServer": ("false", {"useTLS": "true"}),
    "messageModel": ("broadcasting", {"consumerGroup": "spark-orders"}),
    "localOffsetStoreDir": ("offsets", {"messageModel": "BROADCASTING", "consumerGroup": "spark-orders"}),
    "instanceName": ("one", {"messageModel": "BROADCASTING"}),
    "unitName": ("unit", {"messageModel": "BROADCASTING"}),
    "groupMembership": ("Shared", {"consumerGroup": "spark-orders"}),
    "rebalanceInterval": ("5s", SHARED),
    "heartbeatBrokerInterval": ("5s", SHARED),
    "lockQueues": ("true", ORDERLY),
    "lockInterval": ("10s", LOCKING),
    "lockMaxLiveTime": ("60s", LOCKING),
    "deadLetterTopic": ("dead-orders", {}),
    "consumerRooms": ('{"10.0.1.*": "east"}', {"allocateMessageQueueStrategy": "MACHINE_ROOM_NEARBY", **SHARED}),
    "strictOptions": ("warn", {}),
}
"""Main name → a value that differs from the default, and the other options that this option needs.

`credentialsFile` needs a file and has tests of its own.
"""

ONE_OF_THREE = {"subscribe", "subscribePattern", "assign"}
BATCH_ONLY = {"endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"}
HELPERS_ONLY = {"maxReconsumeTimes", "delayLevelWhenNextConsume", "deadLetterTopic"}


def read(raw: Mapping[str, str], *, stream: bool | None = True) -> ReaderOptions:
    """Return the settings of a reader with these options, without environment variables and at a fixed time."""
    return parse_reader_options(raw, stream=stream, env={}, clock=lambda: NOW_S)


def settings_of(main: str, raw: Mapping[str, str]) -> ReaderOptions | HelperOptions:
    """Return the settings from these options, in a read or a helper function, whichever accepts the option `main`."""
    if main in HELPERS_ONLY:
        return parse_helper_options(raw, env={}, clock=lambda: NOW_S)
    return read(raw, stream=main not in BATCH_ONLY)


def read_least(stream: bool | None = True, /, **more: str) -> ReaderOptions:
    """Return the settings of a read with the least options and these; in their names, `__` stands for a dot."""
    return read(LEAST | {name.replace("__", "."): text for name, text in more.items()}, stream=stream)


def refusal_of(main: str, raw: Mapping[str, str]) -> OptionError:
    """Return the error that these options raise in a read or a helper function, whichever accepts the option `main`."""
    with pytest.raises(OptionError) as caught:
        settings_of(main, raw)
    return caught.value


def error_of(raw: Mapping[str, str], *, stream: bool | None = True) -> OptionError:
    """Return the error that a read with these options raises."""
    with pytest.raises(OptionError) as caught:
        read(raw, stream=stream)
    return caught.value


def raw_with(name: str, text: str, main: str = "") -> dict[str, str]:
    """Return the options of a read with one option, under any of its names, and the other options that it needs."""
    main = main or name
    replaced = {"subscribe"} if main in ONE_OF_THREE else {main}
    base = {given: value for given, value in LEAST.items() if given not in replaced}
    return {**base, **SAMPLES[main][1], name: text}
