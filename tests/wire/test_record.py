"""Test `wire.record`."""

from __future__ import annotations

from base64 import b64decode
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from pyspark_rocketmq.errors import DecodeError, LocalProtocolError
from pyspark_rocketmq.model import Address
from pyspark_rocketmq.wire.batch import BatchEntry, decode_batch, encode_batch
from pyspark_rocketmq.wire.codes import SysFlag, TransactionState
from pyspark_rocketmq.wire.compression import Compression, compress
from pyspark_rocketmq.wire.record import (
    MAGIC_V1,
    MAGIC_V2,
    Record,
    decode_record,
    decode_records,
    encode_record,
    stored_crc,
    unwrap_inner_batch,
)

from .recorded import RecordedResponse, recorded_bodies, recorded_pulls, recorded_responses
from .strategies import join_records, records, responses

DOCUMENTED = (
    bytes.fromhex(
        "000000ae daa320a7 69c865ed 00000001 00000000 000000000000002a 00000000000003e8 00000000 0000018bcfe56800"
        "0a000009 0000c350 0000018bcfe5687b 0a000001 00002a9f 00000000 0000000000000000"
        "0000000e 48656c6c6f20526f636b65744d51 09 546f70696354657374"
        "003c 54414753 01 54616741 02 4b455953 01 6b31 02 554e49515f4b4559 01"
    )
    + b"0A000009000018B4AAC2012345670001\x02"
)

HELLO = decode_record(DOCUMENTED)[0]
"""Record of queue 1 of TopicTest at offset 42: `Hello RocketMQ`."""

INNER_BATCH = SysFlag.NEED_UNWRAP | SysFlag.INNER_BATCH


def pulled(file: str) -> list[Record]:
    return [record for body in recorded_pulls(f"{file}.jsonl") for record in decode_records(body)]


# --- whole records ---------------------------------------------------------------------------------------------------


@given(responses)
def test_decode_undoes_encode(found: list[Record]) -> None:
    """Any list of records is equal after encoding and decoding, with compressed bodies and inner batches among them."""
    assert decode_records(join_records(found)) == found


def test_a_record_as_documented() -> None:
    """The record in the protocol's description is decoded to the described fields, and encoded to the same bytes."""
    assert encode_record(HELLO) == DOCUMENTED
    assert replace(HELLO, properties_text=b"", total_size=0, body_crc=0) == Record(
        topic="TopicTest",
        queue_id=1,
        queue_offset=42,
        physical_offset=1000,
        born_timestamp=1_700_000_000_000,
        born_host=Address("10.0.0.9", 50000),
        store_timestamp=1_700_000_000_123,
        store_host=Address("10.0.0.1", 10911),
        body=b"Hello RocketMQ",
    )
    assert (HELLO.total_size, HELLO.body_crc) == (174, 0x69C865ED)
    assert HELLO.properties["TAGS"] == "TagA"
    assert HELLO.offset_message_id == "0A00000100002A9F00000000000003E8"


def test_recorded_records_encode_byte_for_byte() -> None:
    """Records of real brokers are encoded again to the same bytes, with computed sizes and CRC."""
    total = 0
    for body in recorded_bodies():
        found = decode_records(body)
        assert join_records(found) == body
        total += len(found)

    assert total == 337


def test_recorded_bodies_have_their_crc() -> None:
    """The CRC of recorded bodies is that of the stored bytes, compressed or not."""
    for body in recorded_bodies():
        for record in decode_records(body):
            record.check_crc()


def java_view(record: Record) -> dict[str, Any]:
    """Return the fields of a record under the names that the Java client's recorded messages have."""
    return {
        "topic": record.topic,
        "queueId": record.queue_id,
        "queueOffset": record.queue_offset,
        "commitLogOffset": record.physical_offset,
        "bornTimestamp": record.born_timestamp,
        "storeTimestamp": record.store_timestamp,
        "flag": record.flag,
        "sysFlag": record.sys_flag,
        "properties": record.properties,
        "body": record.unpacked_body(),
    }


@pytest.mark.parametrize("response", recorded_responses(), ids=lambda response: response.name)
def test_records_read_as_java_reads_them(response: RecordedResponse) -> None:
    """Records with long topics, inner batches and IPv6 hosts are decoded to the values that the Java client decoded."""
    for record, message in zip(decode_records(response.body), response.messages, strict=True):
        seen = {**java_view(record), "bornHost": record.born_host, "storeHost": record.store_host}
        seen |= {"reconsumeTimes": record.reconsume_times, "bodyCRC": record.body_crc, "storeSize": record.total_size}
        seen |= {"preparedTransactionOffset": record.prepared_transaction_offset}
        assert seen == {name: of_java(name, message[name]) for name in seen}

        inner = [java_view(one) for one in unwrap_inner_batch(record) if record.is_inner_batch]
        assert inner == [inner_of_java(one) for one in message.get("inner", [])]


def inner_of_java(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message of an inner batch that Java decoded, without WAIT, which the Java client adds."""
    seen = {name: of_java(name, message[name]) for name in message}
    return {**seen, "properties": {name: value for name, value in seen["properties"].items() if name != "WAIT"}}


def of_java(name: str, value: Any) -> Any:
    """Return a value that Java printed, converted to the value that this library decodes."""
    if name == "body":
        return b64decode(value)
    if name in ("bornHost", "storeHost"):
        host, port = value.split("|")
        return Address(host.replace("0:0:0:0:0:0:0:1", "::1"), int(port))
    return value


@pytest.mark.parametrize("length", [127, 128, 300])
def test_a_long_topic_gets_the_magic_it_needs(length: int) -> None:
    """A topic of more than 127 bytes is stored with magic V2 and two bytes for its length."""
    data = encode_record(replace(HELLO, topic="t" * length))
    record, end = decode_record(data)

    assert (record.topic, end) == ("t" * length, len(data))
    assert record.magic == (MAGIC_V1 if length == 127 else MAGIC_V2)


def test_a_record_may_begin_anywhere() -> None:
    """`decode_record` decodes the record at the given position, and returns the position of its end."""
    data = b"before" + DOCUMENTED + b"after"

    assert decode_record(data, 6) == (HELLO, 6 + len(DOCUMENTED))


# --- what real brokers did -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "compression"),
    [
        ("send_compressed", Compression.ZLIB),
        ("send_compressed_lz4", Compression.LZ4),
        ("send_compressed_zstd", Compression.ZSTD),
    ],
)
def test_bodies_that_java_packed_are_unpacked(file: str, compression: Compression) -> None:
    """Bodies that Java compressed in its three formats are decompressed to the same body.

    The stored body is unchanged.
    """
    (record,) = pulled(file)

    assert record.sys_flag == compression.sys_flag
    assert len(record.body) < 300
    assert record.unpacked_body() == b"".join(b"compress me %d " % (n % 7) for n in range(429))


@pytest.mark.parametrize(("release", "shared"), [("", True), ("4.9.7/", True), ("5.5.0/", False)])
def test_messages_of_a_batch_may_share_their_unique_key(release: str, shared: bool) -> None:
    """The last UNIQ_KEY counts: brokers up to 5.3.3 append the batch's properties to those of each message."""
    records = pulled(f"{release}send_batch")

    assert [(record.queue_offset, record.body) for record in records] == [(n, b"batch-%d" % n) for n in range(3)]
    assert [record.properties["KEYS"] for record in records] == ["bk0", "bk1", "bk2"]
    assert len({record.properties["UNIQ_KEY"] for record in records}) == (1 if shared else 3)


def test_user_properties_and_flag_are_kept() -> None:
    """A recorded message with tag, two keys, a non-ASCII property, flag 7 and WAIT=false is decoded."""
    record = pulled("send_tags_keys_props")[-1]

    assert record.flag == 7
    assert (
        record.properties.items() >= {"TAGS": "TagA", "KEYS": "key1 key2", "city": "Zürich ☃", "WAIT": "false"}.items()
    )


@pytest.mark.parametrize(
    ("file", "names"),
    [
        ("send_delay_level", {"DELAY", "REAL_TOPIC", "REAL_QID"}),
        ("send_timer_delay_ms", {"TIMER_DELAY_MS", "TIMER_OUT_MS", "REAL_TOPIC"}),
        ("send_timer_deliver_ms", {"TIMER_DELIVER_MS", "TIMER_OUT_MS", "REAL_TOPIC"}),
    ],
)
def test_delivered_messages_keep_how_they_were_delayed(file: str, names: set[str]) -> None:
    """A delayed message that was delivered has the properties by which it was delayed."""
    (record,) = pulled(file)

    assert names <= record.properties.keys()
    assert record.properties["REAL_TOPIC"] == record.topic


@pytest.mark.parametrize("file", ["transaction_commit", "5.5.0/transaction_commit", "4.9.7/transaction_check"])
def test_committed_messages_say_so(file: str) -> None:
    """A committed message holds the offset of its half message; half and rolled-back messages are not delivered."""
    (record,) = pulled(file)

    assert record.transaction_state is TransactionState.COMMIT
    assert record.prepared_transaction_offset > 0


def test_messages_sent_back_are_counted() -> None:
    """A message that was sent back is in the retry topic, with its first topic and id, and its number of attempts."""
    records = pulled("send_msg_back_retry")

    assert [(record.topic, record.reconsume_times) for record in records] == [
        ("GoldBack", 0),
        ("%RETRY%gold_back", 1),
        ("%RETRY%gold_back", 2),
    ]
    assert {record.properties["RETRY_TOPIC"] for record in records[1:]} == {"GoldBack"}
    assert {record.properties["ORIGIN_MESSAGE_ID"] for record in records[1:]} == {records[0].offset_message_id}


# --- inner batches ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compression", [None, *Compression])
def test_an_inner_batch_is_unpacked_and_split(compression: Compression | None) -> None:
    """Each message of an inner batch has its own offset, flag, body and properties.

    Other fields are those of the batch.
    """
    body = encode_batch([BatchEntry(b"a", b"TAGS\x01x\x02", 5), BatchEntry(b"bc")])
    sys_flag = INNER_BATCH | (compression.sys_flag if compression else 0)
    batch = replace(HELLO, body=compress(body, compression) if compression else body, sys_flag=sys_flag)

    first, second = unwrap_inner_batch(batch)

    assert (first.queue_offset, first.flag, first.unpacked_body(), first.properties) == (42, 5, b"a", {"TAGS": "x"})
    assert (second.queue_offset, second.flag, second.unpacked_body(), second.properties) == (43, 0, b"bc", {})
    assert {(r.topic, r.queue_id, r.physical_offset, r.store_host) for r in (first, second)} == {
        (batch.topic, batch.queue_id, batch.physical_offset, batch.store_host)
    }
    second.check_crc()


@given(records())
def test_only_two_flags_together_make_an_inner_batch(record: Record) -> None:
    """A record is an inner batch only if both bits of sysFlag are set; any other record is unwrapped to itself."""
    inner = unwrap_inner_batch(record)

    if record.is_inner_batch:
        assert [BatchEntry(one.body, one.properties_text, one.flag) for one in inner] == decode_batch(record.body)
    else:
        assert inner == [record]
    assert not replace(record, sys_flag=SysFlag.INNER_BATCH).is_inner_batch


# --- what cannot be read ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [1, 4, 47, 48, 60, 84, 88, 103, 113, 173])
def test_a_cut_record_is_an_error(cut: int) -> None:
    """A response that ends inside a record raises an error that states the position of that record."""
    with pytest.raises(DecodeError, match=f"damaged record at byte 174 of {174 + cut}: .*cannot be trusted"):
        decode_records(DOCUMENTED + DOCUMENTED[:cut])


def patched(at: int, field: str) -> bytes:
    data = bytes.fromhex(field)
    return DOCUMENTED[:at] + data + DOCUMENTED[at + len(data) :]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (patched(4, "cbd43194"), "unknown magic 0xcbd43194"),
        (patched(4, "daa320ab"), "a field of 2388 bytes at 102"),
        (patched(0, "000000af"), "it says 175 bytes, 174 are there"),
        (patched(0, "000000ad"), "a field of 60 bytes at 112 in 173"),
        (patched(0, "00000000"), "it says 0 bytes"),
        (patched(0, "80000000"), "it says -2147483648 bytes"),
        (patched(36, "00000010"), "a field of"),
        (patched(84, "7fffffff"), "a field of 2147483647 bytes at 84"),
        (patched(84, "ffffffff"), "a field of -1 bytes at 84"),
        (patched(102, "80"), "a field of -128 bytes at 102"),
        (patched(112, "8000"), "a field of -32768 bytes at 112"),
        (patched(112, "003b"), "its fields take 173 bytes, its total size says 174"),
        (patched(103, "ff"), "can't decode byte 0xff"),
        (patched(0, "000000af") + b"x", "its fields take 174 bytes, its total size says 175"),
    ],
)
def test_a_record_that_does_not_add_up_is_an_error(data: bytes, reason: str) -> None:
    """A record with a wrong length or magic, or with surplus bytes, raises an error."""
    with pytest.raises(DecodeError, match=f"damaged record at byte 0 of {len(data)}: .*{reason}"):
        decode_records(data)


def test_a_broken_body_names_its_message() -> None:
    """If a body cannot be decompressed, the record is decoded, and the error about the body states the message."""
    broken = replace(HELLO, sys_flag=Compression.ZSTD.sys_flag)

    with pytest.raises(DecodeError, match=r"a ZSTD body of 14 bytes .*\(topic TopicTest, queue 1, offset 42\)"):
        broken.unpacked_body()
    with pytest.raises(DecodeError, match=r"unpacks to more than 100 .*offset 42"):
        replace(HELLO, sys_flag=0x301, body=compress(bytes(101), Compression.ZLIB)).unpacked_body(limit=100)


def test_broken_properties_name_their_message() -> None:
    """If properties are not UTF-8, the record is decoded, and the error about them states the message."""
    with pytest.raises(DecodeError, match=r"no UTF-8 text.*\(topic TopicTest, queue 1, offset 42\)"):
        _ = replace(HELLO, properties_text=b"\xff").properties


def test_a_broken_inner_batch_names_its_message() -> None:
    """If an inner batch cannot be unwrapped, the error states the topic, queue and offset of the record."""
    with pytest.raises(DecodeError, match=r"batch entry 0 .*offset 42"):
        unwrap_inner_batch(replace(HELLO, sys_flag=INNER_BATCH))
    with pytest.raises(DecodeError, match=r"inner batch without messages .*offset 42"):
        unwrap_inner_batch(replace(HELLO, sys_flag=INNER_BATCH, body=b""))


def test_a_wrong_crc_is_found_on_demand() -> None:
    """A record with a wrong CRC is decoded; only `check_crc` raises an error."""
    damaged = decode_records(DOCUMENTED.replace(b"Hello", b"hello"))[0]

    assert damaged.body == b"hello RocketMQ"
    with pytest.raises(
        DecodeError, match=r"CRC is 0x\w{8}, stored was 0x69c865ed \(topic TopicTest, queue 1, offset 42"
    ):
        damaged.check_crc()
    assert stored_crc(b"") == 0


# --- what cannot be written ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"born_host": Address("::1", 1)}, r"sysFlag and host \[::1\]:1 disagree about IPv6"),
        ({"sys_flag": SysFlag.STORE_HOST_V6}, "disagree about IPv6"),
        ({"store_host": Address("broker-a", 1)}, "cannot be stored as a host"),
        ({"properties_text": bytes(32768)}, "properties of 32768 bytes"),
        ({"topic": "t" * 32768}, "a topic of 32768 bytes"),
        ({"topic": "\ud800"}, "surrogates not allowed"),
        ({"queue_id": 2**31}, "a record that cannot be stored"),
        ({"store_timestamp": 2**63}, "a record that cannot be stored"),
    ],
)
def test_what_does_not_fit_a_record_is_refused(change: dict[str, Any], reason: str) -> None:
    """A record with a field that cannot be stored raises an error when it is encoded."""
    with pytest.raises(LocalProtocolError, match=reason):
        encode_record(replace(HELLO, **change))
