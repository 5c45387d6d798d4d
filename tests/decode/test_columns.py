"""Columns of record bytes equal what the readable decoder says of each message."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rocketmq.decode.columns import ColumnDecoder
from pyspark_rocketmq.decode.layout import COLUMNS, Layout, default_columns
from pyspark_rocketmq.decode.rows import Content, Mode, read_rows, row_value
from pyspark_rocketmq.errors import DecodeError
from pyspark_rocketmq.model import Block, MessageQueue, QueueRange
from pyspark_rocketmq.wire.compression import Compression
from pyspark_rocketmq.wire.record import Record, decode_records
from pyspark_rocketmq.wire.scan import record_starts

from .samples import (
    QUEUE,
    V4,
    block,
    inner_batch,
    odd_records,
    packed,
    plain_records,
    property_names,
    property_text,
    property_values,
)

GOLDEN = Path(__file__).parents[1] / "golden" / "frames"
EVERY_COLUMN = tuple(COLUMNS)
PLAIN = Record(
    topic="orders",
    queue_id=3,
    queue_offset=0,
    physical_offset=1000,
    born_timestamp=1_700_000_000_000,
    born_host=V4,
    store_timestamp=1_700_000_000_123,
    store_host=V4,
    body=b"hello",
    properties_text=property_text([("TAGS", "a"), ("colour", "red")]),
)


def readable(blocks: list[Block], content: Content) -> list[list[object]]:
    """What the readable decoder says of the messages in the blocks, a list a column."""
    rows = [
        row
        for data, (queue, start, end), _ in blocks
        for record in decode_records(data)
        for row in read_rows(record, queue, content)
        if start <= row.record.queue_offset < end and row.passes_tags()
    ]
    schema = ColumnDecoder(EVERY_COLUMN, content).schema
    return [
        pa.array([row_value(name, row) for row in rows], schema.field(name).type).to_pylist() for name in EVERY_COLUMN
    ]


@given(
    st.lists(st.lists(st.one_of(plain_records, odd_records), max_size=4), max_size=3),
    st.builds(Content, properties_as_json=st.booleans(), system_properties=st.booleans()),
)
def test_bulk_equals_readable_for_any_mixture(answers: list[list[Record]], content: Content) -> None:
    """Every column of every record, plain or odd, in any mixture, in the order of arrival."""
    blocks = [
        block(records, queue=MessageQueue(f"t{i}", "broker-a", i)) for i, records in enumerate(answers) if records
    ]
    decoded = ColumnDecoder(EVERY_COLUMN, content).decode(blocks)
    assert [column.to_pylist() for column in decoded.batch.columns] == readable(blocks, content)
    decoded.batch.validate(full=True)


@given(st.lists(property_names, max_size=5), st.data())
def test_rows_with_the_same_names(names: list[str], data: st.DataObject) -> None:
    """Rows that name the same properties in the same order, as producers write them, a name twice included."""
    rows = data.draw(st.lists(st.tuples(*[property_values] * len(names)), min_size=1, max_size=5))
    texts = [property_text(list(zip(names, row, strict=True))) for row in rows]
    blocks = [block([replace(PLAIN, properties_text=text) for text in texts])]
    decoded = ColumnDecoder(EVERY_COLUMN).decode(blocks)
    assert [column.to_pylist() for column in decoded.batch.columns] == readable(blocks, Content())


@given(st.lists(plain_records, min_size=1, max_size=8))
def test_plain_records_need_no_help(records: list[Record]) -> None:
    """No record of the usual kind is read one by one."""
    assert ColumnDecoder(EVERY_COLUMN).decode([block(records)]).handed_over == 0


def test_odd_records_are_counted() -> None:
    """The number of records read one by one is reported."""
    decoded = ColumnDecoder(["body"]).decode([block([PLAIN, packed(PLAIN, Compression.ZLIB), PLAIN])])
    assert decoded.handed_over == 1
    assert decoded.batch.column("body").to_pylist() == [b"hello"] * 3


def test_offsets_outside_the_range_are_left_out() -> None:
    """Messages before the start and from the end on are not rows, not even inside an inner batch."""
    records = [inner_batch(PLAIN, [b"a", b"b", b"c"]), replace(PLAIN, queue_offset=3), replace(PLAIN, queue_offset=4)]
    decoded = ColumnDecoder(["queueOffset", "body"]).decode([block(records, QueueRange(QUEUE, 1, 4))])
    assert decoded.batch.to_pydict() == {"queueOffset": [1, 2, 3], "body": [b"b", b"c", b"hello"]}


def test_tags_are_compared_as_text() -> None:
    """A message whose tag only shares the hash code of a wanted one is dropped, in bulk and one by one."""
    aa, bb = (replace(PLAIN, properties_text=property_text([("TAGS", tag)])) for tag in ("Aa", "BB"))
    decoder = ColumnDecoder(["tags"], Content(tags=frozenset(["Aa"])))
    decoded = decoder.decode([block([aa, bb, packed(aa, Compression.LZ4), packed(bb, Compression.LZ4)])])
    assert decoded.batch.to_pydict() == {"tags": ["Aa", "Aa"]}


def test_retries_are_not_picked_by_tag() -> None:
    """A message sent back keeps coming whatever its tag, plain or odd."""
    retries = block([PLAIN, packed(PLAIN, Compression.ZLIB)], queue=MessageQueue("%RETRY%g", "broker-a", 0))
    decoded = ColumnDecoder(["topic"], Content(tags=frozenset(["b"]))).decode([block([PLAIN]), retries])
    assert decoded.batch.to_pydict() == {"topic": ["%RETRY%g", "%RETRY%g"]}


def test_last_of_equal_names_counts() -> None:
    """A name given twice has its last value, in the map and in the columns made from it."""
    record = replace(PLAIN, properties_text=property_text([("k", "1"), ("TAGS", "x"), ("k", "2"), ("TAGS", "y")]))
    decoded = ColumnDecoder(["properties", "tags"]).decode([block([record])])
    assert decoded.batch.to_pydict() == {"properties": [[("k", "2")]], "tags": ["y"]}


def test_json_properties_parse_back() -> None:
    """Quotes, backslashes and control characters survive the JSON form."""
    value = 'say "hi" \\ \n é'
    record = replace(PLAIN, properties_text=property_text([("k", value), ("l", "2")]))
    decoded = ColumnDecoder(["properties"], Content(properties_as_json=True)).decode([block([record, PLAIN])])
    assert [json.loads(text) for text in decoded.batch.column(0).to_pylist()] == [
        {"k": value, "l": "2"},
        {"colour": "red"},
    ]


BROKEN_BODY = replace(packed(PLAIN, Compression.ZLIB), body=b"not zlib")
BROKEN_TEXT = replace(PLAIN, properties_text=b"colour\x01\xff\xfe\x02")


@pytest.mark.parametrize("broken", [BROKEN_BODY, BROKEN_TEXT])
def test_failfast_names_the_message(broken: Record) -> None:
    """The error says which message of which queue it is, and which option goes on."""
    with pytest.raises(DecodeError, match=r"topic orders, broker broker-a, queue 3, offset 1.*mode"):
        ColumnDecoder(["body", "properties"]).decode([block([PLAIN, broken])])


def test_permissive_gives_null() -> None:
    """What cannot be read is null, the rest of the message is there."""
    decoder = ColumnDecoder(["body", "properties", "queueId"], Content(mode=Mode.PERMISSIVE))
    batch = decoder.decode([block([BROKEN_BODY, BROKEN_TEXT])]).batch
    assert batch.to_pydict() == {"body": [None, b"hello"], "properties": [[("colour", "red")], None], "queueId": [3, 3]}


def test_dropmalformed_drops_and_counts() -> None:
    """Unreadable messages are left out and counted."""
    decoder = ColumnDecoder(["body", "tags"], Content(mode=Mode.DROPMALFORMED))
    decoded = decoder.decode([block([BROKEN_BODY, PLAIN, BROKEN_TEXT])])
    assert (decoded.batch.num_rows, decoded.dropped) == (1, 2)


def test_content_nobody_asked_for_is_not_read() -> None:
    """A broken body is no matter to a reader of offsets."""
    decoded = ColumnDecoder(["queueOffset"]).decode([block([BROKEN_BODY, BROKEN_TEXT])])
    assert decoded.batch.to_pydict() == {"queueOffset": [0, 1]}


def test_nothing_to_decode_is_an_empty_batch() -> None:
    """No blocks, or blocks without records, give the right columns and no rows."""
    decoder = ColumnDecoder(default_columns(Layout.ROCKETMQ))
    for blocks in ([], [Block(memoryview(b""), QueueRange(QUEUE, 0, 5), 0)]):
        assert decoder.decode(blocks).batch.num_rows == 0


def recorded_answers() -> list[Block]:
    """The answers of recorded pulls that found messages."""
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
    """Everything real brokers sent, batches, transactions, packed bodies and retries among it, reads the same."""
    blocks = recorded_answers()
    decoded = ColumnDecoder(EVERY_COLUMN).decode(blocks)
    assert decoded.batch.num_rows > 100
    assert [column.to_pylist() for column in decoded.batch.columns] == readable(blocks, Content())
