"""Tests of `wire.sized`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rocketmq.errors import LocalProtocolError
from pyspark_rocketmq.wire.sized import read_sized, write_sized


@given(st.binary(max_size=127), st.sampled_from((1, 2, 3, 4)), st.binary(max_size=5), st.binary(max_size=5))
def test_what_was_written_is_read(data: bytes, width: int, before: bytes, after: bytes) -> None:
    """A field is found between other bytes, and the place behind it."""
    written = before + write_sized(data, width, "text")

    read, end = read_sized(memoryview(written + after), len(before), width)

    assert (bytes(read), end) == (data, len(written))


@pytest.mark.parametrize("field", ["", "00", "0002 61", "ffff 61", "8000", "7fff 61 62"])
def test_a_length_is_not_believed(field: str) -> None:
    """A length that is cut, negative or beyond the end is an error."""
    with pytest.raises(ValueError, match="a field of"):
        read_sized(memoryview(bytes.fromhex(field)), 0, 2)


def test_a_place_beyond_the_end_holds_no_field() -> None:
    """Reading past the end does not find an empty field."""
    with pytest.raises(ValueError, match="at 9 in 3"):
        read_sized(memoryview(b"abc"), 9, 2)


@pytest.mark.parametrize(("width", "most"), [(1, 127), (2, 32767)])
def test_lengths_are_signed_as_in_java(width: int, most: int) -> None:
    """A length field holds what a signed integer of its width holds, and no more."""
    assert len(write_sized(bytes(most), width, "text")) == most + width
    with pytest.raises(LocalProtocolError, match=f"text of {most + 1} bytes, the limit is {most}"):
        write_sized(bytes(most + 1), width, "text")
