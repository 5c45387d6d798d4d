"""Test that the body classes can hold the bodies of real clients and servers."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from pyspark_rocketmq.errors import LocalProtocolError, MalformedFrame
from pyspark_rocketmq.model import MessageQueue
from pyspark_rocketmq.wire import bodies, fastjson
from pyspark_rocketmq.wire.bodies import Body, GroupRetryPolicy, build_subscription, decode_body, encode_body
from pyspark_rocketmq.wire.codes import RequestCode
from pyspark_rocketmq.wire.properties import java_hash
from tests.wire.exchanges import exchanges


class Kinds(NamedTuple):
    """The body classes of one kind of request and of its response."""

    request: type[Body] | None
    response: type[Body] | None


KINDS = {
    34: Kinds(bodies.HeartbeatData, None),
    38: Kinds(None, bodies.GetConsumerListByGroupResponseBody),
    41: Kinds(bodies.LockBatchRequestBody, bodies.LockBatchResponseBody),
    42: Kinds(bodies.LockBatchRequestBody, None),
    46: Kinds(bodies.CheckClientRequestBody, None),
    105: Kinds(None, bodies.TopicRouteData),
    106: Kinds(None, bodies.ClusterInfo),
    200: Kinds(bodies.SubscriptionGroupConfig, None),
    201: Kinds(None, bodies.SubscriptionGroupWrapper),
    202: Kinds(None, bodies.TopicStatsTable),
    203: Kinds(None, bodies.ConsumerConnection),
    204: Kinds(None, bodies.ProducerConnection),
    206: Kinds(None, bodies.TopicList),
    208: Kinds(None, bodies.ConsumeStats),
    219: Kinds(None, bodies.KVTable),
    220: Kinds(bodies.ResetOffsetBody, None),
    222: Kinds(None, bodies.ResetOffsetBody),
    224: Kinds(None, bodies.TopicList),
    300: Kinds(None, bodies.GroupList),
    303: Kinds(None, bodies.QueryConsumeTimeSpanBody),
    307: Kinds(None, bodies.ConsumerRunningInfo),
    309: Kinds(None, bodies.ConsumeMessageDirectlyResult),
    343: Kinds(None, bodies.TopicList),
    351: Kinds(None, bodies.TopicConfig),
    352: Kinds(None, bodies.SubscriptionGroupConfig),
}


def recorded(code: int) -> list[tuple[type[Body], bytes]]:
    """Return the recorded JSON bodies of the requests with this code and of their responses, each with its class."""
    kinds = KINDS[code]
    found = []
    for exchange in exchanges():
        if exchange.request.code == code:
            request, response = exchange.request, exchange.response
            sides = ((kinds.request, request.body), (kinds.response, response and response.body))
            found += [(kind, data) for kind, data in sides if kind and data]
    return found


@pytest.mark.parametrize("code", KINDS, ids=lambda code: RequestCode(code).name)
def test_recorded_bodies_come_back_whole(code: int) -> None:
    """Each recorded body is decoded by its class and encoded again to a JSON text with equal values."""
    assert recorded(code)
    for kind, data in recorded(code):
        written = encode_body(decode_body(kind, data), bare_integer_keys=code == 106)
        assert fastjson.parse(written) == fastjson.parse(data)


def test_every_recorded_json_body_is_covered() -> None:
    """The table of this module lists every recorded request with a JSON body; all other bodies hold messages."""
    with_json = {
        exchange.request.code
        for exchange in exchanges()
        for side in (exchange.request, exchange.response)
        if side and side.body[:1] in (b"{", b"[")
    }
    assert with_json == set(KINDS)


def test_cluster_information_is_written_as_servers_write_it() -> None:
    """Cluster information is encoded as servers do, byte for byte: integer keys without quotes, members in order."""
    [(kind, data)] = set(recorded(106))
    assert encode_body(decode_body(kind, data), bare_integer_keys=True) == data


def test_queue_keys_become_queues() -> None:
    """The keys of a topic's statistics are decoded to `MessageQueue` values."""
    stats = bodies.TopicStatsTable(
        offset_table={MessageQueue("T", "b", 1): bodies.TopicOffset(min_offset=0, max_offset=9)}
    )
    assert encode_body(stats).startswith(b'{"offsetTable":{{"brokerName":"b","queueId":1,"topic":"T"}:{')
    assert decode_body(bodies.TopicStatsTable, encode_body(stats)) == stats


def test_null_and_unknown_members_are_tolerated() -> None:
    """A member that is null counts as absent, and an unknown member is ignored."""
    data = b'{"brokerName":"b","perm":6,"readQueueNums":4,"writeQueueNums":4,"topicSysFlag":null,"news":{"x":1}}'
    assert decode_body(bodies.QueueData, data) == bodies.QueueData(
        broker_name="b", read_queue_nums=4, write_queue_nums=4, perm=6
    )


@pytest.mark.parametrize(
    "data",
    [
        b"[]",
        b'{"topicList":{}}',
        b'{"topicList":[1]}',
        b'{"brokerAddr":true}',
        b"7",
        b"null",
        b'{"topicList":"T"}',
        b"{",
    ],
)
def test_a_body_of_another_shape_is_malformed(data: bytes) -> None:
    """JSON of a wrong structure raises `MalformedFrame` with the name of the body class."""
    with pytest.raises(MalformedFrame, match="unreadable TopicList: "):
        decode_body(bodies.TopicList, data)


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**30])
def test_numbers_beyond_64_bits_are_malformed(number: int) -> None:
    """A number that does not fit Java's 64 bits raises an error with the member's name."""
    with pytest.raises(MalformedFrame, match=f"readQueueNums: {number} is no 64-bit integer"):
        decode_body(bodies.QueueData, b'{"brokerName":"b","perm":6,"writeQueueNums":4,"readQueueNums":%d}' % number)


def test_a_missing_member_is_malformed() -> None:
    """If a body lacks a required member, the error states the member's name."""
    with pytest.raises(MalformedFrame, match=r"SubscriptionGroupConfig.*group_name"):
        decode_body(bodies.SubscriptionGroupConfig, b'{"retryMaxTimes":3}')


@pytest.mark.parametrize("expression", ["", "*"])
def test_subscribing_to_all_names_no_tags(expression: str) -> None:
    """The expression `*`, or an empty one, makes a subscription to all messages, which has no tags."""
    subscription = build_subscription("T", expression, sub_version=7)
    assert subscription == bodies.SubscriptionData(topic="T", sub_string="*", sub_version=7)


def test_tags_are_trimmed_and_hashed_as_java_does() -> None:
    """Tags are stripped, blank tags are dropped, repeated tags count once, and `*` beside other tags is a tag."""
    subscription = build_subscription("T", " TagA||TagA ||  || *")
    assert subscription.tags_set == ("TagA", "*")
    assert subscription.code_set == (2598919, 42) and subscription.sub_string == " TagA||TagA ||  || *"


def test_tags_with_one_hash_share_a_code() -> None:
    """If two tags have the same hash code, the subscription has that code once; brokers compare only codes."""
    assert java_hash("Aa") == java_hash("BB")
    assert build_subscription("T", "Aa||BB").code_set == (java_hash("Aa"),)


def test_recorded_subscriptions_are_built_from_their_text() -> None:
    """For the expression of each recorded subscription, the same tags and codes are built that the Java client sent."""
    for _, data in recorded(34):
        for group in decode_body(bodies.HeartbeatData, data).consumer_data_set:
            for sent in group.subscription_data_set:
                built = build_subscription(sent.topic, sent.sub_string, expression_type=sent.expression_type)
                assert set(built.tags_set) == set(sent.tags_set) and set(built.code_set) == set(sent.code_set)


def test_bars_alone_are_refused_but_blanks_are_not() -> None:
    """An expression of bars only raises an error, as in Java; with blanks between bars it has no tags."""
    with pytest.raises(LocalProtocolError, match="names no tag"):
        build_subscription("T", "||")
    assert build_subscription("T", " || ").tags_set == ()


def test_sql_is_left_to_the_broker() -> None:
    """An SQL expression is passed to the broker unchanged, and has no tags."""
    subscription = build_subscription("T", "a > 1 || b", expression_type="SQL92")
    assert (subscription.tags_set, subscription.sub_string) == ((), "a > 1 || b")


def test_a_condition_must_not_be_empty() -> None:
    """An empty expression of a type other than TAG raises an error; brokers refuse it too."""
    with pytest.raises(LocalProtocolError, match="empty SQL92 expression"):
        build_subscription("T", "", expression_type="SQL92")


@pytest.mark.parametrize(("depth", "is_read"), [(30, True), (900, False)])
def test_values_of_any_kind_are_read_only_if_they_can_be_written(depth: int, is_read: bool) -> None:
    """A value whose shape the class leaves open is refused if it is nested too deeply to be written again."""
    text = '{"customizedRetryPolicy":{"next":' + "[" * depth + "]" * depth + "}}"

    if is_read:
        encode_body(decode_body(GroupRetryPolicy, text))
    else:
        with pytest.raises(MalformedFrame, match=r"GroupRetryPolicy: .*nested deeper than 64 levels"):
            decode_body(GroupRetryPolicy, text)
