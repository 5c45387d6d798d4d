"""What does a broker tell clients and administrators about groups, locks and itself?"""

from __future__ import annotations

import json
from typing import Any

import pytest

from broker_stub.groups import Member
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
from tests.stub.bench import Bench
from tests.stub.channels import RecordingChannel

Q0, Q1 = MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-a", 1)


def beat(
    bench: Bench,
    client_id: str = "c1",
    *,
    fingerprint: int = 0,
    without_sub: bool = False,
    channel: RecordingChannel | None = None,
) -> Command:
    """Send a heartbeat of a client that consumes T for group g and produces for group p."""
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
    return bench.ask(HeartbeatRequestHeader(), data, channel=channel)


@pytest.fixture
def bench() -> Bench:
    """A 5.3.3 broker with a topic of two queues."""
    made = Bench()
    made.broker.topics.create_plain("T", 2)
    return made


# --- clients ---------------------------------------------------------------------------------------------------------


def test_a_heartbeat_makes_the_retry_topic(bench: Bench) -> None:
    """One queue, to be read and written."""
    assert beat(bench).fields == {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"}
    config = bench.broker.topics.find("%RETRY%g")
    assert config and (config.read_queue_nums, config.write_queue_nums, config.perm) == (1, 1, 6)


def test_a_fingerprint_says_whether_subscriptions_changed(bench: Bench) -> None:
    """Only one that differs from the last one does; subscriptions that are left out stay."""
    marks = [beat(bench, fingerprint=mark).fields for mark in (7, 7, 8)]
    assert [mark["IS_SUB_CHANGE"] for mark in marks if mark] == ["false", "false", "true"]
    beat(bench, fingerprint=8, without_sub=True)
    assert bench.broker.consumer_groups.topics_of("g") == ["T"]


def test_4_9_7_reads_no_fingerprint() -> None:
    """It answers without fields and takes left-out subscriptions for none."""
    bench = Bench("4.9.7")
    assert beat(bench, fingerprint=7).fields is None
    beat(bench, fingerprint=7, without_sub=True)
    assert bench.broker.consumer_groups.topics_of("g") == []


def test_a_group_that_may_not_be_is_not_registered() -> None:
    """5.x says nothing of it, 4.9.7 registers it all the same."""
    for release, members in (("5.3.3", []), ("4.9.7", ["c1"])):
        bench = Bench(release, auto_create_groups=False)
        assert beat(bench).code == ResponseCode.SUCCESS
        group = bench.broker.consumer_groups.table.get("g")
        assert (group.client_ids if group else []) == members


def test_members_are_listed_until_they_leave(bench: Bench) -> None:
    """A group without members is an error."""
    header = GetConsumerListByGroupRequestHeader(consumer_group="g")
    beat(bench)
    beat(bench, "c2", channel=RecordingChannel())
    ids = decode_body(GetConsumerListByGroupResponseBody, bench.ask(header).body).consumer_id_list
    assert ids == ("c1", "c2")
    bench.ask(UnregisterClientRequestHeader(client_id="c1", consumer_group="g", producer_group="p"))
    ids = decode_body(GetConsumerListByGroupResponseBody, bench.ask(header).body).consumer_id_list
    assert ids == ("c2",)
    refused = bench.ask(GetConsumerListByGroupRequestHeader(consumer_group="h"))
    assert (refused.code, refused.remark, refused.fields) == (1, "no consumer for this group, h", {})


@pytest.mark.parametrize(
    ("expression", "kind", "code"),
    [("a > 3", "SQL92", 0), ("a > > 3", "SQL92", 23), ("a > 3", "SQL93", 23), ("x", "TAG", 0)],
)
def test_expressions_are_checked(bench: Bench, expression: str, kind: str, code: int) -> None:
    """Those that do not compile are refused by what is wrong."""
    subscription = build_subscription("T", expression, expression_type=kind)
    body = CheckClientRequestBody(client_id="c", group="g", subscription_data=subscription)
    assert bench.ask(CheckClientConfigRequestHeader(), body).code == code


def test_sql_can_be_off() -> None:
    """As it is on a real broker unless configured."""
    bench = Bench(property_filter=False)
    subscription = build_subscription("T", "a > 3", expression_type="SQL92")
    body = CheckClientRequestBody(client_id="c", group="g", subscription_data=subscription)
    assert bench.ask(CheckClientConfigRequestHeader(), body).code == ResponseCode.SYSTEM_ERROR


def test_locks_are_taken_and_given_back(bench: Bench) -> None:
    """The answer names exactly what the client holds."""

    def lock(client_id: str) -> tuple[MessageQueue, ...]:
        body = LockBatchRequestBody(consumer_group="g", client_id=client_id, mq_set=(Q1, Q0))
        return decode_body(LockBatchResponseBody, bench.ask(LockBatchMqRequestHeader(), body).body).lock_ok_mq_set

    assert lock("c1") == (Q1, Q0) and lock("c2") == ()
    unlock = LockBatchRequestBody(consumer_group="g", client_id="c1", mq_set=(Q0,))
    assert bench.ask(UnlockBatchMqRequestHeader(), unlock).code == ResponseCode.SUCCESS
    assert lock("c2") == (Q0,)


# --- groups ----------------------------------------------------------------------------------------------------------


def test_groups_are_made_read_and_deleted(bench: Bench) -> None:
    """Deleting may take the offsets along; asking makes the group anew."""
    bench.ask(UpdateSubscriptionGroupRequestHeader(), SubscriptionGroupConfig(group_name="g", retry_max_times=3))
    get = GetSubscriptionGroupConfigRequestHeader(group="g")
    assert decode_body(SubscriptionGroupConfig, bench.ask(get).body).retry_max_times == 3
    bench.broker.offsets.commit("g", "T", 0, 5)
    bench.ask(DeleteSubscriptionGroupRequestHeader(group_name="g", clean_offset=True))
    assert decode_body(SubscriptionGroupConfig, bench.ask(get).body).retry_max_times == 16
    assert bench.broker.offsets.query("g", "T", 0) is None


def test_all_groups_are_listed(bench: Bench) -> None:
    """The system's own among them."""
    wrapper = decode_body(SubscriptionGroupWrapper, bench.ask(GetAllSubscriptionGroupRequestHeader()).body)
    assert {"TOOLS_CONSUMER", "CID_ONSAPI_OWNER", "CID_RMQ_SYS_TRANS"} < wrapper.subscription_group_table.keys()
    assert not wrapper.subscription_group_table["CID_ONSAPI_OWNER"].consume_message_orderly


def test_a_group_without_auto_creation_is_not_found() -> None:
    """Asking does not make it then."""
    bench = Bench(auto_create_groups=False)
    refused = bench.ask(GetSubscriptionGroupConfigRequestHeader(group="g"))
    assert (refused.code, refused.remark) == (26, "No group in this broker")


def test_connections_are_described(bench: Bench) -> None:
    """Consumers with their subscriptions, producers, and who is not there."""
    beat(bench)
    consumers = bench.ask(GetConsumerConnectionListRequestHeader(consumer_group="g"))
    described = decode_body(ConsumerConnection, consumers.body)
    (connection,) = described.connection_set
    assert (connection.client_id, connection.client_addr, connection.language) == ("c1", "127.0.0.1:50000", "PYTHON")
    assert described.subscription_table["T"].sub_string == "TagA"
    producers = bench.ask(GetProducerConnectionListRequestHeader(producer_group="p"))
    assert len(decode_body(ProducerConnection, producers.body).connection_set) == 1
    assert bench.ask(GetConsumerConnectionListRequestHeader(consumer_group="h")).code == 206
    assert bench.ask(GetProducerConnectionListRequestHeader(producer_group="h")).code == 1


@pytest.mark.parametrize(("release", "groups"), [("5.3.3", {"old", "T"}), ("4.9.7", {"old", "g"})])
def test_who_consumes_a_topic(release: str, groups: set[str]) -> None:
    """Groups with offsets; 4.9.7 adds live subscribers, 5.3.3 has a flaw and adds the topic's own name."""
    bench = Bench(release)
    beat(bench)
    bench.broker.offsets.commit("old", "T", 0, 1)
    listed = bench.ask(QueryTopicConsumeByWhoRequestHeader(topic="T"))
    assert set(decode_body(GroupList, listed.body).group_list) == groups
    topics = bench.ask(QueryTopicsByConsumerRequestHeader(group="old"))
    assert decode_body(TopicList, topics.body).topic_list == ("T",)


def test_consume_stats_tell_where_a_group_stands(bench: Bench) -> None:
    """Each queue of the topics it has offsets in, or of the one asked for."""
    stored = [bench.put() for _ in range(3)]
    bench.broker.offsets.commit("g", "T", 0, 2)
    bench.broker.offsets.note_pull("g", "T", 0, 3)
    stats = decode_body(ConsumeStats, bench.ask(GetConsumeStatsRequestHeader(consumer_group="g")).body)
    assert stats.offset_table == {
        Q0: OffsetWrapper(broker_offset=3, consumer_offset=2, pull_offset=3, last_timestamp=stored[1].store_timestamp),
        Q1: OffsetWrapper(pull_offset=0),
    }
    unknown = bench.ask(GetConsumeStatsRequestHeader(consumer_group="h"))
    assert decode_body(ConsumeStats, unknown.body).offset_table == {}


def test_consume_stats_leave_out_what_members_do_not_subscribe(bench: Bench) -> None:
    """Unless topics are listed by name."""
    bench.broker.topics.create_plain("U", 1)
    beat(bench)
    for topic in ("T", "U"):
        bench.broker.offsets.commit("g", topic, 0, 0)
    every = decode_body(ConsumeStats, bench.ask(GetConsumeStatsRequestHeader(consumer_group="g")).body)
    assert {queue.topic for queue in every.offset_table} == {"T"}
    named = bench.ask(GetConsumeStatsRequestHeader(consumer_group="g", topic_list="U;"))
    assert {queue.topic for queue in decode_body(ConsumeStats, named.body).offset_table} == {"U"}


def test_time_spans_tell_the_delay(bench: Bench) -> None:
    """From the next message to be consumed until now."""
    first = bench.put()
    bench.clock.advance(1_000)
    second = bench.put()
    bench.clock.advance(500)
    bench.broker.offsets.commit("g", "T", 0, 1)
    body = bench.ask(QueryConsumeTimeSpanRequestHeader(topic="T", group="g")).body
    span, empty = decode_body(QueryConsumeTimeSpanBody, body).consume_time_span_set
    assert (span.min_time_stamp, span.max_time_stamp) == (first.store_timestamp, second.store_timestamp)
    assert (span.consume_time_stamp, span.delay_time) == (first.store_timestamp, 500)
    assert (empty.min_time_stamp, empty.max_time_stamp) == (-1, -1)
    assert bench.ask(QueryConsumeTimeSpanRequestHeader(topic="nope", group="g")).code == 17


# --- resetting offsets -----------------------------------------------------------------------------------------------


def reset(bench: Bench, **change: Any) -> Command:
    """Move group g in topic T."""
    fields: dict[str, Any] = {"topic": "T", "group": "g", "timestamp": -1, "is_force": True, **change}
    return bench.ask(ResetOffsetRequestHeader(**fields))


def moved(answered: Command) -> dict[MessageQueue, int]:
    """Where an answer says that the group was moved."""
    return decode_body(ResetOffsetBody, answered.body).offset_table


def test_the_broker_moves_a_group_itself(bench: Bench) -> None:
    """By time, to the end or to an offset; until the next pull queries answer that and commits are ignored."""
    first = bench.put()
    bench.put()
    bench.broker.group_configs.find("g")
    assert moved(reset(bench)) == {Q0: 2, Q1: 0}
    assert moved(reset(bench, timestamp=first.store_timestamp)) == {Q0: 0, Q1: 0}
    assert moved(reset(bench, queue_id=0)) == {Q0: 2}
    assert moved(reset(bench, queue_id=0, offset=1)) == {Q0: 1}
    assert moved(reset(bench, queue_id=0, offset=3)) == {Q0: 3}
    bench.broker.offsets.commit("g", "T", 0, 2)
    assert bench.broker.offsets.query("g", "T", 0) == 3


def test_a_reset_that_cannot_be_is_refused(bench: Bench) -> None:
    """Unknown topic and group, and an offset more than one past the end."""
    assert reset(bench, topic="nope").code == ResponseCode.TOPIC_NOT_EXIST
    assert reset(bench).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    bench.broker.group_configs.find("g")
    refused = reset(bench, queue_id=0, offset=2)
    assert (refused.code, refused.remark) == (1, "Target offset 2 not in consume queue range [0-0]")
    bench.broker.topics.create_plain("unread", 0)
    assert reset(bench, topic="unread").remark == "No queues to reset."
    bench.broker = bench.make_slave()
    assert reset(bench).remark == "Can not reset offset in slave broker"


def test_4_9_7_tells_the_members() -> None:
    """They move themselves; without force only backwards."""
    bench = Bench("4.9.7")
    bench.broker.topics.create_plain("T", 1)
    bench.put()
    assert reset(bench).remark == "THe consumer group <g> not exist"
    bench.broker.offsets.commit("g", "T", 0, 0)
    assert reset(bench).code == ResponseCode.CONSUMER_NOT_ONLINE
    beat(bench)
    bench.channel.told.clear()
    answered = reset(bench)
    assert moved(answered) == {Q0: 1} and answered.remark == "not set any response code"
    ((code, header, body),) = bench.channel.told
    assert code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET
    assert isinstance(header, ResetConsumerClientOffsetRequestHeader) and header.queue_id is None
    assert decode_body(ResetOffsetBody, body).offset_table == {Q0: 1}
    assert moved(reset(bench, is_force=False)) == {Q0: 0}
    assert reset(bench, topic="nope").code == ResponseCode.TOPIC_NOT_EXIST


# --- the broker itself -----------------------------------------------------------------------------------------------


def test_delay_offsets_are_told(bench: Bench) -> None:
    """By level, with bare numbers for keys as the broker writes them."""
    bench.put(DELAY="2")
    bench.clock.advance(5_000)
    text = bytes(bench.ask(GetAllDelayOffsetRequestHeader()).body).decode()
    assert '"offsetTable":{2:1}' in text


def test_the_configuration_is_shown_and_changed(bench: Bench) -> None:
    """Under a broker's own names; what the stub does not have is kept."""

    def shown() -> dict[str, str]:
        answered = bench.ask(GetBrokerConfigRequestHeader())
        assert json.loads((answered.fields or {})["version"])["counter"] == 0
        return dict(line.split("=", 1) for line in bytes(answered.body).decode().splitlines())

    assert shown()["maxTransferCountOnMessageInMemory"] == "32" and shown()["enablePropertyFilter"] == "true"
    change = b"enablePropertyFilter=false\nbrokerPermission=4\nautoCreateSubscriptionGroup=false\nfileReservedTime=0\n"
    assert bench.ask(UpdateBrokerConfigRequestHeader(), change).code == ResponseCode.SUCCESS
    assert (shown()["enablePropertyFilter"], shown()["brokerPermission"]) == ("false", "4")
    assert bench.broker.group_configs.find("new") is None
    assert (shown()["fileReservedTime"], shown()["flushDiskType"]) == ("0", "ASYNC_FLUSH")


def test_a_broken_number_changes_nothing(bench: Bench) -> None:
    """And is no error, as at a real broker; a setting that may not be changed is one."""
    known = bench.broker.settings.max_message_bytes

    broken = bench.ask(UpdateBrokerConfigRequestHeader(), b"maxMessageSize=much\nbrokerPermission=all")
    forbidden = bench.ask(UpdateBrokerConfigRequestHeader(), b"brokerConfigPath=x\nmaxMessageSize=1")

    assert (broken.code, forbidden.code) == (ResponseCode.SUCCESS, ResponseCode.NO_PERMISSION)
    assert (bench.broker.settings.max_message_bytes, bench.broker.permission) == (known, 6)


def test_runtime_info_names_the_release_and_counts_messages(bench: Bench) -> None:
    """The tools print it."""

    def figures() -> dict[str, str]:
        return decode_body(KVTable, bench.ask(GetBrokerRuntimeInfoRequestHeader()).body).table

    assert figures()["earliestMessageTimeStamp"] == "-1"
    first = bench.put()
    bench.clock.advance(1_000)
    bench.put()
    table = figures()
    assert (table["earliestMessageTimeStamp"], table["msgPutTotalTodayNow"]) == (str(first.store_timestamp), "2")
    assert (table["brokerVersionDesc"], table["brokerVersion"]) == ("V5_3_3", "479")
    assert table["brokerActive"] == "true"


# --- passed on to a consumer -----------------------------------------------------------------------------------------


def test_running_info_is_asked_of_the_consumer(bench: Bench) -> None:
    """What it answers is passed on as it is."""
    consumer = RecordingChannel()
    beat(bench, channel=consumer)
    header = GetConsumerRunningInfoRequestHeader(consumer_group="g", client_id="c1", jstack_enable=False)
    assert bench.ask(header).remark == HELD.value
    ((code, asked, _, on_reply),) = consumer.asked
    assert (code, asked) == (RequestCode.GET_CONSUMER_RUNNING_INFO, header)
    on_reply(Command(0, body=b"info", remark="not set any response code"))
    (passed,) = bench.channel.replies
    assert (passed.code, bytes(passed.body), passed.remark) == (0, b"info", "not set any response code")


def test_a_consumer_that_keeps_silent_is_a_timeout(bench: Bench) -> None:
    """And one that is not there is an error at once."""
    consumer = RecordingChannel()
    beat(bench, channel=consumer)
    bench.ask(GetConsumerRunningInfoRequestHeader(consumer_group="g", client_id="c1"))
    consumer.asked[0][3](None)
    assert bench.channel.replies[0].code == ResponseCode.CONSUME_MSG_TIMEOUT
    refused = bench.ask(GetConsumerRunningInfoRequestHeader(consumer_group="g", client_id="nobody"))
    assert (refused.code, refused.remark) == (1, "The Consumer <g> <nobody> not online")


@pytest.mark.parametrize(("release", "flags"), [("5.3.3", (0, 0)), ("4.9.7", (None, None))])
def test_a_message_is_consumed_on_demand(release: str, flags: tuple[int | None, int | None]) -> None:
    """The consumer gets the message as it is stored, the broker's name and, from 5.x, the system flags."""
    bench = Bench(release)
    bench.broker.topics.create_plain("T", 1)
    stored = bench.put(body=b"now")
    beat(bench)
    header = ConsumeMessageDirectlyResultRequestHeader(
        consumer_group="g", client_id="c1", msg_id=stored.message_id, topic="T"
    )
    bench.ask(header)
    ((_, asked, body, _),) = bench.channel.asked
    assert isinstance(asked, ConsumeMessageDirectlyResultRequestHeader)
    assert (asked.broker_name, asked.topic_sys_flag, asked.group_sys_flag) == ("broker-a", *flags)
    assert body == bytes(bench.broker.store.log.record_at(stored.physical_offset) or b"")


@pytest.mark.parametrize("message_id", ["zz", "7F00000100002A9F000000000098967F"])
def test_a_message_that_is_not_there_cannot_be_consumed(bench: Bench, message_id: str) -> None:
    """Neither an id that is none nor an address without a record."""
    header = ConsumeMessageDirectlyResultRequestHeader(consumer_group="g", client_id="c1", msg_id=message_id)
    assert bench.ask(header).code == ResponseCode.SYSTEM_ERROR


def test_a_client_in_an_unknown_language_is_described(bench: Bench) -> None:
    """Its version is told all the same."""
    bench.broker.producer_groups.heartbeat(Member(bench.channel, "c", None, 409), "p")
    body = bench.ask(GetProducerConnectionListRequestHeader(producer_group="p")).body
    (connection,) = decode_body(ProducerConnection, body).connection_set
    assert (connection.language, connection.version) == (None, 409)
