"""Records stand where their answers claim, and answers that cannot be believed are read again or refused."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rocketmq.decode.decoder import BatchSize, ColumnDecoder
from pyspark_rocketmq.errors import AnswerMismatch
from pyspark_rocketmq.model import Block, MessageQueue, QueueRange
from pyspark_rocketmq.wire.compression import Compression
from pyspark_rocketmq.wire.record import Record, encode_record

from .samples import QUEUE, block, inner_batch, odd_records, packed, plain_records
from .test_columns import PLAIN

OFFSETS = ["queueOffset", "storedQueueOffset"]
Pairs = list[tuple[int, int]]


class Again:
    """Gives what is read again, and keeps what it was asked for."""

    def __init__(self, block: Block, shifted: set[MessageQueue] = frozenset()) -> None:  # type: ignore[assignment]
        self.asked: list[tuple[str, int]] = []
        self._block = block
        self._shifted = shifted

    def read_again(self, block: Block) -> Iterator[Block]:
        """The prepared block."""
        self.asked.append(("short", block.first))
        yield self._block

    def place(self, block: Block) -> Iterator[Block]:
        """The prepared block."""
        self.asked.append(("filtered", block.first))
        yield self._block

    def shifted_at(self, offsets: Mapping[MessageQueue, int]) -> set[MessageQueue]:
        """Those that were said to be."""
        self.asked += [("shifted", offset) for offset in offsets.values()]
        return self._shifted


def answer(records: list[Record], first: int, *, filtered: bool = False, end: int | None = None) -> Block:
    """An answer to a pull from an offset, up to another."""
    end = first + len(records) if end is None else end
    data = memoryview(b"".join(map(encode_record, records)))
    return Block(data, QueueRange(QUEUE, first, end), len(records), first, 0 if filtered else end - first, end)


def at(*offsets: int) -> list[Record]:
    """Plain records in which these offsets are written, one behind the other in the commit log."""
    return [replace(PLAIN, queue_offset=offset, physical_offset=100 * i) for i, offset in enumerate(offsets)]


def pairs(blocks: list[Block], again: Again | None = None, size: BatchSize | None = None) -> Pairs:
    """Position and written offset of each row."""
    decoder = ColumnDecoder(OFFSETS, recheck=again)
    return [tuple(row.values()) for each in decoder.decode_all(blocks, size) for row in each.batch.to_pylist()]


@given(
    st.lists(st.lists(st.one_of(plain_records, odd_records), min_size=1, max_size=4), min_size=1, max_size=9),
    st.integers(0, 2),
    st.sampled_from([BatchSize(), BatchSize(byte_count=500), BatchSize(messages=3)]),
)
def test_rows_stand_where_they_were_asked_from(answers: list[list[Record]], ahead: int, size: BatchSize) -> None:
    """Plain or odd, in answers of any size, whatever the records say; only inner batches stand where they say."""
    blocks, begin, expected = [], 1000, Pairs()
    for records in answers:
        records = [record for record in records if not record.is_inner_batch] or [PLAIN]
        written = [
            replace(record, topic="orders", queue_id=3, queue_offset=begin + i + ahead, physical_offset=100 * i)
            for i, record in enumerate(records)
        ]
        expected += [(record.queue_offset - ahead, record.queue_offset) for record in written]
        blocks.append(answer(written, begin))
        begin += len(records)
    decoder = ColumnDecoder(OFFSETS)
    assert [
        tuple(row.values()) for each in decoder.decode_all(blocks, size) for row in each.batch.to_pylist()
    ] == expected


def test_only_what_is_wanted_of_a_shifted_answer_becomes_rows(caplog: pytest.LogCaptureFixture) -> None:
    """Positions decide, and the shift is told once for a queue."""
    parts = [answer(at(11, 12, 13, 14), 10)._replace(wanted=QueueRange(QUEUE, *part)) for part in ((11, 13), (13, 14))]
    assert pairs(parts) == [(11, 12), (12, 13), (13, 14)]
    assert [record.levelno for record in caplog.records if "storedQueueOffset" in record.message] == [logging.WARNING]


def test_a_broker_started_anew_goes_on_with_the_positions() -> None:
    """Offsets in messages then go back, even to one that was there; nothing else may."""
    assert pairs([answer(at(11, 12, 12, 13), 10)]) == [(10, 11), (11, 12), (12, 12), (13, 13)]
    for wrong in (at(11, 12, 12, 12), at(10, 11, 11, 13), at(13, 12, 11, 10), at(10, 12, 11, 13)):
        with pytest.raises(
            AnswerMismatch, match=r"pull from 10 holds messages out of order or twice.*broker-a, queue 3"
        ):
            pairs([answer(wrong, 10)])


@pytest.mark.parametrize("index", [0, 1])
def test_a_later_record_in_the_place_of_another_is_refused(index: int) -> None:
    """It could be one of a shifted queue, but for its place in the commit log."""
    records = at(10, 11, 12, 13)
    records[index] = records[3]
    with pytest.raises(AnswerMismatch, match="out of order or twice"):
        pairs([answer(records, 10)])


@pytest.mark.parametrize("size", [BatchSize(), BatchSize(byte_count=500)])
def test_a_short_answer_is_read_again_in_its_place(size: BatchSize) -> None:
    """Rows stay in order; an empty answer is short, too, and nothing is read a third time."""
    whole, short = answer(at(3, 4, 5), 3), answer(at(3), 3, end=6)
    for wrong in (short, short._replace(data=memoryview(b""), message_count=0)):
        again = Again(whole)
        assert pairs([answer(at(0, 1, 2), 0), wrong, answer(at(6, 7), 6)], again, size) == [(n, n) for n in range(8)]
        assert again.asked == [("short", 3)]
        with pytest.raises(AnswerMismatch, match="does not hold the messages of the 3 offsets"):
            pairs([wrong], Again(short), size)


def test_inner_batches_are_counted_by_their_messages() -> None:
    """From the offset that was asked for on, by their property where they have it."""
    three = replace(inner_batch(PLAIN, [b"a", b"b", b"c"]), queue_offset=4)
    stated = packed(replace(three, queue_offset=7, properties_text=b"INNER_NUM\x013\x02"), Compression.ZLIB)
    for second in (replace(three, queue_offset=7), stated):
        blocks = [answer([three, second, *at(10)], 5, end=11)]
        for size in (BatchSize(), BatchSize(byte_count=200)):
            assert [stands for stands, _ in pairs(blocks, size=size)] == list(range(5, 11))
    again = Again(answer(at(5, 6), 5))
    assert pairs([answer([replace(three, queue_offset=5)], 5, end=9)], again) == [(5, 5), (6, 6)]
    assert again.asked == [("short", 5)]


def test_an_inner_batch_that_lacks_messages_cannot_be_read() -> None:
    """It says how many it holds."""
    lacking = replace(inner_batch(PLAIN, [b"a"]), queue_offset=0, properties_text=b"INNER_NUM\x012\x02")
    with pytest.raises(Exception, match=r"DECODE.*inner batch of 2 messages holds 1"):
        pairs([answer([lacking], 0, end=2)])


def test_filtered_answers_that_cannot_be_are_placed() -> None:
    """Offsets beyond the answer, before it, or not ascending; then all that follows in the queue is placed."""
    placed = answer(at(8), 7)
    for wrong in (at(3, 10), at(2, 5), at(5, 5), at(6, 4), at(2**63 - 1, -(2**63))):
        again = Again(placed)
        following = answer(at(12), 10, filtered=True, end=20)
        assert pairs([answer(wrong, 3, filtered=True, end=10), following], again) == [(7, 8), (7, 8)]
        assert again.asked == [("filtered", 3), ("filtered", 10)]


def test_a_cut_among_filtered_messages_is_looked_at() -> None:
    """In a shifted queue a message before the cut may say that it lies behind it."""
    cut = answer(at(3, 7), 0, filtered=True, end=10)._replace(wanted=QueueRange(QUEUE, 0, 6))
    honest = Again(answer(at(8), 7))
    assert pairs([cut], honest) == [(3, 3)] and honest.asked == [("shifted", 5)]
    shifted = Again(answer(at(7), 5), {QUEUE})
    assert pairs([cut], shifted) == [(5, 7)] and shifted.asked == [("shifted", 5), ("filtered", 0)]
    nothing_behind = Again(answer(at(8), 7))
    assert pairs([cut._replace(data=answer(at(3), 0).data)], nothing_behind) == [(3, 3)] and not nothing_behind.asked


def test_light_topics_hold_messages_of_others() -> None:
    """Their records bear another topic, queue and offset, of which the order says nothing."""
    light = MessageQueue("%LMQ%orders-1", "broker-a", 0)
    block_of_light = answer(at(50, 7, 90), 0)._replace(wanted=QueueRange(light, 0, 3))
    assert pairs([block_of_light]) == [(0, 50), (1, 7), (2, 90)]


@pytest.mark.parametrize("size", [BatchSize(), BatchSize(byte_count=500)])
def test_filtered_messages_of_light_topics_are_placed(size: BatchSize, caplog: pytest.LogCaptureFixture) -> None:
    """The offsets of another queue may look as if they were of this one; that is no shift."""
    light = MessageQueue("%LMQ%orders-1", "broker-a", 0)
    filtered = answer(at(4, 6), 0, filtered=True, end=20)._replace(wanted=QueueRange(light, 0, 20))
    again = Again(answer(at(4, 6), 2)._replace(wanted=QueueRange(light, 0, 20)))
    assert pairs([filtered], again, size) == [(2, 4), (3, 6)]
    assert again.asked == [("filtered", 0)] and not caplog.records


def test_each_topic_and_queue_of_a_batch_is_compared_with_its_own() -> None:
    """Names of different lengths and beginnings, some too short to fill a word."""
    queues = [
        MessageQueue(topic, "broker-a", at % 3) for at, topic in enumerate(["t", "orders", "orders-eu", "orders-us"])
    ]
    blocks = [block([PLAIN] * 3, queue=queue) for queue in queues * 3]
    assert len(pairs(blocks)) == 36
    for mine, other in pairwise([*queues, queues[0]]):
        stranger = block([PLAIN] * 3, queue=mine)._replace(wanted=QueueRange(other, 0, 9))
        with pytest.raises(
            AnswerMismatch, match=f"holds a message of {mine.topic}, queue {mine.queue_id}.*topic {other.topic}"
        ):
            pairs([*blocks, stranger])
