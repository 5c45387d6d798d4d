"""Test that large inner batches, whose messages are decoded together, give the same rows as one by one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rocketmq.decode.bulk import Responses, find_records
from pyspark_rocketmq.decode.columns import Content, Mode
from pyspark_rocketmq.decode.decoder import BatchSize, ColumnDecoder
from pyspark_rocketmq.decode.inner import maybe_unwrap
from pyspark_rocketmq.decode.spans import Spans
from pyspark_rocketmq.model import QueueRange
from pyspark_rocketmq.wire.batch import BatchEntry, encode_batch
from pyspark_rocketmq.wire.codes import SysFlag
from pyspark_rocketmq.wire.compression import Compression
from pyspark_rocketmq.wire.record import Record
from tests.calls import count_calls

from .samples import PLAIN, QUEUE, V6, block, broken_texts, inner_batch, packed, property_text, property_texts, whole
from .test_columns import EVERY_COLUMN, readable

_entries = st.builds(BatchEntry, st.binary(max_size=9), property_texts, st.integers(-(2**31), 2**31 - 1))
_broken_entries = st.builds(BatchEntry, st.binary(max_size=9), broken_texts, st.just(0))


def batch_of(entries: list[BatchEntry], stated: int = 0) -> Record:
    """Return an inner batch of these messages; `stated` is its property INNER_NUM, if it is not 0."""
    text = property_text([("INNER_NUM", str(stated))]) if stated else b""
    return replace(inner_batch(PLAIN, [b""]), body=encode_batch(entries), flag=7, properties_text=text)


def columns_of(decoder: ColumnDecoder, record: Record, size: BatchSize | None = None) -> list[list[object]]:
    """Return the values of all columns of a response with plain records around the record."""
    decoded = list(decoder.decode_all([block([PLAIN, record, replace(PLAIN, queue_offset=1000)])], size))
    for each in decoded:
        each.batch.validate(full=True)
    return [[value for each in decoded for value in each.batch.column(name).to_pylist()] for name in EVERY_COLUMN]


@given(
    st.lists(_entries, min_size=1, max_size=5),
    st.integers(30, 40),
    st.one_of(st.none(), _broken_entries),
    st.sampled_from([None, *Compression]),
    st.builds(
        Content,
        properties_as_json=st.booleans(),
        check_crc=st.booleans(),
        tags=st.sampled_from([frozenset[str](), frozenset(["a"])]),
        mode=st.just(Mode.PERMISSIVE),
    ),
    st.sampled_from([None, BatchSize(messages=17), BatchSize(byte_count=500)]),
)
def test_messages_of_large_inner_batches(
    entries: list[BatchEntry],
    count: int,
    broken: BatchEntry | None,
    compression: Compression | None,
    content: Content,
    size: BatchSize | None,
) -> None:
    """Both decoders give equal columns for inner batches around the size from which messages are decoded together."""
    entries = (entries * count)[:count]
    record = batch_of([*entries, broken] if broken else entries)
    record = packed(record, compression) if compression else record
    blocks = [block([PLAIN, record, replace(PLAIN, queue_offset=1000)])]
    assert columns_of(ColumnDecoder(EVERY_COLUMN, content), record, size) == readable(blocks, content)


@pytest.mark.parametrize(
    "record",
    [
        replace(batch_of([BatchEntry(b"a")] * 40), born_host=V6, sys_flag=0xC0 | SysFlag.BORN_HOST_V6),
        replace(batch_of([BatchEntry(b"a")] * 40), store_host=V6, sys_flag=0xC0 | SysFlag.STORE_HOST_V6),
        batch_of([BatchEntry(b"a")] * 40, stated=40),
    ],
    ids=["born in IPv6", "stored in IPv6", "number stated"],
)
def test_large_inner_batches_that_differ(record: Record) -> None:
    """Inner batches with IPv6 hosts or a stated number give the same columns from both decoders."""
    blocks = [block([PLAIN, record, replace(PLAIN, queue_offset=1000)])]
    assert columns_of(ColumnDecoder(EVERY_COLUMN), record) == readable(blocks, Content())


@given(st.integers(0, 40 * 24 - 1), st.sampled_from([0x01, 0x80, 0xFF]))
def test_damage_inside_a_large_inner_batch(at: int, change: int) -> None:
    """If any byte of the body of a large inner batch is another one, both decoders still give equal columns."""
    record = batch_of([BatchEntry(b"a", b"")] * 40, stated=40)
    body = bytearray(record.body)
    body[at % len(body)] ^= change
    record = replace(record, body=bytes(body))
    blocks = [block([PLAIN, record, replace(PLAIN, queue_offset=1000)])]
    content = Content(mode=Mode.PERMISSIVE)
    assert columns_of(ColumnDecoder(EVERY_COLUMN, content), record) == readable(blocks, content)


def are_decoded_together(record: Record, content: Content) -> bool:
    """Return whether the messages of this inner batch are decoded as arrays."""
    response = block([record])
    data, queue = np.frombuffer(response.data, np.uint8), [QUEUE]
    all_of_it = Responses([response.wanted], [1], [0], [0], [0], queue, [0], [2**62])
    records = find_records(data, Spans(np.array([0]), np.array([len(data)])), all_of_it)
    return maybe_unwrap(records, 0, record, content) is not None


@pytest.mark.parametrize(
    ("count", "stated", "together"),
    [(31, 0, False), (32, 0, True), (31, 31, False), (32, 32, True), (40, 40, True), (40, 41, False), (40, 39, False)],
)
def test_large_inner_batches_are_decoded_together(count: int, stated: int, together: bool) -> None:
    """From 32 messages on, an inner batch is decoded as arrays, unless it states another number of messages."""
    record = batch_of([BatchEntry(b"x", b"k\x01v\x02")] * count, stated)
    assert are_decoded_together(record, Content()) is together
    assert not are_decoded_together(record, Content(check_crc=True))  # PLAIN's CRC is that of another body


def test_the_longest_properties_are_decoded_together() -> None:
    """A message of an inner batch may have properties of 32,767 bytes, and no properties."""
    longest = property_text([("k", "v" * (32_767 - 3))])
    assert len(longest) == 32_767
    assert are_decoded_together(batch_of([BatchEntry(b"", longest), *[BatchEntry(b"")] * 31]), Content())


def test_messages_outside_the_wanted_offsets_are_left_out() -> None:
    """Of a large inner batch, only the messages at wanted offsets become rows."""
    record = batch_of([BatchEntry(b"%d" % number) for number in range(100)])
    decoded = whole(ColumnDecoder(["queueOffset", "body"]), [block([record], QueueRange(QUEUE, 10, 13))])
    assert decoded.batch.to_pydict() == {"queueOffset": [10, 11, 12], "body": [b"10", b"11", b"12"]}


@pytest.mark.parametrize("size", [BatchSize(messages=100), BatchSize(byte_count=20_000)], ids=["messages", "bytes"])
def test_parts_of_inner_batches_fit_into_record_batches(size: BatchSize) -> None:
    """Messages that are decoded together never make a record batch larger than its size."""
    record = packed(batch_of([BatchEntry(b"x" * 200)] * 60), Compression.ZLIB)
    records = [replace(record, queue_offset=60 * number) for number in range(5)]
    decoded = [each.batch for each in ColumnDecoder(["queueOffset", "body"]).decode_all([block(records)], size)]
    assert [offset for batch in decoded for offset in batch.column("queueOffset").to_pylist()] == list(range(300))
    assert max(batch.num_rows for batch in decoded) <= min(size.messages, size.byte_count // 200)


def test_large_messages_of_an_inner_batch_come_one_by_one() -> None:
    """If each message of a large inner batch exceeds the size of a record batch, each makes one of its own."""
    record = batch_of([BatchEntry(b"%03d" % number * 200) for number in range(40)])
    decoded = [each.batch for each in ColumnDecoder(["body"]).decode_all([block([record])], BatchSize(byte_count=500))]
    assert [batch.num_rows for batch in decoded if batch.num_rows] == [1] * 40
    assert [batch.column(0)[0].as_py()[:3] for batch in decoded if batch.num_rows] == [b"%03d" % n for n in range(40)]


def test_small_record_batches_are_decoded_one_message_at_a_time() -> None:
    """If record batches have one message, a message of a large inner batch costs no more than one of a small one."""
    record, small = (batch_of([BatchEntry(b"x")] * count) for count in (3000, 30))

    def decode(each: Record) -> int:
        return sum(1 for _ in ColumnDecoder(["body"]).decode_all([block([each])], BatchSize(messages=1)))

    assert count_calls(lambda: decode(record)) < 100 * count_calls(lambda: decode(small))
