"""Tests of the handlers for members, groups and one broker's administration."""

from __future__ import annotations

import json
from typing import Any

import pytest

from broker_stub.group_tables import Member
from broker_stub.requests import HELD
from pyspark_rocketmq.model import MessageQueue
from pyspark_rocketmq.wire.bodies import (
    CheckClientRequestBody,
    ConsumerConnection,
    ConsumerData,
    ConsumeStats,
    GetConsumerListByGroupResponseBody,
    GroupList,
    HeartbeatData,
    KVTable,
    LockBatchRequestBody,
    LockBatchResponseBody,
    OffsetWrapper,
    ProducerConnection,
    ProducerData,
    QueryConsumeTimeSpanBody,
    ResetOffsetBody,
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
    TopicList,
    build_subscription,
    decode_body,
)
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from pyspark_rocketmq.wire.commands import (
    CheckClientConfigRequestHeader,
    ConsumeMessageDirectlyResultRequestHeader,
    DeleteSubscriptionGroupRequestHeader,
    GetAllDelayOffsetRequestHeader,
    GetAllSubscriptionGroupRequestHeader,
    GetBrokerConfigRequestHeader,
    GetBrokerRuntimeInfoRequestHeader,
    GetConsumerConnectionListRequestHeader,
    GetConsumerListByGroupRequestHeader,
    GetConsumerRunningInfoRequestHeader,
    GetConsumeStatsRequestHeader,
    GetProducerConnectionListRequestHeader,
    GetSubscriptionGroupConfigRequestHeader,
    HeartbeatRequestHeader,
    LockBatchMqRequestHeader,
    QueryConsumeTimeSpanRequestHeader,
    QueryTopicConsumeByWhoRequestHeader,
    QueryTopicsByConsumerRequestHeader,
    ResetConsumerClientOffsetRequestHeader,
    ResetOffsetRequestHeader,
    UnlockBatchMqRequestHeader,
    UnregisterClientRequestHeader,
    UpdateBrokerConfigRequestHeader,
    UpdateSubscriptionGroupRequestHeader,
)
from pyspark_rocketmq.wire.header import Command
from tests.stub.direct_broker import DirectBroker
from tests.stub.recording_channel import RecordingChannel

Q0, Q1 = MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-a", 1)


def beat(
    direct: DirectBroker,
    client_id: str = "c1",
    *,
    fingerprint: int = 0,
    without_sub: bool = False,
    channel: RecordingChannel | None = None,
) -> Command:
    """Send a heartbeat of a client that consumes T in group g and produces in group p; return the response."""
    consumer = ConsumerData(
        group_name="g",
        consume_type="CONSUME_PASSIVELY",
        message_model="CLUSTERING",
        consume_from_where="CONSUME_FROM_LAST_OFFSET",
        subscription_data_set=() if without_sub else (build_subscription("T", "TagA"),),
    )
    data = HeartbeatData(
        client_id=client_id,
        consumer_data_set=(consumer,),
        producer_data_set=(ProducerData(group_name="p"),),
        heartbeat_fingerprint=fingerprint,
        without_sub=without_sub,
    )
    return direct.ask(HeartbeatRequestHeader(), data, channel=channel)


@pytest.fixture
def direct() -> DirectBroker:
    """Return a 5.3.3 broker that has topic T with two queues."""
    made = DirectBroker()
    made.broker.topics.find_or_create("T", 2)
    return made


# --- clients ---------------------------------------------------------------------------------------------------------


def test_a_heartbeat_makes_the_retry_topic(direct: DirectBroker) -> None:
    """A heartbeat creates the group's retry topic, with one readable and writable queue."""
    assert beat(direct).fields == {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"}
    config = direct.broker.topics.find("%RETRY%g")
    assert config and (config.read_queue_nums, config.write_queue_nums, config.perm) == (1, 1, 6)


def test_a_fingerprint_says_whether_subscriptions_changed(direct: DirectBroker) -> None:
    """A heartbeat reports a change only if its fingerprint differs from the last one; omitted subscriptions stay."""
    marks = [beat(direct, fingerprint=mark).fields for mark in (7, 7, 8)]
    assert [mark["IS_SUB_CHANGE"] for mark in marks if mark] == ["false", "false", "true"]
    beat(direct, fingerprint=8, without_sub=True)
    assert direct.broker.consumer_groups.topics_of("g") == ["T"]


def test_4_9_7_reads_no_fingerprint() -> None:
    """A 4.9.7 broker responds without fields, and a heartbeat that omits subscriptions removes them."""
    direct = DirectBroker("4.9.7")
    assert beat(direct, fingerprint=7).fields is None
    beat(direct, fingerprint=7, without_sub=True)
    assert direct.broker.consumer_groups.topics_of("g") == []


def test_a_group_that_is_not_allowed_is_not_registered() -> None:
    """If a group may not be created, 5.x ignores its heartbeat silently, and 4.9.7 still registers its members."""
    for release, members in (("5.3.3", []), ("4.9.7", ["c1"])):
        direct = DirectBroker(release, auto_create_groups=False)
        assert beat(direct).code == ResponseCode.SUCCESS
        group = direct.broker.consumer_groups.table.get("g")
        assert (group.client_ids if group else []) == members


def test_members_are_listed_until_they_leave(direct: DirectBroker) -> None:
    """The member list has each client until it unregisters; for a group without members it is an error."""
    header = GetConsumerListByGroupRequestHeader(consumer_group="g")
    beat(direct)
    beat(direct, "c2", channel=RecordingChannel())
    ids = decode_body(GetConsumerListByGroupResponseBody, direct.ask(header).body).consumer_id_list
    assert ids == ("c1", "c2")
    direct.ask(UnregisterClientRequestHeader(client_id="c1", consumer_group="g", producer_group="p"))
    ids = decode_body(GetConsumerListByGroupResponseBody, direct.ask(header).body).consumer_id_list
    assert ids == ("c2",)
    refused = direct.ask(GetConsumerListByGroupRequestHeader(consumer_group="h"))
    assert (refused.code, refused.remark, refused.fields) == (1, "no consumer for this group, h", {})


@pytest.mark.parametrize(
    ("expression", "kind", "code"),
    [("a > 3", "SQL92", 0), ("a > > 3", "SQL92", 23), ("a > 3", "SQL93", 23), ("x", "TAG", 0)],
)
def test_expressions_are_checked(direct: DirectBroker, expression: str, kind: str, code: int) -> None:
    """If an expression does not compile, the check of a client's subscription is refused with the reason."""
    subscription = build_subscription("T", expression, expression_type=kind)
    body = CheckClientRequestBody(client_id="c", group="g", subscription_data=subscription)
    assert direct.ask(CheckClientConfigRequestHeader(), body).code == code


def test_sql_can_be_off() -> None:
    """If SQL92 is off, which is a real broker's default, the check of a SQL92 subscription is refused."""
    direct = DirectBroker(property_filter=False)
    subscription = build_subscription("T", "a > 3", expression_type="SQL92")
    body = CheckClientRequestBody(client_id="c", group="g", subscription_data=subscription)
    assert direct.ask(CheckClientConfigRequestHeader(), body).code == ResponseCode.SYSTEM_ERROR


def test_locks_are_taken_and_given_back(direct: DirectBroker) -> None:
    """The response to a lock request names exactly the queues that the client then holds."""

    def lock(client_id: str) -> tuple[MessageQueue, ...]:
        body = LockBatchRequestBody(consumer_group="g", client_id=client_id, mq_set=(Q1, Q0))
        return decode_body(LockBatchResponseBody, direct.ask(LockBatchMqRequestHeader(), body).body).lock_ok_mq_set

    assert lock("c1") == (Q1, Q0) and lock("c2") == ()
    unlock = LockBatchRequestBody(consumer_group="g", client_id="c1", mq_set=(Q0,))
    assert direct.ask(UnlockBatchMqRequestHeader(), unlock).code == ResponseCode.SUCCESS
    assert lock("c2") == (Q0,)


# --- groups ----------------------------------------------------------------------------------------------------------


def test_groups_are_made_read_and_deleted(direct: DirectBroker) -> None:
    """A group's deletion may include its offsets, and a later query creates the group again."""
    direct.ask(UpdateSubscriptionGroupRequestHeader(), SubscriptionGroupConfig(group_name="g", retry_max_times=3))
    get = GetSubscriptionGroupConfigRequestHeader(group="g")
    assert decode_body(SubscriptionGroupConfig, direct.ask(get).body).retry_max_times == 3
    direct.broker.offsets.commit("g", "T", 0, 5)
    direct.ask(DeleteSubscriptionGroupRequestHeader(group_name="g", clean_offset=True))
    assert decode_body(SubscriptionGroupConfig, direct.ask(get).body).retry_max_times == 16
    assert direct.broker.offsets.query("g", "T", 0) is None


def test_all_groups_are_listed(direct: DirectBroker) -> None:
    """The list of all groups contains the created groups and the system groups."""
    wrapper = decode_body(SubscriptionGroupWrapper, direct.ask(GetAllSubscriptionGroupRequestHeader()).body)
    assert {"TOOLS_CONSUMER", "CID_ONSAPI_OWNER", "CID_RMQ_SYS_TRANS"} < wrapper.subscription_group_table.keys()
    assert not wrapper.subscription_group_table["CID_ONSAPI_OWNER"].consume_message_orderly


def test_a_group_without_auto_creation_is_not_found() -> None:
    """If auto-creation is off, a query for a missing group is refused and does not create the group."""
    direct = DirectBroker(auto_create_groups=False)
    refused = direct.ask(GetSubscriptionGroupConfigRequestHeader(group="g"))
    assert (refused.code, refused.remark) == (26, "No group in this broker")


def test_connections_are_described(direct: DirectBroker) -> None:
    """Consumers are described with their subscriptions and producers without; for an absent group it is an error."""
    beat(direct)
    consumers = direct.ask(GetConsumerConnectionListRequestHeader(consumer_group="g"))
    described = decode_body(ConsumerConnection, consumers.body)
    (connection,) = described.connection_set
    assert (connection.client_id, connection.client_addr, connection.language) == ("c1", "127.0.0.1:50000", "PYTHON")
    assert described.subscription_table["T"].sub_string == "TagA"
    producers = direct.ask(GetProducerConnectionListRequestHeader(producer_group="p"))
    assert len(decode_body(ProducerConnection, producers.body).connection_set) == 1
    assert direct.ask(GetConsumerConnectionListRequestHeader(consumer_group="h")).code == 206
    assert direct.ask(GetProducerConnectionListRequestHeader(producer_group="h")).code == 1


@pytest.mark.parametrize(("release", "groups"), [("5.3.3", {"old", "T"}), ("4.9.7", {"old", "g"})])
def test_who_consumes_a_topic(release: str, groups: set[str]) -> None:
    """Groups with offsets in the topic are listed; 4.9.7 adds subscribers, 5.3.3 by a defect the topic's own name."""
    direct = DirectBroker(release)
    beat(direct)
    direct.broker.offsets.commit("old", "T", 0, 1)
    listed = direct.ask(QueryTopicConsumeByWhoRequestHeader(topic="T"))
    assert set(decode_body(GroupList, listed.body).group_list) == groups
    topics = direct.ask(QueryTopicsByConsumerRequestHeader(group="old"))
    assert decode_body(TopicList, topics.body).topic_list == ("T",)


def test_consume_stats_tell_where_a_group_stands(direct: DirectBroker) -> None:
    """A group's statistics have each queue of the topics in which it has offsets, or of the requested topic."""
    stored = [direct.put() for _ in range(3)]
    direct.broker.offsets.commit("g", "T", 0, 2)
    direct.broker.offsets.record_pull("g", "T", 0, 3)
    stats = decode_body(ConsumeStats, direct.ask(GetConsumeStatsRequestHeader(consumer_group="g")).body)
    assert stats.offset_table == {
        Q0: OffsetWrapper(broker_offset=3, consumer_offset=2, pull_offset=3, last_timestamp=stored[1].store_timestamp),
        Q1: OffsetWrapper(pull_offset=0),
    }
    unknown = direct.ask(GetConsumeStatsRequestHeader(consumer_group="h"))
    assert decode_body(ConsumeStats, unknown.body).offset_table == {}


def test_consume_stats_leave_out_what_members_do_not_subscribe(direct: DirectBroker) -> None:
    """Topics to which no member subscribes are left out of a group's statistics, unless the request lists them."""
    direct.broker.topics.find_or_create("U", 1)
    beat(direct)
    for topic in ("T", "U"):
        direct.broker.offsets.commit("g", topic, 0, 0)
    every = decode_body(ConsumeStats, direct.ask(GetConsumeStatsRequestHeader(consumer_group="g")).body)
    assert {queue.topic for queue in every.offset_table} == {"T"}
    named = direct.ask(GetConsumeStatsRequestHeader(consumer_group="g", topic_list="U;"))
    assert {queue.topic for queue in decode_body(ConsumeStats, named.body).offset_table} == {"U"}


def test_time_spans_tell_the_delay(direct: DirectBroker) -> None:
    """The delay of a queue is the age of the next message that the group will consume."""
    first = direct.put()
    direct.clock.advance(1_000)
    second = direct.put()
    direct.clock.advance(500)
    direct.broker.offsets.commit("g", "T", 0, 1)
    body = direct.ask(QueryConsumeTimeSpanRequestHeader(topic="T", group="g")).body
    span, empty = decode_body(QueryConsumeTimeSpanBody, body).consume_time_span_set
    assert (span.min_time_stamp, span.max_time_stamp) == (first.store_timestamp, second.store_timestamp)
    assert (span.consume_time_stamp, span.delay_time) == (first.store_timestamp, 500)
    assert (empty.min_time_stamp, empty.max_time_stamp) == (-1, -1)
    assert direct.ask(QueryConsumeTimeSpanRequestHeader(topic="nope", group="g")).code == 17


# --- resetting offsets -----------------------------------------------------------------------------------------------


def reset(direct: DirectBroker, **change: Any) -> Command:
    """Send a request that resets group g in topic T, and return the response."""
    fields: dict[str, Any] = {"topic": "T", "group": "g", "timestamp": -1, "is_force": True, **change}
    return direct.ask(ResetOffsetRequestHeader(**fields))


def moved(answered: Command) -> dict[MessageQueue, int]:
    """Return the offsets, by queue, in the response to a reset."""
    return decode_body(ResetOffsetBody, answered.body).offset_table


def test_the_broker_moves_a_group_itself(direct: DirectBroker) -> None:
    """After a reset at 5.x, queries return the reset offset and commits are ignored until the next pull."""
    first = direct.put()
    direct.put()
    direct.broker.group_configs.find("g")
    assert moved(reset(direct)) == {Q0: 2, Q1: 0}
    assert moved(reset(direct, timestamp=first.store_timestamp)) == {Q0: 0, Q1: 0}
    assert moved(reset(direct, queue_id=0)) == {Q0: 2}
    assert moved(reset(direct, queue_id=0, offset=1)) == {Q0: 1}
    assert moved(reset(direct, queue_id=0, offset=3)) == {Q0: 3}
    direct.broker.offsets.commit("g", "T", 0, 2)
    assert direct.broker.offsets.query("g", "T", 0) == 3


def test_an_impossible_reset_is_refused(direct: DirectBroker) -> None:
    """A reset of an unknown topic or group, or to an offset more than one past the end, is refused."""
    assert reset(direct, topic="nope").code == ResponseCode.TOPIC_NOT_EXIST
    assert reset(direct).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    direct.broker.group_configs.find("g")
    refused = reset(direct, queue_id=0, offset=2)
    assert (refused.code, refused.remark) == (1, "Target offset 2 not in consume queue range [0-0]")
    direct.broker.topics.find_or_create("unread", 0)
    assert reset(direct, topic="unread").remark == "No queues to reset."
    direct.broker = direct.make_slave()
    assert reset(direct).remark == "Can not reset offset in slave broker"


def test_4_9_7_notifies_the_members() -> None:
    """At 4.9.7 a reset notifies the members, which reset themselves; without force, offsets only move backwards."""
    direct = DirectBroker("4.9.7")
    direct.broker.topics.find_or_create("T", 1)
    direct.put()
    assert reset(direct).remark == "THe consumer group <g> not exist"
    direct.broker.offsets.commit("g", "T", 0, 0)
    assert reset(direct).code == ResponseCode.CONSUMER_NOT_ONLINE
    beat(direct)
    direct.channel.oneways.clear()
    answered = reset(direct)
    assert moved(answered) == {Q0: 1} and answered.remark == "not set any response code"
    ((code, header, body),) = direct.channel.oneways
    assert code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET
    assert isinstance(header, ResetConsumerClientOffsetRequestHeader) and header.queue_id is None
    assert decode_body(ResetOffsetBody, body).offset_table == {Q0: 1}
    assert moved(reset(direct, is_force=False)) == {Q0: 0}
    assert reset(direct, topic="nope").code == ResponseCode.TOPIC_NOT_EXIST


# --- the broker itself -----------------------------------------------------------------------------------------------


def test_delay_offsets_are_told(direct: DirectBroker) -> None:
    """The offsets of delayed messages are returned by level, with keys that are not quoted."""
    direct.put(DELAY="2")
    direct.clock.advance(5_000)
    text = bytes(direct.ask(GetAllDelayOffsetRequestHeader()).body).decode()
    assert '"offsetTable":{2:1}' in text


def test_the_configuration_is_shown_and_changed(direct: DirectBroker) -> None:
    """Settings are shown and changed under RocketMQ's names, and unknown settings are stored."""

    def shown() -> dict[str, str]:
        answered = direct.ask(GetBrokerConfigRequestHeader())
        assert json.loads((answered.fields or {})["version"])["counter"] == 0
        return dict(line.split("=", 1) for line in bytes(answered.body).decode().splitlines())

    assert shown()["maxTransferCountOnMessageInMemory"] == "32" and shown()["enablePropertyFilter"] == "true"
    change = b"enablePropertyFilter=false\nbrokerPermission=4\nautoCreateSubscriptionGroup=false\nfileReservedTime=0\n"
    assert direct.ask(UpdateBrokerConfigRequestHeader(), change).code == ResponseCode.SUCCESS
    assert (shown()["enablePropertyFilter"], shown()["brokerPermission"]) == ("false", "4")
    assert direct.broker.group_configs.find("new") is None
    assert (shown()["fileReservedTime"], shown()["flushDiskType"]) == ("0", "ASYNC_FLUSH")


def test_a_broken_number_changes_nothing(direct: DirectBroker) -> None:
    """A malformed number in a change of settings is ignored, and a forbidden setting is refused."""
    known = direct.broker.settings.max_message_bytes

    broken = direct.ask(UpdateBrokerConfigRequestHeader(), b"maxMessageSize=much\nbrokerPermission=all")
    forbidden = direct.ask(UpdateBrokerConfigRequestHeader(), b"brokerConfigPath=x\nmaxMessageSize=1")

    assert (broken.code, forbidden.code) == (ResponseCode.SUCCESS, ResponseCode.NO_PERMISSION)
    assert (direct.broker.settings.max_message_bytes, direct.broker.permission) == (known, 6)


def test_runtime_info_names_the_release_and_counts_messages(direct: DirectBroker) -> None:
    """The broker's statistics contain its release and the number of its messages."""

    def figures() -> dict[str, str]:
        return decode_body(KVTable, direct.ask(GetBrokerRuntimeInfoRequestHeader()).body).table

    assert figures()["earliestMessageTimeStamp"] == "-1"
    first = direct.put()
    direct.clock.advance(1_000)
    direct.put()
    table = figures()
    assert (table["earliestMessageTimeStamp"], table["msgPutTotalTodayNow"]) == (str(first.store_timestamp), "2")
    assert (table["brokerVersionDesc"], table["brokerVersion"]) == ("V5_3_3", "479")
    assert table["brokerActive"] == "true"


# --- passed on to a consumer -----------------------------------------------------------------------------------------


def test_running_info_is_asked_of_the_consumer(direct: DirectBroker) -> None:
    """A request for running information is forwarded to the consumer, and its response is returned unchanged."""
    consumer = RecordingChannel()
    beat(direct, channel=consumer)
    header = GetConsumerRunningInfoRequestHeader(consumer_group="g", client_id="c1", jstack_enable=False)
    assert direct.ask(header).remark == HELD.value
    ((code, requests, _, on_reply),) = consumer.requests
    assert (code, requests) == (RequestCode.GET_CONSUMER_RUNNING_INFO, header)
    on_reply(Command(0, body=b"info", remark="not set any response code"))
    (passed,) = direct.channel.replies
    assert (passed.code, bytes(passed.body), passed.remark) == (0, b"info", "not set any response code")


def test_a_consumer_that_keeps_silent_is_a_timeout(direct: DirectBroker) -> None:
    """If the consumer does not respond, the result is a timeout; if it is not connected, it is an error at once."""
    consumer = RecordingChannel()
    beat(direct, channel=consumer)
    direct.ask(GetConsumerRunningInfoRequestHeader(consumer_group="g", client_id="c1"))
    consumer.requests[0][3](None)
    assert direct.channel.replies[0].code == ResponseCode.CONSUME_MSG_TIMEOUT
    refused = direct.ask(GetConsumerRunningInfoRequestHeader(consumer_group="g", client_id="nobody"))
    assert (refused.code, refused.remark) == (1, "The Consumer <g> <nobody> not online")


@pytest.mark.parametrize(("release", "flags"), [("5.3.3", (0, 0)), ("4.9.7", (None, None))])
def test_a_message_is_consumed_on_demand(release: str, flags: tuple[int | None, int | None]) -> None:
    """The consumer gets the stored message and the broker's name, and at 5.x also the system flags."""
    direct = DirectBroker(release)
    direct.broker.topics.find_or_create("T", 1)
    stored = direct.put(body=b"now")
    beat(direct)
    header = ConsumeMessageDirectlyResultRequestHeader(
        consumer_group="g", client_id="c1", msg_id=stored.message_id, topic="T"
    )
    direct.ask(header)
    ((_, requests, body, _),) = direct.channel.requests
    assert isinstance(requests, ConsumeMessageDirectlyResultRequestHeader)
    assert (requests.broker_name, requests.topic_sys_flag, requests.group_sys_flag) == ("broker-a", *flags)
    assert body == bytes(direct.broker.store.log.record_at(stored.physical_offset) or b"")


@pytest.mark.parametrize("message_id", ["zz", "7F00000100002A9F000000000098967F"])
def test_a_message_that_is_not_there_cannot_be_consumed(direct: DirectBroker, message_id: str) -> None:
    """A malformed message id, or one whose address has no record, is refused."""
    header = ConsumeMessageDirectlyResultRequestHeader(consumer_group="g", client_id="c1", msg_id=message_id)
    assert direct.ask(header).code == ResponseCode.SYSTEM_ERROR


def test_a_client_in_an_unknown_language_is_described(direct: DirectBroker) -> None:
    """If a client's language code is unknown, the client's version is still listed."""
    direct.broker.producer_groups.heartbeat(Member(direct.channel, "c", None, 409), "p")
    body = direct.ask(GetProducerConnectionListRequestHeader(producer_group="p")).body
    (connection,) = decode_body(ProducerConnection, body).connection_set
    assert (connection.language, connection.version) == (None, 409)
