"""Test that the bulk decoder and the slow reference decoder give equal columns.

The bulk decoder is `ColumnDecoder`; it decodes plain records with operations on whole arrays. The reference decoder is
`read_rows`; it decodes one record at a time.
"""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rocketmq.decode.columns import COLUMNS, Content, Mode
from pyspark_rocketmq.decode.decoder import BatchSize, ColumnDecoder
from pyspark_rocketmq.decode.rows import read_rows
from pyspark_rocketmq.errors import DecodeError
from pyspark_rocketmq.model import Address, Block, MessageQueue, QueueRange
from pyspark_rocketmq.wire.codes import SysFlag
from pyspark_rocketmq.wire.compression import Compression
from pyspark_rocketmq.wire.record import Record, decode_records, encode_record
from pyspark_rocketmq.wire.scan import record_starts

from .samples import (
    PLAIN,
    QUEUE,
    block,
    inner_batch,
    irregular_records,
    packed,
    plain_records,
    property_names,
    property_text,
    property_values,
    whole,
)

GOLDEN = Path(__file__).parents[1] / "golden" / "frames"
EVERY_COLUMN = tuple(COLUMNS)


def readable(blocks: list[Block], content: Content) -> list[list[object]]:
    """Return the values that the reference decoder reads from the messages in the blocks, one list for each column."""
    rows = [
        row
        for data, (queue, start, end, _), *_ in blocks
        for record in decode_records(data)
        for row in read_rows(record, queue, content)
        if start <= row.record.queue_offset < end and row.passes_tags()
    ]
    schema = ColumnDecoder(EVERY_COLUMN, content).schema
    values = {name: [COLUMNS[name].read(row) for row in rows] for name in EVERY_COLUMN}
    return [pa.array(values[name], schema.field(name).type).to_pylist() for name in EVERY_COLUMN]


@given(
    st.lists(st.lists(st.one_of(plain_records, irregular_records), min_size=1, max_size=4), min_size=1, max_size=3),
    st.builds(Content, properties_as_json=st.booleans(), system_properties=st.booleans()),
)
def test_bulk_equals_readable_for_any_mixture(responses: list[list[Record]], content: Content) -> None:
    """For any mixture of plain and irregular records, both decoders give equal columns, in order of arrival.

    A column that is said to be never null has no nulls.
    """
    topics = ("t0", "another", "%RETRY%" + "g" * 130)
    blocks = [
        block(records, queue=MessageQueue(topic, "broker-a", 3))
        for topic, records in zip(topics, responses, strict=False)
    ]
    decoded = whole(ColumnDecoder(EVERY_COLUMN, content), blocks)
    assert [column.to_pylist() for column in decoded.batch.columns] == readable(blocks, content)
    nulls = {name for name in EVERY_COLUMN if decoded.batch.column(name).null_count}
    assert nulls <= {name for name, column in COLUMNS.items() if column.null != "never"}
    decoded.batch.validate(full=True)


def test_every_column_shows_its_own_field() -> None:
    """Both decoders read each column from the field of the record that the column's name promises."""
    names = ["TAGS", "KEYS", "UNIQ_KEY", "__SHARDINGKEY", "RETRY_TOPIC", "ORIGIN_MESSAGE_ID", "colour"]
    record = replace(
        PLAIN,
        born_host=Address("10.0.0.8", 1234),
        queue_offset=11,
        flag=21,
        reconsume_times=22,
        sys_flag=8,
        properties_text=property_text([(name, name.lower()) for name in names]),
    )
    stored, crc = len(encode_record(record)), 0x3610A686 & 0x7FFFFFFF
    expected = {
        "topic": "orders",
        "brokerName": "broker-a",
        "queueId": 3,
        "queueOffset": 10,
        "tags": "tags",
        "keys": "keys",
        "body": b"hello",
        "properties": [("colour", "colour")],
        "msgId": "uniq_key",
        "bornTimestamp": 1_700_000_000_000_000,
        "storeTimestamp": 1_700_000_000_123_000,
        "reconsumeTimes": 22,
        "flag": 21,
        "commitLogOffset": 1000,
        "offsetMsgId": "0A0000090000C35000000000000003E8",
        "storedQueueOffset": 11,
        "originTopic": "retry_topic",
        "originMsgId": "origin_message_id",
        "shardingKey": "__shardingkey",
        "bornHost": "10.0.0.8:1234",
        "storeHost": "10.0.0.9:50000",
        "sysFlag": 8,
        "storeSize": stored,
        "bodyCrc": crc,
        "key": b"keys",
        "value": b"hello",
        "partition": 3,
        "offset": 10,
        "timestamp": 1_700_000_000_123_000,
        "timestampType": 1,
        "headers": [{"key": "colour", "value": b"colour"}],
    }
    response = Block(memoryview(encode_record(record)), QueueRange(QUEUE, 10, 11), 1, 10, 1, 11)
    batch = whole(ColumnDecoder(EVERY_COLUMN), [response]).batch
    times = [name for name in EVERY_COLUMN if pa.types.is_timestamp(batch.schema.field(name).type)]
    shown = {name: batch.column(name) for name in EVERY_COLUMN}
    shown |= {name: shown[name].cast(pa.int64()) for name in times}
    assert {name: column.to_pylist() for name, column in shown.items()} == {name: [v] for name, v in expected.items()}
    (row,) = read_rows(decode_records(response.data)[0], QUEUE, Content(), 10)
    assert {name: COLUMNS[name].read(row) for name in EVERY_COLUMN} == expected


@given(st.lists(property_names, max_size=5), st.data())
def test_rows_with_the_same_names(names: list[str], data: st.DataObject) -> None:
    """If all rows have the same property names in the same order, some twice, both decoders give equal columns."""
    rows = data.draw(st.lists(st.tuples(*[property_values] * len(names)), min_size=1, max_size=5))
    texts = [property_text(list(zip(names, row, strict=True))) for row in rows]
    blocks = [block([replace(PLAIN, properties_text=text) for text in texts])]
    decoded = whole(ColumnDecoder(EVERY_COLUMN), blocks)
    assert [column.to_pylist() for column in decoded.batch.columns] == readable(blocks, Content())


@given(st.lists(plain_records, min_size=1, max_size=8))
def test_plain_records_need_no_help(records: list[Record]) -> None:
    """The bulk decoder decodes no plain record one by one."""
    assert whole(ColumnDecoder(EVERY_COLUMN), [block(records)]).irregular_count == 0


def test_the_smallest_records_need_no_help() -> None:
    """The bulk decoder decodes records without body, properties and topic, and those with the longest plain topic."""
    for topic in ("", "t" * 127):
        smallest = block([replace(PLAIN, body=b"", properties_text=b"")], queue=MessageQueue(topic, "broker-a", 3))
        assert whole(ColumnDecoder(EVERY_COLUMN), [smallest]).irregular_count == 0


def test_odd_records_are_counted() -> None:
    """The decoder reports how many irregular records it decoded one by one."""
    decoded = whole(ColumnDecoder(["body"]), [block([PLAIN, packed(PLAIN, Compression.ZLIB), PLAIN])])
    assert decoded.irregular_count == 1
    assert decoded.batch.column("body").to_pylist() == [b"hello"] * 3


def test_offsets_outside_the_range_are_left_out() -> None:
    """Messages outside the wanted offsets become no rows, even if they are in one inner batch with wanted messages."""
    records = [inner_batch(PLAIN, [b"a", b"b", b"c"]), replace(PLAIN, queue_offset=3), replace(PLAIN, queue_offset=4)]
    decoded = whole(ColumnDecoder(["queueOffset", "body"]), [block(records, QueueRange(QUEUE, 1, 4))])
    assert decoded.batch.to_pydict() == {"queueOffset": [1, 2, 3], "body": [b"b", b"c", b"hello"]}


def test_tags_are_compared_as_text() -> None:
    """A message is left out if its tag differs from the wanted tag but has the same hash code, plain or irregular."""
    aa, bb = (replace(PLAIN, properties_text=property_text([("TAGS", tag)])) for tag in ("Aa", "BB"))
    decoder = ColumnDecoder(["tags"], Content(tags=frozenset(["Aa"])))
    decoded = whole(decoder, [block([aa, bb, packed(aa, Compression.LZ4), packed(bb, Compression.LZ4)])])
    assert decoded.batch.to_pydict() == {"tags": ["Aa", "Aa"]}


def test_retries_are_not_picked_by_tag() -> None:
    """A message in a retry topic becomes a row whatever its tag is, plain or irregular."""
    retries = block([PLAIN, packed(PLAIN, Compression.ZLIB)], queue=MessageQueue("%RETRY%g", "broker-a", 0))
    decoded = whole(ColumnDecoder(["topic"], Content(tags=frozenset(["b"]))), [block([PLAIN]), retries])
    assert decoded.batch.to_pydict() == {"topic": ["%RETRY%g", "%RETRY%g"]}


def test_last_of_equal_names_counts() -> None:
    """If a record has a property name twice, its last value is in the map and in the column of that property."""
    record = replace(PLAIN, properties_text=property_text([("k", "1"), ("TAGS", "x"), ("k", "2"), ("TAGS", "y")]))
    decoded = whole(ColumnDecoder(["properties", "tags"]), [block([record])])
    assert decoded.batch.to_pydict() == {"properties": [[("k", "2")]], "tags": ["y"]}


def test_json_properties_parse_back() -> None:
    """Properties as JSON parse to the same values, with quotes, backslashes and control characters."""
    value = 'say "hi" \\ \n é'
    record = replace(PLAIN, properties_text=property_text([("k", value), ("l", "2")]))
    decoded = whole(ColumnDecoder(["properties"], Content(properties_as_json=True)), [block([record, PLAIN])])
    assert [json.loads(text) for text in decoded.batch.column(0).to_pylist()] == [
        {"k": value, "l": "2"},
        {"colour": "red"},
    ]


BROKEN_BODY = replace(packed(PLAIN, Compression.ZLIB), body=b"not zlib")
BROKEN_TEXT = replace(PLAIN, properties_text=b"colour\x01\xff\xfe\x02")


@pytest.mark.parametrize("broken", [BROKEN_BODY, BROKEN_TEXT])
def test_failfast_names_the_message(broken: Record) -> None:
    """In mode FAILFAST, the error states topic, broker, queue and offset of an unreadable message, and names the option
    `mode`.
    """
    with pytest.raises(DecodeError, match=r"topic orders, broker broker-a, queue 3, offset 1.*mode"):
        whole(ColumnDecoder(["body", "properties"]), [block([PLAIN, broken])])


def test_permissive_gives_null() -> None:
    """In mode PERMISSIVE, an unreadable body or property text becomes null; the message's other columns have values."""
    decoder = ColumnDecoder(["body", "properties", "queueId"], Content(mode=Mode.PERMISSIVE))
    batch = whole(decoder, [block([BROKEN_BODY, BROKEN_TEXT])]).batch
    assert batch.to_pydict() == {"body": [None, b"hello"], "properties": [[("colour", "red")], None], "queueId": [3, 3]}


def test_dropmalformed_drops_and_counts() -> None:
    """In mode DROPMALFORMED, unreadable messages are left out and counted."""
    decoder = ColumnDecoder(["body", "tags"], Content(mode=Mode.DROPMALFORMED))
    decoded = whole(decoder, [block([BROKEN_BODY, PLAIN, BROKEN_TEXT])])
    assert (decoded.batch.num_rows, decoded.dropped) == (1, 2)


def test_dropmalformed_keeps_readable_irregular_messages() -> None:
    """In mode DROPMALFORMED, an irregular message that can be read is a row."""
    decoder = ColumnDecoder(["body", "tags"], Content(mode=Mode.DROPMALFORMED))
    decoded = whole(decoder, [block([packed(PLAIN, Compression.ZLIB), BROKEN_BODY, packed(PLAIN, Compression.LZ4)])])
    assert (decoded.batch.to_pydict(), decoded.dropped) == ({"body": [b"hello"] * 2, "tags": ["a"] * 2}, 1)


def test_content_that_no_column_shows_is_not_read() -> None:
    """If only the column queueOffset is requested, an unreadable body or property text causes no error.

    Nor is the message with the unreadable property text decoded one by one, as the one with the compressed body is.
    """
    decoded = whole(ColumnDecoder(["queueOffset"]), [block([BROKEN_BODY, BROKEN_TEXT])])
    assert decoded.batch.to_pydict() == {"queueOffset": [0, 1]}
    assert decoded.irregular_count == 1


NO_BATCH = inner_batch(PLAIN, [b"a", b"b"])
NO_BATCH = replace(NO_BATCH, body=NO_BATCH.body[:-1])
UNPACKABLE_BATCH = replace(NO_BATCH, sys_flag=NO_BATCH.sys_flag | SysFlag.COMPRESSED)


@pytest.mark.parametrize("broken", [NO_BATCH, UNPACKABLE_BATCH])
def test_a_broken_inner_batch_follows_the_mode(broken: Record) -> None:
    """A broken inner batch raises an error (FAILFAST), is one row without a body (PERMISSIVE), or is left out."""
    blocks = [block([PLAIN, broken, PLAIN])]
    with pytest.raises(DecodeError, match=r"topic orders, broker broker-a, queue 3, offset 1.*mode"):
        whole(ColumnDecoder(["queueOffset"]), blocks)
    columns = ["queueOffset", "body", "tags"]
    kept = whole(ColumnDecoder(columns, Content(mode=Mode.PERMISSIVE)), blocks)
    assert kept.batch.to_pydict() == {"queueOffset": [0, 1, 2], "body": [b"hello", None, b"hello"], "tags": ["a"] * 3}
    left = whole(ColumnDecoder(columns, Content(mode=Mode.DROPMALFORMED)), blocks)
    assert (left.batch.column("queueOffset").to_pylist(), left.dropped) == ([0, 2], 1)


def test_a_time_beyond_the_year_9999_is_null() -> None:
    """A born time in nanoseconds, a common mistake of producers, becomes null; the store time does not."""
    wrong_clock = replace(PLAIN, born_timestamp=1_700_000_000_123_456_789)
    decoder = ColumnDecoder(["bornTimestamp", "storeTimestamp"])
    batch = whole(decoder, [block([PLAIN, wrong_clock, packed(wrong_clock, Compression.ZLIB)])]).batch
    assert [each is None for each in batch.column("bornTimestamp").to_pylist()] == [False, True, True]
    assert batch.column("storeTimestamp").null_count == 0


@pytest.mark.parametrize(("topic_size", "properties_size"), [(200, 10), (6, 40_003)])
def test_sizes_have_a_sign(topic_size: int, properties_size: int) -> None:
    """A topic or property size above the largest signed number is an error, even if that many bytes are there."""
    tail = bytes([topic_size]) + b"t" * topic_size + properties_size.to_bytes(2, "big") + b"p" * properties_size
    record = encode_record(PLAIN)
    record = record[: record.index(b"hello") + 5] + tail
    damaged = block([PLAIN])._replace(data=memoryview(len(record).to_bytes(4, "big") + record[4:]))
    with pytest.raises(DecodeError, match=r"a field of -\d+ bytes.*topic orders, broker broker-a, queue 3, offset 0"):
        whole(ColumnDecoder(["queueOffset"]), [block([PLAIN]), damaged])


def test_what_unpacks_to_much_comes_in_several_batches() -> None:
    """If compressed bodies are too large for one batch when decompressed, they come in several batches, in order."""
    records = [PLAIN, *[packed(replace(PLAIN, body=bytes([n]) * 4000), Compression.ZLIB) for n in range(6)], PLAIN]
    blocks = [block(records)]
    decoded = list(ColumnDecoder(["queueOffset", "body"]).decode_all(blocks, BatchSize(byte_count=10_000)))
    assert [each.batch.column("queueOffset").to_pylist() for each in decoded] == [[0, 1, 2, 3], [4, 5, 6], [7]]
    assert [body for each in decoded for body in each.batch.column("body").to_pylist()] == [
        b"hello",
        *[bytes([n]) * 4000 for n in range(6)],
        b"hello",
    ]
    assert [each.irregular_count for each in decoded] == [3, 3, 0]


def recorded_answers() -> list[Block]:
    """Return the recorded responses to pulls that found messages."""
    blocks = []
    for path in sorted(GOLDEN.glob("**/*.jsonl")):
        for exchange in map(json.loads, path.read_text().splitlines()):
            request, response = exchange["request"], exchange["response"] or {}
            if request["name"] in ("PULL_MESSAGE", "LITE_PULL_MESSAGE") and response.get("code") == 0:
                body = base64.b64decode(response["body_b64"])
                header = request["header"]
                queue = MessageQueue(header["topic"], header.get("bname", "broker-a"), int(header["queueId"]))
                blocks.append(Block(memoryview(body), QueueRange(queue, 0, 2**62), len(record_starts(body))))
    return blocks


def test_recorded_answers_of_real_brokers() -> None:
    """Both decoders agree about recorded responses with batches, transactions, compressed bodies and retries."""
    blocks = recorded_answers()
    decoded = whole(ColumnDecoder(EVERY_COLUMN), blocks)
    assert decoded.batch.num_rows > 100
    assert [column.to_pylist() for column in decoded.batch.columns] == readable(blocks, Content())
