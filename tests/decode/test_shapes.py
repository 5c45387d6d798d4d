"""Test that property texts of one shape are decoded in bulk, and that a text which differs by one byte is not mistaken.

"In bulk" means that no record is decoded one by one. The reference decoder is the slow one of `test_columns`.
"""

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

from .samples import PLAIN, block, plain_records, property_text, whole
from .test_columns import EVERY_COLUMN, readable

PERMISSIVE = Content(mode=Mode.PERMISSIVE)
_lengths = st.integers(1, 60)
_bytes = st.sampled_from(b"\x00\x01\x02\x03A\x80\xc3\xff")
_letters = st.text(st.sampled_from("abé€𝄞"), min_size=1, max_size=3)
_values = st.one_of(_letters, st.text("ab", min_size=1, max_size=20))


def with_text(text: bytes) -> Record:
    """Return a record with this property text."""
    return replace(PLAIN, properties_text=text)


def usual_text(number: int, tag: str = "TagA") -> bytes:
    """Return the properties that a producer and its broker write.

    UNIQ_KEY is there twice, as in messages of batches.
    """
    ours = [("KEYS", f"order-{number}"), ("UNIQ_KEY", f"{number:032X}"), ("WAIT", "true"), ("TAGS", tag)]
    return property_text([*ours, ("UNIQ_KEY", f"{number + 1:032X}"), ("colour", "red")], terminated=False)


def assert_bulk_equals_readable(blocks: list[Block]) -> int:
    """Assert that both decoders give equal columns; return the number of records that were decoded one by one."""
    decoded = whole(ColumnDecoder(EVERY_COLUMN, PERMISSIVE), blocks)
    assert [column.to_pylist() for column in decoded.batch.columns] == readable(blocks, PERMISSIVE)
    decoded.batch.validate(full=True)
    return decoded.irregular_count


def flexible_text(key: str, shop: str, terminated: bool) -> bytes:
    """Return a property text with two flexible values, KEYS and shop; shop is the last property."""
    rigid = [("UNIQ_KEY", "0123456789ABCDEF"), ("WAIT", "true")]
    return property_text([("TAGS", "a"), ("KEYS", key), *rigid, ("shop", shop)], terminated)


def maybe_find(finder: ShapeFinder, texts: list[bytes]) -> ShapedEntries | None:
    """Return the properties of these texts, put one after another into one buffer.

    None if `finder` leaves them to others.
    """
    ends = np.cumsum(list(map(len, texts)))
    return finder.maybe_find(np.frombuffer(b"".join(texts), np.uint8), Spans(np.append(0, ends[:-1]), ends))


@given(st.lists(st.tuples(_lengths, _lengths), min_size=1, max_size=40), st.booleans())
def test_values_of_many_lengths(lengths: list[tuple[int, int]], terminated: bool) -> None:
    """Texts with two flexible values, one of them at the end of the buffer, are decoded in bulk and correctly."""
    records = [with_text(flexible_text("k" * key, "s" * shop, terminated)) for key, shop in lengths]
    assert assert_bulk_equals_readable([block(records)]) == 0


def test_values_of_many_lengths_are_one_shape() -> None:
    """If the values of two names have every mixture of lengths, one shape is found."""
    texts = [flexible_text("k" * (at % 7 + 1), "s" * (at % 11 + 1), terminated=False) for at in range(200)]
    found = maybe_find(ShapeFinder(), texts)
    assert found
    assert found.values_of("shop").to_pylist() == ["s" * (at % 11 + 1) for at in range(200)]


@given(st.lists(st.tuples(_values, _values), min_size=1, max_size=12), st.integers(0, 11), st.integers(0, 90), _bytes)
def test_any_byte_may_differ_between_flexible_values(
    values: list[tuple[str, str]], row: int, at: int, byte: int
) -> None:
    """If any byte of a text with flexible values changes, even a separator or name, both decoders still agree."""
    texts = [flexible_text(*pair, terminated=True) for pair in values]
    changed = bytearray(texts[row % len(texts)])
    changed[at % len(changed)] = byte
    texts[row % len(texts)] = bytes(changed)
    assert_bulk_equals_readable([block([with_text(text) for text in texts])])


@given(st.lists(st.tuples(*[st.sampled_from(["", "v", "value"])] * 3, st.booleans()), min_size=1, max_size=12))
def test_values_that_are_empty_at_times(rows: list[tuple[str, str, str, bool]]) -> None:
    """An empty value is no property, even if other rows have a value of that name or the name comes twice."""
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
    """A decoder that has decoded other batches decodes a batch as a new decoder does."""
    decoder = ColumnDecoder(EVERY_COLUMN, PERMISSIVE)
    for texts in [*batches, *batches]:
        blocks = [block([with_text(text) for text in texts])]
        decoded = whole(decoder, blocks)
        fresh = whole(ColumnDecoder(EVERY_COLUMN, PERMISSIVE), blocks)
        assert [column.to_pylist() for column in decoded.batch.columns] == readable(blocks, PERMISSIVE)
        assert decoded.irregular_count == fresh.irregular_count


def test_shapes_that_no_longer_fit_are_forgotten() -> None:
    """If values get other lengths than before, the next batch has several shapes, and the one after it has one."""
    finder = ShapeFinder()
    of_one_length = [flexible_text("key", "shop", terminated=True)] * 8
    of_many = [flexible_text("k" * (at % 5 + 1), "s" * (at % 7 + 1), terminated=True) for at in range(40)]
    counts = [found.shape_count for texts in (of_one_length, of_many, of_many) if (found := maybe_find(finder, texts))]
    assert counts[0] == counts[2] == 1 < counts[1]


def test_a_remembered_shape_fits_values_of_twice_the_length() -> None:
    """A value may be up to twice as long as those from which its shape was learned; a longer one has another shape."""
    finder = ShapeFinder()
    usual = [flexible_text("k" * (at % 5 + 1), "s" * (at % 2 + 1), terminated=True) for at in range(20)]
    found = [maybe_find(finder, usual + more) for more in ([], [flexible_text("k" * 10, "s", terminated=True)])]
    assert [each and each.shape_count for each in found] == [1, 1]

    longer = maybe_find(finder, [*usual, flexible_text("k" * 11, "s", terminated=True)])
    assert longer and longer.shape_count == 2


@given(st.lists(st.sampled_from([1, 5, 100, 1500, 3000, 20000]), min_size=1, max_size=8))
def test_long_values_among_short_ones(lengths: list[int]) -> None:
    """Texts are decoded in bulk if one value is much longer than other values of its name."""
    records = [with_text(flexible_text("k" * length, "s", terminated=True)) for length in lengths]
    assert assert_bulk_equals_readable([block(records)]) == 0


@given(st.integers(0, 2000), st.integers(1, 40))
def test_numbers_that_grow_a_digit(first: int, count: int) -> None:
    """Texts are decoded in bulk if their keys are counted up and get longer by a digit."""
    records = [with_text(usual_text(number)) for number in range(first, first + count)]
    assert assert_bulk_equals_readable([block(records)]) == 0


@given(st.integers(0, 5), st.integers(0, 200), _bytes)
def test_any_byte_may_differ(row: int, at: int, byte: int) -> None:
    """If any byte of one text changes, even to a separator or a non-ASCII byte, both decoders still agree."""
    texts = [usual_text(number) for number in range(6)]
    changed = bytearray(texts[row])
    changed[at % len(changed)] = byte
    texts[row] = bytes(changed)
    assert_bulk_equals_readable([block([with_text(text) for text in texts])])


@given(st.lists(_letters, min_size=1, max_size=12))
def test_values_of_any_alphabet(tags: list[str]) -> None:
    """Texts are decoded in bulk if their values have characters of one to four bytes at different places."""
    records = [with_text(usual_text(7, tag)) for tag in tags]
    assert assert_bulk_equals_readable([block(records)]) == 0


@given(st.integers(1, 40))
def test_more_shapes_than_are_tried(count: int) -> None:
    """Texts are decoded in bulk if each row has other property names."""
    records = [
        with_text(property_text([(f"name{number}", "v"), ("TAGS", "t" * (number % 3 + 1))])) for number in range(count)
    ]
    assert assert_bulk_equals_readable([block(records)]) == 0


@given(st.lists(st.lists(plain_records, min_size=1, max_size=3), min_size=1, max_size=4), st.binary(max_size=20))
def test_answers_in_one_buffer_are_not_copied_together(responses: list[list[Record]], between: bytes) -> None:
    """If blocks are views of one receive buffer with other bytes between them, both decoders still agree."""
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
    """If one batch mixes texts with the tag first, last and absent, each row has its own tag or null."""
    texts = [b"", property_text([("TAGS", "x"), ("k", "1")]), property_text([("k", "1"), ("TAGS", "y")])]
    decoded = whole(ColumnDecoder(["tags", "properties"]), [block([with_text(text) for text in texts * 2])])
    assert decoded.batch.to_pydict() == {
        "tags": [None, "x", "y"] * 2,
        "properties": [[], [("k", "1")], [("k", "1")]] * 2,
    }


def test_columns_without_rows() -> None:
    """If all messages are outside the wanted offsets, the record batch has all columns and no rows."""
    empty = block([PLAIN])._replace(wanted=block([PLAIN]).wanted._replace(start=5))
    assert whole(ColumnDecoder(tuple(COLUMNS)), [empty]).batch.num_rows == 0
