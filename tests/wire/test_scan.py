"""Test `wire.scan`, in comparison with the reference decoder of `wire.record`."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rocketmq.errors import DecodeError
from pyspark_rocketmq.wire.record import Record, decode_records, encode_record
from pyspark_rocketmq.wire.scan import MIN_RECORD_BYTES, body_bytes, first_queue_offset, record_starts

from .recorded import recorded_bodies
from .strategies import damaged, join_records, responses


class Scan(NamedTuple):
    """Start, written offset and size of each record, in three lists."""

    starts: list[int]
    queue_offsets: list[int]
    sizes: list[int]


def scan(body: bytes | memoryview) -> Scan:
    """Return the starts and sizes that `wire.scan` finds in a response, and the offset written at each start."""
    starts = list(record_starts(body))
    offsets = [first_queue_offset(memoryview(body)[at:]) for at in starts]
    return Scan(starts, offsets, [end - start for start, end in pairwise([*starts, len(body)])])


def walk(body: bytes) -> Scan:
    """Return the starts, offsets and sizes that the reference decoder finds in a response."""
    found = decode_records(body)
    sizes = [record.total_size for record in found]
    return Scan([sum(sizes[:n]) for n in range(len(sizes))], [record.queue_offset for record in found], sizes)


@given(responses)
def test_scan_agrees_with_the_readable_decoder(found: list[Record]) -> None:
    """For any list of records, the scan and the reference decoder find the same starts, offsets and sizes."""
    body = join_records(found)

    assert scan(body) == scan(memoryview(body)) == walk(body)


@given(responses)
def test_bodies_are_measured_as_the_readable_decoder_finds_them(found: list[Record]) -> None:
    """For any list of records, the size of all bodies is that which the reference decoder finds."""
    body = join_records(found)

    assert body_bytes(memoryview(body)) == sum(len(record.body) for record in decode_records(body))


def test_a_damaged_response_counts_as_a_whole() -> None:
    """If a record is cut off, the size of the whole response stands for that of its bodies, and nothing is raised."""
    body = recorded_bodies()[0][:-1]

    assert body_bytes(body) == len(body)


def test_recorded_answers_are_scanned() -> None:
    """For recorded responses of real brokers, the scan and the reference decoder agree."""
    for body in recorded_bodies():
        assert scan(body) == walk(body)


def test_an_empty_answer_has_no_records() -> None:
    """An empty response has no records, and the scan raises no error."""
    assert scan(b"") == Scan([], [], [])


@given(damaged(responses.map(join_records)))
def test_what_scan_refuses_the_readable_decoder_refuses(body: bytes) -> None:
    """The records found in a damaged response fill it exactly; otherwise the reference decoder raises an error too."""
    try:
        found = scan(body)
    except DecodeError as refused:
        with pytest.raises(DecodeError) as also_refused:
            decode_records(body)
        assert "damaged record at byte" in str(refused)
        assert "damaged record at byte" in str(also_refused.value)
    else:
        ends = [start + size for start, size in zip(found.starts, found.sizes, strict=True)]
        assert [*found.starts, len(body)] == [0, *ends]


@given(st.integers(1, 400), responses.filter(bool))
def test_a_cut_answer_is_an_error(cut: int, found: list[Record]) -> None:
    """A response that ends inside a record raises an error."""
    body = join_records(found)
    last = encode_record(found[-1])

    with pytest.raises(DecodeError, match=f"damaged record at byte {len(body)} of"):
        scan(body + last[: min(cut, len(last) - 1)])


def test_no_record_is_smaller_than_the_least() -> None:
    """A size field below the size of the smallest record raises an error; the scan could not advance by size 0."""
    body = recorded_bodies()[0]
    least = MIN_RECORD_BYTES - 1

    for size in (-1, 0, 1, least):
        with pytest.raises(DecodeError, match="damaged record at byte 0"):
            scan(size.to_bytes(4, "big", signed=True) + body[4:])


def test_very_many_records_of_one_size_are_scanned_without_large_leftovers() -> None:
    """Responses of tens of thousands of small records are scanned, and nothing is kept of them."""
    record = encode_record(decode_records(recorded_bodies()[0])[0])
    tracemalloc.start()
    try:
        for count in range(20_000, 20_012):
            assert len(record_starts(record * count)) == count
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 4 * 2**20
