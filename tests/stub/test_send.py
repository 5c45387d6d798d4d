"""Tests of `broker_stub.handlers.send` beyond the recorded conversations."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker_stub import StubCluster
from broker_stub.group_tables import Member
from broker_stub.settings import Settings
from broker_stub.topic_table import READABLE, TEMPLATE_TOPIC
from pyspark_rocketmq.wire.batch import BatchEntry, encode_batch
from pyspark_rocketmq.wire.codes import LanguageCode, RequestCode, ResponseCode, SysFlag
from pyspark_rocketmq.wire.commands import SendMessageRequestHeader, SendReplyMessageRequestHeader
from pyspark_rocketmq.wire.header import Command

from .direct_broker import DirectBroker
from .recording_channel import RecordingChannel
from .remoting_client import send_of


@pytest.fixture
def direct() -> DirectBroker:
    direct = DirectBroker()
    direct.broker.topics.find_or_create("T", 2)
    return direct


def test_the_long_and_the_short_names_mean_the_same(direct: DirectBroker) -> None:
    """A send with long field names stores the same message as one with one-letter names."""
    header = SendMessageRequestHeader(
        producer_group="p",
        topic="T",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=1,
        sys_flag=0,
        born_timestamp=5,
        flag=7,
        properties="a\x01b\x02",
    )

    answer = direct.ask(header, b"x")

    (record,) = direct.found("T", 1)
    assert (answer.fields or {})["queueOffset"] == "0"
    assert (record.flag, record.born_timestamp, record.properties["a"]) == (7, 5, "b")


def test_a_message_without_an_id_gets_one(direct: DirectBroker) -> None:
    """If a producer sends no unique id, 5.x adds one to the message and returns it."""
    answer = direct.ask(send_of("T"), b"x")

    (record,) = direct.found("T")
    assert record.properties["UNIQ_KEY"] == (answer.fields or {})["transactionId"]


@pytest.mark.parametrize(("release", "code"), [("5.3.3", ResponseCode.SYSTEM_ERROR), ("4.9.7", ResponseCode.SUCCESS)])
def test_an_empty_body(release: str, code: int) -> None:
    """A message without a body is an error at 5.x and is stored at 4.9.7."""
    direct = DirectBroker(release)
    direct.broker.topics.find_or_create("T", 1)

    assert direct.ask(send_of("T")).code == code


def test_limits_of_size(direct: DirectBroker) -> None:
    """A body above 4 MiB and a property text above 32 KiB are refused."""
    too_large = b"." * (4 * 1024 * 1024 + 1)

    assert direct.ask(send_of("T"), too_large).code == ResponseCode.MESSAGE_ILLEGAL
    assert direct.ask(send_of("T", "a\x01" + "b" * 32_767), b"x").code == ResponseCode.MESSAGE_ILLEGAL
    assert direct.ask(send_of("T"), too_large[:-1]).code == ResponseCode.SUCCESS
    assert len(direct.found("T")) == 1


def test_properties_that_outgrow_their_limit_are_refused(direct: DirectBroker) -> None:
    """If the properties exceed their limit only with those that the broker adds, the message is refused."""
    answer = direct.ask(send_of("T", "a\x01" + "b" * 32_700 + "\x02"), b"x")

    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert direct.found("T") == []


def test_batches_have_limits_of_their_own(direct: DirectBroker) -> None:
    """A batch is refused if it goes to a retry topic, is delayed, or its bodies together are too large."""
    body = encode_batch([BatchEntry(b"x"), BatchEntry(b"." * (4 * 1024 * 1024 + 1))])
    retry = direct.ask(send_of("%RETRY%g", batch=True), encode_batch([BatchEntry(b"x")]))
    late = direct.ask(send_of("T", "DELAY\x013\x02", batch=True), encode_batch([BatchEntry(b"x")]))
    large = direct.ask(send_of("T", batch=True), body)

    assert [retry.code, late.code, large.code] == [ResponseCode.MESSAGE_ILLEGAL] * 2 + [ResponseCode.SYSTEM_ERROR]
    assert direct.found("T") == []


def test_a_batch_is_stored_message_by_message(direct: DirectBroker) -> None:
    """A batch's messages get consecutive offsets and keep their bodies and flags; the response joins their ids."""
    entries = [BatchEntry(b"a", b"TAGS\x01A\x02", 1), BatchEntry(b"b", b"TAGS\x01B", 2), BatchEntry(b"c")]

    answer = direct.ask(send_of("T", "UNIQ_KEY\x01U\x02", batch=True), encode_batch(entries))

    records = direct.found("T")
    assert [(r.body, r.flag, r.properties.get("TAGS")) for r in records] == [
        (b"a", 1, "A"),
        (b"b", 2, "B"),
        (b"c", 0, None),
    ]
    assert (answer.fields or {})["msgId"] == ",".join(record.offset_message_id for record in records)
    assert {record.properties["UNIQ_KEY"] for record in records} == {"U"}


def test_without_auto_creation_a_topic_must_be_there() -> None:
    """If auto-creation is off, a missing topic is refused, except for a retry topic, which gets one queue."""
    direct = DirectBroker(auto_create_topics=False)

    assert direct.ask(send_of("new"), b"x").code == ResponseCode.TOPIC_NOT_EXIST
    assert direct.ask(send_of("%RETRY%g"), b"x").code == ResponseCode.SUCCESS
    made = direct.broker.topics.find("%RETRY%g")
    assert made and made.write_queue_nums == 1


def test_without_auto_creation_there_is_no_template() -> None:
    """A broker that starts without auto-creation has no template topic, and one that gives it up later keeps it."""
    closed, direct = DirectBroker(auto_create_topics=False), DirectBroker()
    assert closed.broker.topics.find(TEMPLATE_TOPIC) is None and closed.broker.topics.is_system(TEMPLATE_TOPIC)

    direct.call(Command(RequestCode.UPDATE_BROKER_CONFIG, body=b"autoCreateTopicEnable=false"))
    assert direct.ask(send_of("new"), b"x").code == ResponseCode.TOPIC_NOT_EXIST
    assert direct.broker.topics.find(TEMPLATE_TOPIC)


def test_a_stub_without_auto_creation_still_takes_messages_of_a_test() -> None:
    """`put` creates its topic with four queues also if clients cannot."""
    with StubCluster(settings=Settings(auto_create_topics=False)) as stub:
        stub.put("new", b"x")
        assert len(stub.messages("new")) == 1
        config = stub.state.brokers[0].topics.find("new")
        assert config and config.write_queue_nums == 4


def test_a_broker_closed_for_writing_refuses(direct: DirectBroker) -> None:
    """If a broker is not writable, a send is refused, and the response has the fields of all sends."""
    direct.broker.permission = READABLE

    answer = direct.ask(send_of("T"), b"x")

    assert answer.code == ResponseCode.NO_PERMISSION
    assert answer.fields == {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}


def test_topics_of_several_tags_mark_their_messages(direct: DirectBroker) -> None:
    """If a topic allows several tags per message, its messages have the MULTI_TAGS bit in their sysFlag."""
    config = direct.broker.topics.find("T")
    assert config
    direct.broker.topics.create(replace(config, topic_filter_type="MULTI_TAG"))

    direct.ask(send_of("T"), b"x")

    assert direct.found("T")[0].sys_flag & SysFlag.MULTI_TAGS


# --- replies to request messages -------------------------------------------------------------------------------------


def ask_reply(direct: DirectBroker, requester: str) -> Command:
    """Send a reply to a request message of the client `requester`, and return the response if there is one."""
    header = SendReplyMessageRequestHeader(
        producer_group="p",
        topic="DefaultCluster_REPLY_TOPIC",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0,
        born_timestamp=1,
        flag=0,
        properties=f"REPLY_TO_CLIENT\x01{requester}\x02CORRELATION_ID\x01c\x02",
    )
    return direct.ask(header, b"the reply")


@pytest.mark.parametrize(("client_says", "code"), [(0, 0), (1, 1), (None, 1)])
def test_a_reply_is_only_as_good_as_its_push(direct: DirectBroker, client_says: int | None, code: int) -> None:
    """The replier gets success only if the requester accepts the pushed reply; it is stored in any case."""
    requester = RecordingChannel()
    direct.broker.producer_groups.heartbeat(Member(requester, "me", LanguageCode.JAVA, 479), "p")

    assert ask_reply(direct, "me").remark == "held"
    _, _, body, on_reply = requester.requests[0]
    on_reply(None if client_says is None else Command(client_says))

    assert (body, direct.channel.replies[0].code) == (b"the reply", code)
    assert len(direct.found("DefaultCluster_REPLY_TOPIC")) == 1


def test_a_reply_to_nobody_fails_at_once(direct: DirectBroker) -> None:
    """If the requester is not connected, the reply fails at once with an error that names it."""
    answer = ask_reply(direct, "gone")

    assert (answer.code, answer.remark) == (1, "push reply message fail, channel of <gone> not found.")
