"""Test that records get the positions that their responses cover, and that impossible responses are pulled again."""

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

from .samples import PLAIN, QUEUE, block, inner_batch, irregular_records, packed, plain_records

OFFSETS = ["queueOffset", "storedQueueOffset"]
Pairs = list[tuple[int, int]]


class Again:
    """A recheck that yields a prepared block and records its calls in `asked`."""

    def __init__(self, block: Block, shifted: set[MessageQueue] = frozenset()) -> None:  # type: ignore[assignment]
        self.asked: list[tuple[str, int]] = []
        self._block = block
        self._shifted = shifted

    def read_again(self, block: Block) -> Iterator[Block]:
        """Record the call and yield the prepared block."""
        self.asked.append(("short", block.first))
        yield self._block

    def place(self, block: Block) -> Iterator[Block]:
        """Record the call and yield the prepared block."""
        self.asked.append(("filtered", block.first))
        yield self._block

    def shifted_at(self, offsets: Mapping[MessageQueue, int]) -> set[MessageQueue]:
        """Record the call and return the prepared queues."""
        self.asked += [("shifted", offset) for offset in offsets.values()]
        return self._shifted


def response(records: list[Record], first: int, *, filtered: bool = False, end: int | None = None) -> Block:
    """Return the response to a pull from offset `first`.

    It covers offsets up to `end`, by default one for each record.
    """
    end = first + len(records) if end is None else end
    data = memoryview(b"".join(map(encode_record, records)))
    return Block(data, QueueRange(QUEUE, first, end), len(records), first, 0 if filtered else end - first, end)


def at(*offsets: int) -> list[Record]:
    """Return plain records with these written offsets and ascending commit-log offsets."""
    return [replace(PLAIN, queue_offset=offset, physical_offset=100 * i) for i, offset in enumerate(offsets)]


def pairs(blocks: list[Block], again: Again | None = None, size: BatchSize | None = None) -> Pairs:
    """Return (position, written offset) of each row that the decoder makes of the blocks."""
    decoder = ColumnDecoder(OFFSETS, recheck=again)
    return [tuple(row.values()) for each in decoder.decode_all(blocks, size) for row in each.batch.to_pylist()]


@given(
    st.lists(st.lists(st.one_of(plain_records, irregular_records), min_size=1, max_size=4), min_size=1, max_size=9),
    st.integers(0, 2),
    st.sampled_from([BatchSize(), BatchSize(byte_count=500), BatchSize(messages=3)]),
)
def test_rows_stand_where_they_were_asked_from(responses: list[list[Record]], ahead: int, size: BatchSize) -> None:
    """The positions of plain and irregular records count up from the offset asked for, whatever offsets are written in
    them.
    """
    blocks, begin, expected = [], 1000, Pairs()
    for records in responses:
        records = [record for record in records if not record.is_inner_batch] or [PLAIN]
        written = [
            replace(record, topic="orders", queue_id=3, queue_offset=begin + i + ahead, physical_offset=100 * i)
            for i, record in enumerate(records)
        ]
        expected += [(record.queue_offset - ahead, record.queue_offset) for record in written]
        blocks.append(response(written, begin))
        begin += len(records)
    decoder = ColumnDecoder(OFFSETS)
    assert [
        tuple(row.values()) for each in decoder.decode_all(blocks, size) for row in each.batch.to_pylist()
    ] == expected


def test_only_what_is_wanted_of_a_shifted_answer_becomes_rows(caplog: pytest.LogCaptureFixture) -> None:
    """In a shifted queue, positions and not written offsets decide which records are wanted; one warning is logged."""
    parts = [
        response(at(11, 12, 13, 14), 10)._replace(wanted=QueueRange(QUEUE, *part)) for part in ((11, 13), (13, 14))
    ]
    assert pairs(parts) == [(11, 12), (12, 13), (13, 14)]
    assert [record.levelno for record in caplog.records if "storedQueueOffset" in record.message] == [logging.WARNING]


def test_a_shift_that_a_second_pull_shows_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """If a response that was pulled again shows that its queue is shifted, a later response tells nothing new."""
    short, again = response(at(3), 3, end=6), Again(response(at(4, 5, 6), 3))
    later = response(at(7, 8), 6)
    assert pairs([short, later], again, BatchSize(messages=3)) == [(3, 4), (4, 5), (5, 6), (6, 7), (7, 8)]
    assert sum("storedQueueOffset" in record.message for record in caplog.records) == 1


def test_a_broker_started_anew_goes_on_with_the_positions() -> None:
    """Written offsets may fall back to the positions within a response, as after a broker's restart.

    Other disorder is refused.
    """
    assert pairs([response(at(11, 12, 12, 13), 10)]) == [(10, 11), (11, 12), (12, 12), (13, 13)]
    for wrong in (at(11, 12, 12, 12), at(10, 11, 11, 13), at(13, 12, 11, 10), at(10, 12, 11, 13)):
        with pytest.raises(
            AnswerMismatch, match=r"pull from 10 holds messages out of order or twice.*broker-a, queue 3"
        ):
            pairs([response(wrong, 10)])


@pytest.mark.parametrize("index", [0, 1])
def test_a_later_record_in_the_place_of_another_is_refused(index: int) -> None:
    """If a later record takes the place of another one, its commit-log offset shows that the queue is not shifted."""
    records = at(10, 11, 12, 13)
    records[index] = records[3]
    with pytest.raises(AnswerMismatch, match="out of order or twice"):
        pairs([response(records, 10)])


@pytest.mark.parametrize("size", [BatchSize(), BatchSize(byte_count=500)])
def test_a_short_answer_is_read_again_in_its_place(size: BatchSize) -> None:
    """An incomplete or empty response is replaced, in order, by a second pull.

    If that is incomplete too, an error is raised.
    """
    whole, short = response(at(3, 4, 5), 3), response(at(3), 3, end=6)
    for wrong in (short, short._replace(data=memoryview(b""), message_count=0)):
        again = Again(whole)
        assert pairs([response(at(0, 1, 2), 0), wrong, response(at(6, 7), 6)], again, size) == [
            (n, n) for n in range(8)
        ]
        assert again.asked == [("short", 3)]
        with pytest.raises(AnswerMismatch, match="does not hold the messages of the 3 offsets"):
            pairs([wrong], Again(short), size)


def test_inner_batches_are_counted_by_their_messages() -> None:
    """An inner batch counts as many messages as it has from the pull's offset on, with and without INNER_NUM."""
    three = replace(inner_batch(PLAIN, [b"a", b"b", b"c"]), queue_offset=4)
    stated = packed(replace(three, queue_offset=7, properties_text=b"INNER_NUM\x013\x02"), Compression.ZLIB)
    for second in (replace(three, queue_offset=7), stated):
        blocks = [response([three, second, *at(10)], 5, end=11)]
        for size in (BatchSize(), BatchSize(byte_count=200)):
            assert [stands for stands, _ in pairs(blocks, size=size)] == list(range(5, 11))
    again = Again(response(at(5, 6), 5))
    assert pairs([response([replace(three, queue_offset=5)], 5, end=9)], again) == [(5, 5), (6, 6)]
    assert again.asked == [("short", 5)]


def test_an_inner_batch_that_lacks_messages_cannot_be_read() -> None:
    """An inner batch that holds fewer messages than its INNER_NUM states raises an error."""
    lacking = replace(inner_batch(PLAIN, [b"a"]), queue_offset=0, properties_text=b"INNER_NUM\x012\x02")
    with pytest.raises(Exception, match=r"DECODE.*inner batch of 2 messages holds 1"):
        pairs([response([lacking], 0, end=2)])


def test_filtered_answers_that_cannot_be_are_placed() -> None:
    """If a filtered response has impossible offsets, the recheck finds the positions of its records and of later
    responses.
    """
    placed = response(at(8), 7)
    for wrong in (at(3, 10), at(2, 5), at(5, 5), at(6, 4), at(2**63 - 1, -(2**63))):
        again = Again(placed)
        following = response(at(12), 10, filtered=True, end=20)
        assert pairs([response(wrong, 3, filtered=True, end=10), following], again) == [(7, 8), (7, 8)]
        assert again.asked == [("filtered", 3), ("filtered", 10)]


def test_a_cut_among_filtered_messages_is_looked_at() -> None:
    """If written offsets lie beyond the wanted end, the last wanted offset is checked, to see whether the queue is
    shifted.
    """
    cut = response(at(3, 7), 0, filtered=True, end=10)._replace(wanted=QueueRange(QUEUE, 0, 6))
    honest = Again(response(at(8), 7))
    assert pairs([cut], honest) == [(3, 3)] and honest.asked == [("shifted", 5)]
    shifted = Again(response(at(7), 5), {QUEUE})
    assert pairs([cut], shifted) == [(5, 7)] and shifted.asked == [("shifted", 5), ("filtered", 0)]
    nothing_behind = Again(response(at(8), 7))
    assert pairs([cut._replace(data=response(at(3), 0).data)], nothing_behind) == [(3, 3)] and not nothing_behind.asked


def test_light_topics_hold_messages_of_others() -> None:
    """Records of a light topic are accepted although they hold another topic, another queue and unordered offsets."""
    light = MessageQueue("%LMQ%orders-1", "broker-a", 0)
    block_of_light = response(at(50, 7, 90), 0)._replace(wanted=QueueRange(light, 0, 3))
    assert pairs([block_of_light]) == [(0, 50), (1, 7), (2, 90)]


@pytest.mark.parametrize("size", [BatchSize(), BatchSize(byte_count=500)])
def test_filtered_messages_of_light_topics_are_placed(size: BatchSize, caplog: pytest.LogCaptureFixture) -> None:
    """The recheck finds the positions of filtered messages of a light topic.

    Its written offsets cause no warning of a shift.
    """
    light = MessageQueue("%LMQ%orders-1", "broker-a", 0)
    filtered = response(at(4, 6), 0, filtered=True, end=20)._replace(wanted=QueueRange(light, 0, 20))
    again = Again(response(at(4, 6), 2)._replace(wanted=QueueRange(light, 0, 20)))
    assert pairs([filtered], again, size) == [(2, 4), (3, 6)]
    assert again.asked == [("filtered", 0)] and not caplog.records


@pytest.mark.parametrize("index", [0, 1, 2])
def test_a_message_of_another_queue_is_refused(index: int) -> None:
    """If one record of a response names the same topic, but another queue, the response is refused."""
    records = at(5, 6, 7)
    records[index] = replace(records[index], queue_id=4)
    with pytest.raises(AnswerMismatch, match="holds a message of orders, queue 4"):
        pairs([response(records, 5)])


@pytest.mark.parametrize("topics", [("orders", "refunds"), ("refunds", "orders")])
def test_messages_of_one_topic_in_responses_of_two_are_refused(topics: tuple[str, str]) -> None:
    """If all records of a batch name one topic, the response of another topic among them is refused."""
    mine, other = (MessageQueue(topic, "broker-a", 3) for topic in topics)
    stranger = block([PLAIN], queue=mine)._replace(wanted=QueueRange(other, 0, 9))
    with pytest.raises(AnswerMismatch, match=f"holds a message of {mine.topic}, queue 3"):
        pairs([block([PLAIN], queue=mine), stranger])


def test_only_impossible_filtered_responses_are_placed() -> None:
    """Of two filtered responses, only the one whose offsets cannot be is placed by a second pull."""
    other = MessageQueue("orders", "broker-a", 5)
    records = [replace(each, queue_id=5) for each in at(1, 3)]
    good = response(records, 0, filtered=True, end=9)._replace(wanted=QueueRange(other, 0, 9))
    again = Again(response(at(50, 52), 10))
    assert pairs([good, response(at(50, 52), 10, filtered=True, end=20)], again) == [(1, 1), (3, 3), (10, 50), (11, 52)]
    assert again.asked == [("filtered", 10)]


def test_each_topic_and_queue_of_a_batch_is_compared_with_its_own() -> None:
    """If one batch has responses of several topics, each record is compared with the queue of its own response."""
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
