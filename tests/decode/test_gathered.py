"""Test that responses are copied as they arrive, and that record batches keep to their size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from pyspark_rocketmq.decode.decoder import BatchSize, ColumnDecoder
from pyspark_rocketmq.errors import DecodeError
from pyspark_rocketmq.model import Block
from tests.decode.samples import PLAIN, block, whole

TEN = block([PLAIN] * 10)
BYTES = len(TEN.data)


def row_counts(blocks: list[Block], size: BatchSize) -> list[int]:
    """Return the number of rows of each record batch made of the blocks."""
    return [each.batch.num_rows for each in ColumnDecoder(["body"]).decode_all(blocks, size)]


def test_batches_are_as_large_as_wanted() -> None:
    """A record batch ends before the response that would make it larger than the requested size."""
    assert row_counts([TEN] * 10, BatchSize(messages=39)) == [30, 30, 30, 10]
    assert row_counts([TEN] * 10, BatchSize(messages=30)) == [30, 30, 30, 10]
    assert row_counts([TEN] * 10, BatchSize(byte_count=3 * BYTES)) == [30, 30, 30, 10]


def test_an_answer_of_more_messages_is_a_batch_by_itself() -> None:
    """A response with more messages than a batch may have makes one larger batch."""
    assert row_counts([TEN] * 3, BatchSize(messages=1)) == [10, 10, 10]


def test_a_record_of_half_the_size_stands_alone() -> None:
    """A record of half the bytes of a batch makes a batch of its own, whatever records come before and after it."""
    one, large = block([PLAIN]), block([replace(PLAIN, body=b"x" * 5000)])
    assert row_counts([one, one, large, one, large, large, one], BatchSize(byte_count=10_000)) == [2, 1, 1, 1, 1, 1]
    large_first = block([replace(PLAIN, body=b"x" * 5000), PLAIN, PLAIN])
    assert row_counts([one, large_first, one], BatchSize(byte_count=10_000)) == [1, 1, 3]


def test_nothing_makes_no_batch() -> None:
    """No responses, or only empty ones, make no record batch."""
    empty = TEN._replace(data=memoryview(b""), message_count=0)
    assert row_counts([], BatchSize()) == row_counts([empty, empty], BatchSize()) == []
    assert row_counts([empty, TEN, empty], BatchSize()) == [10]


def test_what_was_received_may_be_overwritten_once_the_next_is_asked_for() -> None:
    """If one receive buffer holds all responses in turn, the rows have the bytes of their own responses."""
    buffer = bytearray(BYTES)

    def received() -> Iterator[Block]:
        for number in range(20):
            buffer[:] = block([replace(PLAIN, body=b"%05d" % number)] * 10).data
            yield TEN._replace(data=memoryview(buffer))

    rows = [row for each in ColumnDecoder(["body"]).decode_all(received()) for row in each.batch.column(0).to_pylist()]
    assert rows == [b"%05d" % number for number in range(20) for _ in range(10)]


def test_a_batch_outlives_the_next() -> None:
    """A record batch does not change when the decoder makes the next one."""
    decoder = ColumnDecoder(["body", "keys", "properties", "queueOffset"])
    first = whole(decoder, [TEN]).batch
    before = first.to_pylist()
    whole(decoder, [block([replace(PLAIN, body=b"something else", queue_offset=number) for number in range(10)])])
    assert first.to_pylist() == before


def test_a_damaged_answer_does_not_stay() -> None:
    """After an error about a damaged response, the decoder decodes the next responses, and none of them twice."""
    decoder = ColumnDecoder(["body"])
    with pytest.raises(DecodeError):
        whole(decoder, [TEN, TEN._replace(data=TEN.data[:-1])])
    assert whole(decoder, [TEN]).batch.num_rows == 10


def test_a_damaged_answer_is_named_however_large() -> None:
    """The error states queue and offset of a damaged response, also if the response is split into its records."""
    damaged = TEN._replace(data=TEN.data[:-1])
    for byte_count in (10 * BYTES, BYTES):
        with pytest.raises(DecodeError, match="topic orders, broker broker-a, queue 3, offset 0"):
            row_counts([damaged], BatchSize(byte_count=byte_count))


def test_what_an_abandoned_reading_gathered_is_forgotten() -> None:
    """If decoding stops in the middle of a batch, the next decoding does not return the messages gathered before."""

    def broken() -> Iterator[Block]:
        yield TEN
        raise DecodeError("stopped")

    decoder = ColumnDecoder(["body"])
    with pytest.raises(DecodeError, match="stopped"):
        list(decoder.decode_all(broken()))
    assert [each.batch.num_rows for each in decoder.decode_all([TEN])] == [10]
    with pytest.raises(DecodeError, match="stopped"):
        list(decoder.decode_all(broken()))
    assert whole(decoder, [TEN]).batch.num_rows == 10
