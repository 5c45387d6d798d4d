"""Tests of `wire.scan`."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rocketmq.errors import DecodeError
from pyspark_rocketmq.wire.record import Record, decode_records, encode_record
from pyspark_rocketmq.wire.scan import MIN_RECORD_BYTES, first_queue_offset, record_starts

from .recorded import recorded_bodies
from .strategies import answers, damaged, join_records


class Scan(NamedTuple):
    """Equally long lists with one entry for each record."""

    starts: list[int]
    queue_offsets: list[int]
    sizes: list[int]


def scan(body: bytes | memoryview) -> Scan:
    """What an answer's walk says of its records."""
    starts = list(record_starts(body))
    offsets = [first_queue_offset(memoryview(body)[at:]) for at in starts]
    return Scan(starts, offsets, [end - start for start, end in pairwise([*starts, len(body)])])


def walk(body: bytes) -> Scan:
    """What the readable decoder says of an answer."""
    found = decode_records(body)
    sizes = [record.total_size for record in found]
    return Scan([sum(sizes[:n]) for n in range(len(sizes))], [record.queue_offset for record in found], sizes)


@given(answers)
def test_scan_agrees_with_the_readable_decoder(found: list[Record]) -> None:
    """Starts, offsets and sizes are those of the decoded records."""
    body = join_records(found)

    assert scan(body) == scan(memoryview(body)) == walk(body)


def test_recorded_answers_are_scanned() -> None:
    """Whatever a real broker stored is walked to its end."""
    for body in recorded_bodies():
        assert scan(body) == walk(body)


def test_an_empty_answer_has_no_records() -> None:
    """Nothing to walk is no error."""
    assert scan(b"") == Scan([], [], [])


@given(damaged(answers.map(join_records)))
def test_what_scan_refuses_the_readable_decoder_refuses(body: bytes) -> None:
    """The records tile the answer exactly, or an error says where they do not."""
    try:
        found = scan(body)
    except DecodeError as refused:
        with pytest.raises(DecodeError) as also_refused:
            decode_records(body)
        assert "no record at byte" in str(refused)
        assert "no record at byte" in str(also_refused.value)
    else:
        ends = [start + size for start, size in zip(found.starts, found.sizes, strict=True)]
        assert [*found.starts, len(body)] == [0, *ends]


@given(st.integers(1, 400), answers.filter(bool))
def test_a_cut_answer_is_an_error(cut: int, found: list[Record]) -> None:
    """An answer may end between records only."""
    body = join_records(found)
    last = encode_record(found[-1])

    with pytest.raises(DecodeError, match=f"no record at byte {len(body)} of"):
        scan(body + last[: min(cut, len(last) - 1)])


def test_no_record_is_smaller_than_the_least() -> None:
    """The least record has IPv4 hosts and nothing in it; a smaller size would never move on."""
    body = recorded_bodies()[0]
    least = MIN_RECORD_BYTES - 1

    for size in (-1, 0, 1, least):
        with pytest.raises(DecodeError, match="no record at byte 0"):
            scan(size.to_bytes(4, "big", signed=True) + body[4:])
