"""Check that unreadable or forbidden input is refused, and that errors name the place and say what to do."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from broker_stub import StubBroker
from broker_stub.store import InnerMessage
from pyspark_rocketmq.broker_errors import CredentialsRefused, NoPermission, SubscriptionGroupNotExist
from pyspark_rocketmq.datasource import RocketMQDataSource
from pyspark_rocketmq.errors import (
    DecodeError,
    FrameTooLarge,
    OffsetBeyondEnd,
    OffsetWentBack,
    OptionError,
    RocketMQError,
    TopicNotFound,
    TopicUnconfirmed,
)
from pyspark_rocketmq.wire.bodies import TopicConfig
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode, SysFlag
from tests.source.driving import TOPIC, Checkpoint, Run, admin_of, batch_options_for, options_for, read_batch

MODES = ("FAILFAST", "PERMISSIVE", "DROPMALFORMED")
SIZE_AT, MAGIC_AT, BODY_LENGTH_AT = 0, 4, 84


@pytest.fixture
def stub() -> Iterator[StubBroker]:
    """One broker with a topic of one queue, and one message in it."""
    with StubBroker({TOPIC: 1}) as broker:
        broker.put(TOPIC, b"a")
        yield broker


def batch(stub: StubBroker, **given: str) -> list[tuple[int, bytes]]:
    """Run a batch read, and return (offset, body) of each row."""
    return [(row.offset, row.body) for row in read_batch(batch_options_for(stub, **given))]


def stream(stub: StubBroker, **given: str) -> list[tuple[int, bytes]]:
    """Run a streaming read until nothing is new, and return (offset, body) of each row."""
    with Run(options_for(stub, **given)) as run:
        return [(row.offset, row.body) for row in run.drain()]


READS = pytest.mark.parametrize("read", [batch, stream])
Read = Callable[..., list[tuple[int, bytes]]]


def refusal(error: type[RocketMQError], read: Callable[..., Any], *arguments: Any, **given: str) -> str:
    """Return the text of the error of this class that `read(*arguments, **given)` raises."""
    with pytest.raises(error) as refused:
        read(*arguments, **given)
    return str(refused.value)


# --- access ----------------------------------------------------------------------------------------------------------


@READS
@pytest.mark.parametrize(
    ("code", "remark", "error"),
    [
        (ResponseCode.NO_PERMISSION, "no permission for group readers", NoPermission),
        (ResponseCode.SYSTEM_ERROR, "org.apache.rocketmq.acl.common.AclException: No permission", CredentialsRefused),
    ],
)
def test_a_refused_group_is_named(
    stub: StubBroker, read: Read, code: ResponseCode, remark: str, error: type[RocketMQError]
) -> None:
    """If a broker refuses pulls, the error names group and queue, quotes the broker, and says what to check."""
    stub.faults.answer(code, remark, on=RequestCode.PULL_MESSAGE, times=None)
    said = refusal(error, read, stub, consumerGroup="readers")
    assert remark in said and "check accessKey and secretKey" in said
    assert "topic orders, broker broker-a, queue 0, offset 0, group readers" in said


@READS
def test_a_reader_without_a_group_is_told_to_name_one(stub: StubBroker, read: Read) -> None:
    """If a broker refuses the default group, the error advises to set `consumerGroup`."""
    stub.faults.answer(
        ResponseCode.NO_PERMISSION, "no permission for the group", on=RequestCode.PULL_MESSAGE, times=None
    )
    said = refusal(NoPermission, read, stub)
    assert "group TOOLS_CONSUMER" in said and "set consumerGroup to one that this user may read with" in said


@READS
def test_an_unknown_group_is_named(stub: StubBroker, read: Read) -> None:
    """If a broker does not know the group, the error names it and advises to create it."""
    refused = ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    stub.faults.answer(refused, "subscription group", on=RequestCode.PULL_MESSAGE, times=None)
    said = refusal(SubscriptionGroupNotExist, read, stub, consumerGroup="readers")
    assert "broker broker-a" in said and "group readers" in said
    assert said.endswith("create the group on every master, or allow auto-creation")


@READS
def test_wrong_credentials_fail_the_planning(read: Read) -> None:
    """If the secret key is wrong, the read fails with the advice to check it, with brokers of release 4 and 5."""
    for release, error in (("5.3.3", NoPermission), ("4.9.7", CredentialsRefused)):
        with StubBroker({TOPIC: 1}, acl={"ak": "sk"}, emulate=release) as stub:
            stub.put(TOPIC, b"a")
            said = refusal(error, read, stub, accessKey="ak", secretKey="wrong")
            assert "topic orders, broker broker-a" in said and "check accessKey and secretKey" in said
            assert read(stub, accessKey="ak", secretKey="sk") == [(0, b"a")]


# --- messages that cannot be read ------------------------------------------------------------------------------------


def put_raw(stub: StubBroker, body: bytes, **given: Any) -> None:
    """Put a message with this stored body and these fields, which may be broken, and then a good message."""
    stub.run(lambda: stub.state.brokers[0].put(InnerMessage(TOPIC, 0, body, **given)))
    stub.put(TOPIC, b"c")


UNREADABLE = pytest.mark.parametrize(
    ("broken", "said"),
    [
        ({"body": b"no zlib", "sys_flag": int(SysFlag.COMPRESSED)}, "ZLIB body"),
        ({"body": zlib.compress(bytes(5 << 20)), "sys_flag": int(SysFlag.COMPRESSED)}, "raise maxFrameSize"),
        ({"body": b"b", "raw_properties": b"name\x01\xff\xfe\x02"}, "the properties are no UTF-8 text"),
    ],
    ids=["no-zlib", "too-large", "no-text"],
)
SMALL = {"maxFrameSize": "1m"}


@UNREADABLE
@READS
def test_an_unreadable_message_fails_by_default(
    stub: StubBroker, read: Read, broken: dict[str, Any], said: str
) -> None:
    """By default an unreadable message fails the read; the error names its offset and an option to change."""
    put_raw(stub, **broken)
    text = refusal(DecodeError, read, stub, **SMALL)
    assert said in text and "(topic orders, broker broker-a, queue 0, offset 1)" in text
    assert "mode" in text or "maxFrameSize" in text


@UNREADABLE
@READS
def test_an_unreadable_message_follows_the_mode(
    stub: StubBroker, read: Read, broken: dict[str, Any], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    """In mode PERMISSIVE an unreadable message stays as a row; in DROPMALFORMED it is left out, with a warning."""
    put_raw(stub, **broken)
    assert [offset for offset, _ in read(stub, mode="PERMISSIVE", **SMALL)] == [0, 1, 2]
    assert caplog.text == ""
    assert read(stub, mode="DROPMALFORMED", **SMALL) == [(0, b"a"), (2, b"c")]
    assert "1 messages were left out because they cannot be read (mode=DROPMALFORMED)" in caplog.text


def damage(stub: StubBroker, at: int, data: bytes) -> None:
    """Put two more messages, and overwrite bytes of the first of them in the broker's store, from byte `at`."""
    put_raw(stub, b"b")

    def write() -> None:
        store = stub.state.brokers[0].store
        start = store.queue(TOPIC, 0).physical[1] + at
        store.log.read(start, len(data))[:] = data

    stub.run(write)


@READS
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("at", "data"),
    [(SIZE_AT, b"\0\0\0\0"), (SIZE_AT, b"\x7f\0\0\0"), (MAGIC_AT, b"\1\2\3\4"), (BODY_LENGTH_AT, b"\x7f\0\0\0")],
    ids=["no-size", "too-long", "no-magic", "long-body"],
)
def test_a_broken_record_frame_is_always_an_error(
    stub: StubBroker, read: Read, mode: str, at: int, data: bytes
) -> None:
    """If a record's size, magic number or body length is broken, the read fails in every mode."""
    damage(stub, at, data)
    said = refusal(DecodeError, read, stub, mode=mode)
    assert "damaged record at byte" in said and said.endswith("check the broker's store around this message")
    assert re.search(r"topic orders, broker broker-a, queue 0, offset [01]\b", said)


@READS
def test_a_frame_above_the_limit_names_queue_and_option(stub: StubBroker, read: Read) -> None:
    """If a response exceeds `maxFrameSize`, the error names the queue, the offset and the option."""
    stub.put(TOPIC, b"." * 200_000)
    said = refusal(FrameTooLarge, read, stub, maxFrameSize="64k")
    assert "the limit is 65536" in said and "topic orders, broker broker-a, queue 0, offset 0" in said
    assert "raise maxFrameSize" in said


# --- topics ----------------------------------------------------------------------------------------------------------


@READS
def test_a_missing_topic_and_one_without_queues_are_refused(stub: StubBroker, read: Read) -> None:
    """If a topic does not exist, or none of its queues may be read, the error names topic and name server."""
    said = refusal(TopicNotFound, read, stub, subscribe="nowhere")
    assert stub.name_server in said and "topic nowhere" in said
    for read_queues, perm in ((0, 6), (4, 2)):
        config = TopicConfig(topic_name="closed", read_queue_nums=read_queues, write_queue_nums=4, perm=perm)
        admin_of(stub).admin.create_topic(config)
        said = refusal(OptionError, read, stub, subscribe="closed")
        assert f"subscribe = 'closed': no queue of the topic may be read at {stub.name_server}" in said


@READS
def test_a_missing_topic_may_be_known_to_a_name_server_that_is_away(stub: StubBroker, read: Read) -> None:
    """If one of two name servers is down, the error says so; topics that the other one knows are read all the same.

    The retry topic may be missing, as always.
    """
    servers = {"nameServer": f"127.0.0.1:1;{stub.name_server}"}
    said = refusal(TopicUnconfirmed, read, stub, subscribe="nowhere", **servers)
    assert "127.0.0.1:1" in said and "topic nowhere" in said and "leave them out of nameServer" in said
    more = {"consumerGroup": "readers", "readRetryTopic": "true"} if read is stream else {}
    assert read(stub, **servers, **more) == [(0, b"a")]


# --- offsets in JSON -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offsets", "said"),
    [
        ('{"orders":{"broker-a":{"0":-7}}}', "orders/broker-a/0 is -7; give an offset from 0, or -2 (earliest)"),
        ('{"orders":{"broker-a":{"0":1.5}}}', "orders/broker-a/0 is 1.5; give an offset"),
        ('{"orders":{"broker-a":{"0":1.0}}}', "orders/broker-a/0 is 1.0; give an offset"),
        ('{"orders":{"broker-a":{"0":1e3}}}', "orders/broker-a/0 is 1000.0; give an offset"),
        ('{"orders":{"broker-a":{"0":"5"}}}', 'orders/broker-a/0 is "5"; give an offset'),
        ('{"orders":{"broker-a":{"0":true}}}', "orders/broker-a/0 is true; give an offset"),
        ('{"orders":{"broker-a":{"0":99999999999999999999}}}', "is 99999999999999999999; give an offset"),
        ('{"orders":{"broker-a":{"0":1,"0":2}}}', "key '0' appears twice"),
        ('{"orders":{"broker-a":{"01":1}}}', "orders/broker-a/01 is no queue"),
        ('{"orders":{"0":5}}', '{"orders": {"*": {"0": 5}}}'),
        ('{"orders":{"broker-a":{"0":NaN}}}', "NaN is not a JSON number"),
        ("{", "not standard JSON"),
        ("ealiest", "give earliest, latest, group, or JSON"),
    ],
)
@pytest.mark.parametrize("option", ["startingOffsets", "endingOffsets"])
def test_wrong_offsets_fail_the_load(option: str, offsets: str, said: str) -> None:
    """If `startingOffsets` or `endingOffsets` is wrong, the constructor's error shows the place and the right form."""
    with pytest.raises(OptionError) as refused:
        RocketMQDataSource({"nameserver": "localhost:9876", "subscribe": TOPIC, option.lower(): offsets})
    text = str(refused.value)
    assert text.startswith(f"[OPTION_VALUE] {option} = '{offsets}': ")
    wanted = said if option == "startingOffsets" else re.sub(", or -2.*|, group|earliest, ", "", said)
    assert wanted in text


@READS
@pytest.mark.parametrize(
    ("offsets", "said"),
    [
        ('{"bills":{"*":{"*":1}}}', "startingOffsets = 'bills/*/*': topic bills is not read here"),
        ('{"orders":{"broker-x":{"*":0}}}', "startingOffsets = 'orders/broker-x/*': topic orders has no queue on"),
        ('{"orders":{"broker-a":{"7":0,"*":0}}}', "startingOffsets = 'orders/broker-a/7': there is no queue 7"),
    ],
)
def test_offsets_of_unknown_queues_fail_the_planning(stub: StubBroker, read: Read, offsets: str, said: str) -> None:
    """If `startingOffsets` names an unknown topic, broker or queue, planning fails with an error that names it."""
    assert said in refusal(OptionError, read, stub, startingOffsets=offsets)


def test_offsets_beyond_the_queue_are_loss(stub: StubBroker) -> None:
    """If a given offset is beyond the queue's end, the error names queue, offset and `failOnDataLoss`."""
    said = refusal(OffsetBeyondEnd, stream, stub, startingOffsets='{"orders":{"*":{"*":50}}}')
    assert "topic orders, broker broker-a, queue 0, offset 50" in said and "failOnDataLoss=false" in said
    said = refusal(OffsetWentBack, batch, stub, endingOffsets='{"orders":{"*":{"*":50}}}')
    assert "topic orders, broker broker-a, queue 0, offset 50" in said and "failOnDataLoss=false" in said


# --- checkpoints -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stored", "said"),
    [
        ({"version": 3, "next": {}}, "written by a newer release (version 3, this release reads 2)"),
        ({"version": 1, "next": {TOPIC: {"broker-a": {"0": -1}}}}, "orders/broker-a/0 is -1, no position"),
        ({"version": 1, "next": {TOPIC: {"broker-a": {"0": 0.5}}}}, "orders/broker-a/0 is 0.5, no position"),
        ({TOPIC: {"0": 5}}, "no version"),
    ],
)
def test_a_checkpoint_that_is_not_ours_is_refused(stub: StubBroker, stored: dict[str, Any], said: str) -> None:
    """A checkpoint is refused if its offset is of a newer release, damaged, or of Spark's Kafka source."""
    with Run(options_for(stub), Checkpoint([json.dumps(stored)], 1)) as run:
        text = refusal(OptionError, run.plan)
    assert text.startswith("[OPTION_VALUE] checkpointLocation = ") and said in text
    assert text.endswith("or a new checkpoint with startingOffsets")


def test_a_checkpoint_of_another_topic_or_group_is_refused(stub: StubBroker) -> None:
    """If the checkpoint belongs to another topic or group, planning fails with an error that names it."""
    stored = {"version": 1, "group": "a", "next": {TOPIC: {"broker-a": {"0": 0}}}}
    stub.put("bills", b"x")
    for given, said in (
        (
            {"subscribe": "bills"},
            "checkpointLocation: the checkpoint has only queues of orders, which the options do not read",
        ),
        ({"consumerGroup": "b"}, "consumerGroup = 'b': the checkpoint is of group a; set consumerGroup to a, or use a"),
    ):
        with Run(options_for(stub, **given), Checkpoint([json.dumps(stored)], 1)) as run:
            assert said in refusal(OptionError, run.plan)
