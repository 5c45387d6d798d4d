"""Test the functions that cut many slices out of a buffer at once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rocketmq.decode.entries import PropertyTexts
from pyspark_rocketmq.decode.spans import Spans, cut_spans, not_utf8, peek_windows, repeat_texts


@given(st.binary(max_size=40), st.lists(st.integers(0, 50), max_size=20), st.integers(1, 60))
def test_windows_may_reach_beyond_the_end(data: bytes, starts: list[int], width: int) -> None:
    """If a window reaches beyond the end of the data, its bytes after the end are zero."""
    windows = peek_windows(np.frombuffer(data, np.uint8), np.array(starts, np.int64), width)
    assert [row.tobytes() for row in windows] == [data[start:][:width].ljust(width, b"\0") for start in starts]


@given(st.lists(st.one_of(st.none(), st.tuples(st.integers(0, 20), st.integers(0, 9))), max_size=12))
def test_spans_of_any_length_and_none(spans: list[tuple[int, int] | None]) -> None:
    """`cut_spans` returns the bytes of each span, and null for an absent span."""
    data = bytes(range(30))
    starts, ends = (np.array([-1 if span is None else sum(span[:size]) for span in spans]) for size in (1, 2))
    cut = cut_spans(np.frombuffer(data, np.uint8), Spans(starts.astype(np.int64), ends.astype(np.int64)))
    assert cut.to_pylist() == [None if span is None else data[span[0] : sum(span)] for span in spans]


def test_broken_texts_are_named() -> None:
    """`not_utf8` returns the indices of texts that are not UTF-8, even if two of them are the halves of a character."""
    assert not_utf8(pa.array([b"a", b"\xc3", b"\xa9", "é".encode()])).tolist() == [1, 2]


def test_texts_of_a_slice_are_split_by_themselves() -> None:
    """Property texts that are a slice of an array are found at their own places."""
    texts = pa.array([b"a\x01b\x02", b"lost\x02", b"c\x01d\x02", b"e\x01\x01\x02"]).slice(1, 2)
    found = PropertyTexts(texts)
    assert (found.row_count, found.limits.tolist()) == (2, [4, 9, 13])
    assert found.irregular_rows().tolist() == [0]


def test_repeated_texts_share_memory_up_to_8_mebibytes() -> None:
    """Sixteen arrays of repeated texts are kept for later calls, none of them larger than 8 MiB with its offsets."""

    def place(text: bytes, count: int) -> tuple[pa.Array, int]:
        made = repeat_texts([text], count)
        return made, made.buffers()[2].address

    first, *_ = recent = [place(b"%d" % number, 1000) for number in range(16)]
    assert place(b"0", 1000)[1] == first[1] == place(b"0", 600)[1]
    assert len(recent) == 16

    largest, too_large = b"x" * 508, b"x" * 509
    for text, is_kept in ((largest, True), (too_large, False)):
        one, other = place(text, 16_384), place(text, 16_384)
        assert (one[1] == other[1]) is is_kept
        assert one[0].equals(other[0])
