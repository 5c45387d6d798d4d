"""If options contradict each other, or one needs another that is missing, the error names both."""

from __future__ import annotations

import pytest

from pyspark_rocketmq.options import require_topics
from pyspark_rocketmq.options.conflicts import RULES
from tests.options.samples import LEAST, LOCKING, SHARED, error_of, read

CONFIG = {"allocateMessageQueueStrategy": "CONFIG", "messageQueueList": '[{"orders": "*"}]'}
TLS = {"useTLS": "true"}
NEARBY = {"allocateMessageQueueStrategy": "MACHINE_ROOM_NEARBY"}
GROUP = {"consumerGroup": "g"}
BROADCASTING = {"messageModel": "BROADCASTING"}
KEYS = {"accessKey": "AK", "secretKey": "SK"}

STREAM: list[tuple[str, dict[str, str], str]] = [
    ("subscribe", {"subscribePattern": "o.*"}, "subscribePattern"),
    ("subscribe", {"assign": '{"orders": "*"}'}, "assign"),
    ("sqlFilter", {"sqlFilter": "a > 1", "tags": "x"}, "tags"),
    ("startingOffsets", {"startingOffsets": "group"}, "consumerGroup"),
    ("startingOffsets", {"startingOffsets": '{"orders": {"*": {"*": -3}}}'}, "consumerGroup"),
    (
        "startingOffsetsDefault",
        {"startingOffsetsDefault": "latest", "startingTimestamp": "-1h"},
        "startingTimestamp",
    ),
    ("startingOffsetsByTimestampStrategy", {"startingOffsetsByTimestampStrategy": "latest"}, "startingTimestamp"),
    ("minOffsetsPerTrigger", {"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "maxOffsetsPerTrigger"),
    ("maxTriggerDelay", {"maxTriggerDelay": "1m"}, "minOffsetsPerTrigger"),
    ("virtualNodeCnt", {"virtualNodeCnt": "5"}, "allocateMessageQueueStrategy"),
    ("messageQueueList", {"messageQueueList": '[{"orders": "*"}]'}, "allocateMessageQueueStrategy"),
    ("machineRooms", {"machineRooms": "east"}, "allocateMessageQueueStrategy"),
    (
        "brokerRooms",
        {"brokerRooms": '{"a": "east"}', "allocateMessageQueueStrategy": "MACHINE_ROOM", "machineRooms": "east"},
        "allocateMessageQueueStrategy",
    ),
    ("maxPartitions", {"maxPartitions": "2", **CONFIG}, "allocateMessageQueueStrategy"),
    ("minPartitions", {"minPartitions": "3", "maxPartitions": "2"}, "maxPartitions"),
    ("minPartitions", {"minPartitions": "3", "ordering": "queue"}, "ordering"),
    ("maxRecordsPerPartition", {"maxRecordsPerPartition": "3", "ordering": "queue"}, "ordering"),
    ("consumeConcurrentlyMaxSpan", {"consumeConcurrentlyMaxSpan": "3", "ordering": "queue"}, "ordering"),
    ("commitOffsets", {"commitOffsets": "batch"}, "consumerGroup"),
    ("consumerGroup", {"commitOffsets": "batch", "consumerGroup": "TOOLS_CONSUMER"}, "commitOffsets"),
    ("consumerGroup", {"readRetryTopic": "true", "consumerGroup": "TOOLS_CONSUMER"}, "readRetryTopic"),
    ("persistConsumerOffsetInterval", {"persistConsumerOffsetInterval": "5s"}, "commitOffsets"),
    (
        "persistConsumerOffsetInterval",
        {"persistConsumerOffsetInterval": "5s", "commitOffsets": "none", **GROUP},
        "commitOffsets",
    ),
    ("localOffsetStoreDir", {"localOffsetStoreDir": "d", **GROUP}, "messageModel=BROADCASTING"),
    ("localOffsetStoreDir", {"localOffsetStoreDir": "d", **BROADCASTING}, "consumerGroup"),
    ("startingOffsets", {"startingOffsets": "group", **GROUP, **BROADCASTING}, "localOffsetStoreDir"),
    ("commitOffsets", {"commitOffsets": "batch", **GROUP, **BROADCASTING}, "localOffsetStoreDir"),
    ("persistConsumerOffsetInterval", {"persistConsumerOffsetInterval": "1s", **GROUP, **BROADCASTING}, "commitOff"),
    ("messageModel", {**LOCKING, **BROADCASTING}, "lockQueues"),
    ("messageModel", {**SHARED, **BROADCASTING}, "groupMembership=shared"),
    ("rebalanceInterval", {"rebalanceInterval": "5s", **GROUP}, "groupMembership=shared"),
    ("heartbeatBrokerInterval", {"heartbeatBrokerInterval": "5s", **GROUP}, "nothing is registered"),
    ("consumerGroup", {"groupMembership": "shared"}, "groupMembership=shared"),
    ("consumerGroup", {**SHARED, "consumerGroup": "TOOLS_CONSUMER"}, "groupMembership=shared"),
    ("commitOffsets", {**SHARED, "commitOffsets": "none"}, "groupMembership=shared"),
    ("readRetryTopic", {**SHARED, "readRetryTopic": "false"}, "groupMembership=shared"),
    ("startingOffsets", {**SHARED, "startingOffsets": "earliest"}, "groupMembership=shared"),
    ("startingOffsets", {**SHARED, "startingOffsets": '{"orders": {"*": {"*": -3}}}'}, "groupMembership=shared"),
    ("startingTimestamp", {**SHARED, "startingTimestamp": "-1h"}, "groupMembership=shared"),
    ("startingOffsetsByTimestamp", {**SHARED, "startingOffsetsByTimestamp": '{"orders": 1}'}, "Membership=shared"),
    ("messageQueueList", {**SHARED, **CONFIG, "messageQueueList": '[{"a": "*"}, {"b": "*"}]'}, "Membership=shared"),
    ("consumerRooms", {"consumerRooms": '{"*": "east"}', **SHARED}, "MACHINE_ROOM_NEARBY"),
    ("consumerRooms", {"consumerRooms": '{"*": "east"}', **NEARBY}, "groupMembership=shared"),
    ("machineRooms", {**SHARED, **NEARBY, "machineRooms": "east", "consumerRooms": '{"*": "east"}'}, "consumerRooms"),
    ("lockQueues", {"lockQueues": "true", **GROUP}, "ordering=queue"),
    ("lockQueues", {"lockQueues": "true", "ordering": "queue"}, "consumerGroup"),
    ("consumerGroup", {**LOCKING, "consumerGroup": "TOOLS_CONSUMER"}, "lockQueues"),
    ("lockInterval", {"lockInterval": "5s"}, "lockQueues"),
    ("lockMaxLiveTime", {"lockMaxLiveTime": "5s", "lockQueues": "false"}, "lockQueues"),
    ("lockInterval", {**LOCKING, "lockInterval": "30s"}, "lockMaxLiveTime"),
    ("lockInterval", {**LOCKING, "lockMaxLiveTime": "20s"}, "lockMaxLiveTime"),
    ("messageModel", {"readRetryTopic": "true", **GROUP, **BROADCASTING}, "readRetryTopic"),
    ("pollTimeoutMs", {"pollTimeoutMs": "9s"}, "pullTimeoutMs"),
    ("pollTimeoutMs", {"pullTimeoutMs": "120s"}, "pullTimeoutMs"),
    ("propertiesFormat", {"propertiesFormat": "json", "columns": "body"}, "properties"),
    ("propertiesFormat", {"propertiesFormat": "map", "rowLayout": "kafka"}, "properties"),
    ("accessKey", {"accessKey": "AK"}, "secretKey"),
    ("secretKey", {"secretKey": "SK"}, "accessKey"),
    ("securityToken", {"securityToken": "T"}, "accessKey"),
    *[("credentialsFile", {"credentialsFile": "f", name: "x"} | KEYS, "accessKey") for name in KEYS],
    ("tlsTrustCertPath", {"tlsTrustCertPath": "f"}, "useTLS"),
    ("tlsTrustCert", {"tlsTrustCert": "f", "useTLS": "false"}, "useTLS"),
    ("tlsClientCertPath", {"tlsClientCertPath": "f"}, "useTLS"),
    ("tlsClientKeyPath", {"tlsClientKeyPath": "f"}, "useTLS"),
    ("tlsClientKeyPassword", {"tlsClientKeyPassword": "f"}, "useTLS"),
    ("tlsAuthServer", {"tlsAuthServer": "true"}, "useTLS"),
    ("tlsTrustCertPath", {"tlsTrustCertPath": "f", "tlsTrustCert": "PEM", **TLS}, "tlsTrustCert"),
    ("tlsClientCertPath", {"tlsClientCertPath": "f", **TLS}, "tlsClientKeyPath"),
    ("tlsClientKeyPath", {"tlsClientKeyPath": "f", **TLS}, "tlsClientCertPath"),
    ("tlsClientKeyPassword", {"tlsClientKeyPassword": "f", **TLS}, "tlsClientKeyPath"),
]


@pytest.mark.parametrize(("option", "raw", "other"), STREAM)
def test_what_contradicts_itself(option: str, raw: dict[str, str], other: str) -> None:
    """If two options conflict, their order does not matter, and the conflict is found even before the use is known."""
    forward, backward = LEAST | raw, dict(reversed((LEAST | raw).items()))

    errors = [error_of(each, stream=stream) for each in (forward, backward) for stream in (True, None)]

    for error in errors:
        assert (error.option, error.code) == (option, "OPTION_CONFLICT")
        assert other in str(error) and error.advice


def test_pattern_and_assign() -> None:
    """If both `subscribePattern` and `assign` are given, an error is raised."""
    error = error_of({"nameServer": "a:1", "subscribePattern": "x", "assign": '{"orders": "*"}'})

    assert error.code == "OPTION_CONFLICT" and "exactly one of subscribe, subscribePattern and assign" in str(error)


@pytest.mark.parametrize(("strategy", "option"), [("CONFIG", "messageQueueList"), ("MACHINE_ROOM", "machineRooms")])
def test_what_a_strategy_requires(strategy: str, option: str) -> None:
    """If a strategy needs a list that is not given, the strategy is refused."""
    error = error_of(LEAST | {"allocateMessageQueueStrategy": strategy})

    assert (error.option, error.code) == (option, "OPTION_MISSING") and strategy in str(error)


@pytest.mark.parametrize(
    ("option", "raw"),
    [
        ("startingOffsets", {"startingOffsets": "latest"}),
        ("startingOffsets", {"startingOffsets": '{"orders": {"a": {"0": -1}}}'}),
        ("startingOffsetsDefault", {"startingOffsetsDefault": "latest"}),
        (
            "startingOffsetsByTimestampStrategy",
            {"startingOffsetsByTimestampStrategy": "latest", "startingTimestamp": "-1h"},
        ),
    ],
)
def test_a_batch_read_does_not_start_at_the_end(option: str, raw: dict[str, str]) -> None:
    """If a batch read starts at the latest offset, it is refused; a stream may start there."""
    error = error_of(LEAST | raw, stream=False)

    assert (error.option, error.code) == (option, "OPTION_VALUE") and "latest" in str(error)
    assert read(LEAST | raw, stream=True)


def test_retries_are_a_groups() -> None:
    """If the retry topic shall be read, a group must be given; if it shall not be read, no group is needed."""
    error = error_of(LEAST | {"readRetryTopic": "true"})

    assert (error.option, error.code) == ("readRetryTopic", "OPTION_MISSING") and "consumerGroup" in str(error)
    assert read(LEAST | {"readRetryTopic": "false"}).selection.retry_topic is None


def test_headers_belong_to_the_kafka_layout() -> None:
    """With the layout `rocketmq`, the option `includeHeaders` is refused."""
    error = error_of(LEAST | {"includeHeaders": "true"})

    assert (error.option, error.code) == ("includeHeaders", "OPTION_SCOPE")
    assert "properties is already there" in str(error)


def test_a_server_is_needed() -> None:
    """If no name server is given, the options are refused, even before it is known whether they are for a read."""
    error = error_of({"subscribe": "orders"}, stream=None)

    assert error.code == "OPTION_MISSING" and "nameServer (host:9876)" in str(error)


@pytest.mark.parametrize("stream", [True, False])
def test_something_must_be_read(stream: bool) -> None:
    """If a read selects no topics, it is refused; while the use is unknown it is not, since a write needs no topics."""
    error = error_of({"nameServer": "a:1"}, stream=stream)

    assert error.code == "OPTION_MISSING" and "exactly one of subscribe, subscribePattern and assign" in str(error)
    with pytest.raises(type(error), match="OPTION_MISSING"):
        require_topics(read({"nameServer": "a:1"}, stream=None))


def test_defaults_contradict_nobody() -> None:
    """If a given limit contradicts only the default of another option, it is accepted."""
    assert read(LEAST | {"minOffsetsPerTrigger": "1", "maxOffsetsPerTrigger": "1", "ordering": "queue"})
    assert read(LEAST | {"consumerGroup": "TOOLS_CONSUMER"}).commit.group is None


def test_every_rule_has_advice() -> None:
    """Every rule has an error text, an advice and a documented code."""
    assert [rule.option.name for rule in RULES if not (rule.what and rule.advice)] == []


@pytest.mark.parametrize("stream", [True, False])
def test_an_instance_needs_something_that_bears_its_name(stream: bool) -> None:
    """If a read has no client id, options that name the client are refused; before the use is known they are not."""
    error = error_of(LEAST | {"instanceName": "one"}, stream=stream)

    assert error.code == "OPTION_CONFLICT" and "bears a client id" in str(error)
    assert read(LEAST | {"instanceName": "one"}, stream=None)


@pytest.mark.parametrize("which", [{"assign": '{"orders": "*"}'}, {"subscribePattern": "ord.*"}])
def test_a_member_subscribes_topics_by_name(which: dict[str, str]) -> None:
    """If a group member selects topics by pattern or lists queues, it is refused: members must name the same topics."""
    error = error_of({"nameServer": "a:1", **SHARED, **which})

    assert (error.option, error.code) == (next(iter(which)), "OPTION_CONFLICT")
    assert "groupMembership=shared" in str(error)


def test_a_batch_read_is_no_member() -> None:
    """If a batch read is to be a group member, it is refused."""
    assert error_of(LEAST | SHARED, stream=False).code == "OPTION_SCOPE"


def test_rooms_of_members_are_needed_where_rooms_divide() -> None:
    """If members use MACHINE_ROOM_NEARBY, the option with the rooms of members is required."""
    error = error_of(LEAST | SHARED | NEARBY)

    assert (error.option, error.code) == ("consumerRooms", "OPTION_MISSING")
