"""Test `grpc_v2.translation` and `grpc_v2.times`."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rocketmq.errors import MalformedFrame
from pyspark_rocketmq.grpc_v2.enums import AddressScheme, DigestType, Encoding, MessageType
from pyspark_rocketmq.grpc_v2.schema import message_class
from pyspark_rocketmq.grpc_v2.times import from_duration, from_timestamp, to_duration, to_timestamp
from pyspark_rocketmq.grpc_v2.translation import (
    StoredMessage,
    addresses_of,
    endpoints_of,
    read_message,
    read_properties,
    type_of,
    write_message,
)
from pyspark_rocketmq.model import Address

WORDS = st.text("abcXYZ09-", min_size=1, max_size=8)


def stored(body: bytes = b"hello", *, is_packed: bool = False, **properties: str) -> StoredMessage:
    """Return a stored message with this body and these properties."""
    return StoredMessage(
        topic="T",
        queue_id=3,
        queue_offset=7,
        body=body,
        is_packed=is_packed,
        properties={"UNIQ_KEY": "01AB", **properties},
        born_timestamp=1_000,
        born_host="10.0.0.1",
        store_timestamp=2_000,
        store_host="10.0.0.2:10911",
        reconsume_times=1,
    )


def sent(**system: Any) -> Any:
    """Return a message of the API as a producer sends it, with these system properties."""
    Message = message_class("Message")
    return Message(topic={"name": "T"}, user_properties={"a": "b"}, system_properties=system, body=b"x")


def test_a_sent_message_is_stored_with_its_typed_fields() -> None:
    """The typed fields of a sent message are stored as the properties that brokers use."""
    message = sent(
        tag="new",
        keys=["k1", "k2"],
        message_id="01AB",
        message_group="g",
        message_type=MessageType.TRANSACTION,
        delivery_timestamp=to_timestamp(9_000),
        born_timestamp=to_timestamp(1_000),
        born_host="host",
        orphaned_transaction_recovery_duration=to_duration(7_000),
    )

    assert read_properties(message) == {
        "a": "b",
        "TAGS": "new",
        "KEYS": "k1 k2",
        "UNIQ_KEY": "01AB",
        "__SHARDINGKEY": "g",
        "TRAN_MSG": "true",
        "TIMER_DELIVER_MS": "9000",
        "BORN_TIMESTAMP": "1000",
        "__BORNHOST": "host",
        "CHECK_IMMUNITY_TIME_IN_SECONDS": "7",
        "PGROUP": "T",
    }


def test_what_was_not_said_is_not_stored() -> None:
    """A typed field of a sent message that is absent or empty is stored as no property."""
    assert read_properties(sent(tag="", born_host="")) == {"a": "b", "PGROUP": "T"}


def test_a_delivered_message_tells_where_it_lies() -> None:
    """A delivered message states queue, offset, times, hosts and attempt, and an upper-case digest of its body."""
    system = write_message(stored()).system_properties

    assert (system.queue_id, system.queue_offset, system.delivery_attempt) == (3, 7, 2)
    assert (from_timestamp(system.born_timestamp), from_timestamp(system.store_timestamp)) == (1_000, 2_000)
    assert (system.born_host, system.store_host, system.message_id) == ("10.0.0.1", "10.0.0.2:10911", "01AB")
    assert (system.body_encoding, system.body_digest.type) == (Encoding.IDENTITY, DigestType.MD5)
    assert system.body_digest.checksum == hashlib.md5(b"hello").hexdigest().upper()
    assert not system.HasField("receipt_handle")


def test_servers_hide_their_own_properties() -> None:
    """The map of user properties has those properties of RocketMQ that are not in the set of hidden names."""
    message = write_message(stored(a="b", CLUSTER="c", TAGS="new", __transactionId__="t"))

    assert dict(message.user_properties) == {"a": "b", "__transactionId__": "t"}
    assert message.system_properties.tag == "new"


def test_an_empty_tag_is_none() -> None:
    """If the stored tag is empty, the field `tag` of the delivered message is not set."""
    assert not write_message(stored(TAGS="")).system_properties.HasField("tag")


def test_a_dead_letter_names_its_origin() -> None:
    """A dead letter states its original topic and message id if both are stored, and neither if one is missing."""
    origin = write_message(stored(DLQ_ORIGIN_TOPIC="T0", DLQ_ORIGIN_MESSAGE_ID="02")).system_properties

    assert (origin.dead_letter_queue.topic, origin.dead_letter_queue.message_id) == ("T0", "02")
    assert not write_message(stored(DLQ_ORIGIN_TOPIC="T0")).system_properties.HasField("dead_letter_queue")


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([], MessageType.NORMAL),
        (["__SHARDINGKEY"], MessageType.FIFO),
        (["__SHARDINGKEY", "DELAY"], MessageType.DELAY),
        (["TIMER_DELIVER_MS"], MessageType.DELAY),
        (["TIMER_DELAY_SEC", "TRAN_MSG"], MessageType.TRANSACTION),
    ],
)
def test_type(names: list[str], expected: MessageType) -> None:
    """The type of a message follows from its properties.

    TRAN_MSG comes before delays, and delays before __SHARDINGKEY.
    """
    assert type_of(dict.fromkeys(names, "1")) == expected


@given(
    st.dictionaries(WORDS, WORDS, max_size=3),
    st.dictionaries(st.sampled_from(["TAGS", "KEYS", "__SHARDINGKEY", "TRACE_CONTEXT"]), WORDS),
    st.binary(max_size=20),
    st.booleans(),
)
def test_what_was_delivered_can_be_read(
    users: dict[str, str], system: dict[str, str], body: bytes, is_packed: bool
) -> None:
    """A stored message that is delivered over the wire is read as the same stored message."""
    message = stored(body, is_packed=is_packed, **users, **system)
    data = write_message(message).SerializeToString()

    read = read_message(message_class("Message").FromString(data))

    assert read.message_id == "01AB"
    assert (read.body, read.is_packed, read.properties) == (body, is_packed, message.properties)
    assert (read.queue_offset, read.born_host, read.reconsume_times) == (7, "10.0.0.1", 1)


@pytest.mark.parametrize(("host", "scheme"), [("10.0.0.1", AddressScheme.IPv4), ("::1", AddressScheme.IPv6)])
def test_endpoints(host: str, scheme: AddressScheme) -> None:
    """Addresses are the same after conversion to endpoints and back, and the scheme is that of the first address."""
    endpoints = endpoints_of([Address(host, 8081)])

    assert (endpoints.scheme, addresses_of(endpoints)) == (scheme, (Address(host, 8081),))


@given(st.integers(min_value=-(10**12), max_value=10**13))
def test_milliseconds(ms: int) -> None:
    """Milliseconds are the same after conversion to times or durations and back, even before 1970."""
    assert from_timestamp(to_timestamp(ms)) == from_duration(to_duration(ms)) == ms


@pytest.mark.parametrize(("seconds", "nanos"), [(2**63 - 1, 0), (-(2**63), 0), (0, 2**31 - 1), (0, -(2**31))])
def test_times_that_protobuf_does_not_allow_are_malformed(seconds: int, nanos: int) -> None:
    """A time or duration outside the range of protobuf raises `MalformedFrame`, which shows its numbers."""
    for name, read in (("Timestamp", from_timestamp), ("Duration", from_duration)):
        with pytest.raises(MalformedFrame, match=rf"{name} of {seconds} seconds and {nanos} nanoseconds"):
            read(message_class(name, "google.protobuf")(seconds=seconds, nanos=nanos))
