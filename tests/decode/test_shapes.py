"""Test that texts of one shape are read alike, and that a text which differs by one byte is noticed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rocketmq.decode.columns import COLUMNS, Content, Mode
from pyspark_rocketmq.decode.decoder import ColumnDecoder
from pyspark_rocketmq.decode.shapes import ShapedEntries, ShapeFinder
from pyspark_rocketmq.decode.spans import Spans
from pyspark_rocketmq.model import Block
from pyspark_rocketmq.wire.record import Record

from .samples import block, plain_records, property_text, whole
from .test_columns import EVERY_COLUMN, PLAIN, readable

PERMISSIVE = Content(mode=Mode.PERMISSIVE)
_lengths = st.integers(1, 60)
_bytes = st.sampled_from(b"\x00\x01\x02\x03A\x80\xc3\xff")
_letters = st.text(st.sampled_from("abé€𝄞"), min_size=1, max_size=3)
_values = st.one_of(_letters, st.text("ab", min_size=1, max_size=20))


def with_text(text: bytes) -> Record:
    """Return a message with these properties."""
    return replace(PLAIN, properties_text=text)


def usual_text(number: int, tag: str = "TagA") -> bytes:
    """Return the properties that a producer and its broker write; batches hold some of them twice."""
    ours = [("KEYS", f"order-{number}"), ("UNIQ_KEY", f"{number:032X}"), ("WAIT", "true"), ("TAGS", tag)]
    return property_text([*ours, ("UNIQ_KEY", f"{number + 1:032X}"), ("colour", "red")], terminated=False)


def assert_bulk_equals_readable(blocks: list[Block]) -> int:
    """Compare every column; return the number of records read one by one."""
    decoded = whole(ColumnDecoder(EVERY_COLUMN, PERMISSIVE), blocks)
    assert [column.to_pylist() for column in decoded.batch.columns] == readable(blocks, PERMISSIVE)
    decoded.batch.validate(full=True)
    return decoded.handed_over


def flexible_text(key: str, shop: str, terminated: bool) -> bytes:
    """Return properties of which two differ in length from message to message, one of them the last."""
    rigid = [("UNIQ_KEY", "0123456789ABCDEF"), ("WAIT", "true")]
    return property_text([("TAGS", "a"), ("KEYS", key), *rigid, ("shop", shop)], terminated)


def maybe_find(finder: ShapeFinder, texts: list[bytes]) -> ShapedEntries | None:
    """Return the entries of texts that lie one behind the other."""
    ends = np.cumsum(list(map(len, texts)))
    return finder.maybe_find(np.frombuffer(b"".join(texts), np.uint8), Spans(np.append(0, ends[:-1]), ends))


@given(st.lists(st.tuples(_lengths, _lengths), min_size=1, max_size=40), st.booleans())
def test_values_of_many_lengths(lengths: list[tuple[int, int]], terminated: bool) -> None:
    """Two values of any length are read, one of them at the very end of the text and of the buffer."""
    records = [with_text(flexible_text("k" * key, "s" * shop, terminated)) for key, shop in lengths]
    assert assert_bulk_equals_readable([block(records)]) == 0


def test_values_of_many_lengths_are_one_shape() -> None:
    """Values of lengths that mix in every way are found by the shape of a few texts."""
    texts = [flexible_text("k" * (at % 7 + 1), "s" * (at % 11 + 1), terminated=False) for at in range(200)]
    found = maybe_find(ShapeFinder(), texts)
    assert found
    assert found.values_of("shop").to_pylist() == ["s" * (at % 11 + 1) for at in range(200)]


@given(st.lists(st.tuples(_values, _values), min_size=1, max_size=12), st.integers(0, 11), st.integers(0, 90), _bytes)
def test_any_byte_may_differ_between_flexible_values(
    values: list[tuple[str, str]], row: int, at: int, byte: int
) -> None:
    """A text of which any byte is changed, a separator or a name included, is read as the readable decoder does."""
    texts = [flexible_text(*pair, terminated=True) for pair in values]
    changed = bytearray(texts[row % len(texts)])
    changed[at % len(changed)] = byte
    texts[row % len(texts)] = bytes(changed)
    assert_bulk_equals_readable([block([with_text(text) for text in texts])])


@given(st.lists(st.tuples(*[st.sampled_from(["", "v", "value"])] * 3, st.booleans()), min_size=1, max_size=12))
def test_values_that_are_empty_at_times(rows: list[tuple[str, str, str, bool]]) -> None:
    """An empty value is no property, even where values of its name are longer elsewhere or the name comes twice."""
    texts = [
        property_text([("k", first), ("TAGS", second), ("k", third)], terminated)
        for first, second, third, terminated in rows
    ]
    assert_bulk_equals_readable([block([with_text(text) for text in texts])])


_any_texts = st.one_of(
    st.builds(flexible_text, _values, _values, st.booleans()),
    st.builds(usual_text, st.integers(0, 2000)),
    st.sampled_from([b"", b"k\x01v\x02", b"k\x01\x02", b"k\x01v\x01w\x02", b"k\x01\xff\x02"]),
)


@given(st.lists(st.lists(_any_texts, min_size=1, max_size=6), min_size=2, max_size=4))
def test_shapes_of_earlier_batches_change_nothing(batches: list[list[bytes]]) -> None:
    """A decoder that has read other texts reads each batch as a fresh one does."""
    decoder = ColumnDecoder(EVERY_COLUMN, PERMISSIVE)
    for texts in [*batches, *batches]:
        blocks = [block([with_text(text) for text in texts])]
        decoded = whole(decoder, blocks)
        fresh = whole(ColumnDecoder(EVERY_COLUMN, PERMISSIVE), blocks)
        assert [column.to_pylist() for column in decoded.batch.columns] == readable(blocks, PERMISSIVE)
        assert decoded.handed_over == fresh.handed_over


def test_shapes_that_no_longer_fit_are_forgotten() -> None:
    """The second batch of values with other lengths is one shape again."""
    finder = ShapeFinder()
    of_one_length = [flexible_text("key", "shop", terminated=True)] * 8
    of_many = [flexible_text("k" * (at % 5 + 1), "s" * (at % 7 + 1), terminated=True) for at in range(40)]
    counts = [found.shape_count for texts in (of_one_length, of_many, of_many) if (found := maybe_find(finder, texts))]
    assert counts[0] == counts[2] == 1 < counts[1]


@given(st.lists(st.sampled_from([1, 5, 100, 1500, 3000, 20000]), min_size=1, max_size=8))
def test_long_values_among_short_ones(lengths: list[int]) -> None:
    """A value far longer than the others of its name is read in bulk."""
    records = [with_text(flexible_text("k" * length, "s", terminated=True)) for length in lengths]
    assert assert_bulk_equals_readable([block(records)]) == 0


@given(st.integers(0, 2000), st.integers(1, 40))
def test_numbers_that_grow_a_digit(first: int, count: int) -> None:
    """Keys that are counted up and change their length are read in bulk."""
    records = [with_text(usual_text(number)) for number in range(first, first + count)]
    assert assert_bulk_equals_readable([block(records)]) == 0


@given(st.integers(0, 5), st.integers(0, 200), _bytes)
def test_any_byte_may_differ(row: int, at: int, byte: int) -> None:
    """One text with any byte changed, to a separator or another alphabet, is read as the readable decoder does."""
    texts = [usual_text(number) for number in range(6)]
    changed = bytearray(texts[row])
    changed[at % len(changed)] = byte
    texts[row] = bytes(changed)
    assert_bulk_equals_readable([block([with_text(text) for text in texts])])


@given(st.lists(_letters, min_size=1, max_size=12))
def test_values_of_any_alphabet(tags: list[str]) -> None:
    """Values with characters of one to four bytes at different places are read in bulk."""
    records = [with_text(usual_text(7, tag)) for tag in tags]
    assert assert_bulk_equals_readable([block(records)]) == 0


@given(st.integers(1, 40))
def test_more_shapes_than_are_tried(count: int) -> None:
    """Names that differ from row to row are read in bulk."""
    records = [
        with_text(property_text([(f"name{number}", "v"), ("TAGS", "t" * (number % 3 + 1))])) for number in range(count)
    ]
    assert assert_bulk_equals_readable([block(records)]) == 0


@given(st.lists(st.lists(plain_records, min_size=1, max_size=3), min_size=1, max_size=4), st.binary(max_size=20))
def test_answers_in_one_buffer_are_not_copied_together(responses: list[list[Record]], between: bytes) -> None:
    """Blocks that are views of one receive buffer read as separate ones do, whatever lies between them."""
    apart = [block(records) for records in responses]
    buffer = memoryview(b"".join(between + bytes(single.data) for single in apart))
    blocks, at = [], 0
    for single in apart:
        at += len(between)
        data = buffer[at : at + len(single.data)]
        blocks.append(single._replace(data=data))
        at += len(data)
    assert_bulk_equals_readable(blocks)


def test_a_tag_at_another_place_is_found() -> None:
    """A tag is found in a batch that mixes shapes of other names, other orders, and none of the wanted names."""
    texts = [b"", property_text([("TAGS", "x"), ("k", "1")]), property_text([("k", "1"), ("TAGS", "y")])]
    decoded = whole(ColumnDecoder(["tags", "properties"]), [block([with_text(text) for text in texts * 2])])
    assert decoded.batch.to_pydict() == {
        "tags": [None, "x", "y"] * 2,
        "properties": [[], [("k", "1")], [("k", "1")]] * 2,
    }


def test_columns_without_rows() -> None:
    """A range from which every message is left out gives the columns and no rows."""
    empty = block([PLAIN])._replace(wanted=block([PLAIN]).wanted._replace(start=5))
    assert whole(ColumnDecoder(tuple(COLUMNS)), [empty]).batch.num_rows == 0
