"""Test that scanning many responses in lock step finds the same records as scanning them one by one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pyspark_rocketmq.decode.bulk import Records, Responses, Starts, maybe_find_starts
from pyspark_rocketmq.decode.decoder import ColumnDecoder
from pyspark_rocketmq.decode.spans import Spans
from pyspark_rocketmq.errors import DecodeError
from pyspark_rocketmq.model import Block, MessageQueue, QueueRange
from pyspark_rocketmq.wire.scan import MIN_RECORD_BYTES, record_starts

from .samples import PLAIN, QUEUE, block, irregular_records, plain_records, whole

_any_records = st.lists(st.one_of(plain_records, irregular_records), min_size=1, max_size=4)
ONE = Responses([QueueRange(QUEUE, 0, 2)], [2], [0], [0], [0], [QUEUE], [0], [2])
_answers = st.lists(_any_records.map(block), min_size=8, max_size=12)


def maybe_find(blocks: list[Block]) -> Starts | None:
    """Return the records that the scan in lock step finds in these responses, put one after another into one buffer."""
    ends = np.cumsum([len(response.data) for response in blocks])
    data = np.frombuffer(b"".join(response.data for response in blocks), np.uint8)
    return maybe_find_starts(data, Spans(np.append(0, ends[:-1]), ends))


@given(_answers)
def test_records_are_found_where_the_walk_finds_them(blocks: list[Block]) -> None:
    """The scan in lock step returns the same byte positions and counts as the scan one by one, or None."""
    found, base, places = maybe_find(blocks), 0, []
    for response in blocks:
        places += [base + start for start in record_starts(response.data)]
        base += len(response.data)
    if found:
        assert found.places.tolist() == places
        assert found.counts.tolist() == [len(record_starts(response.data)) for response in blocks]


@pytest.mark.parametrize("count", [8, 40])
def test_answers_of_unequal_counts_are_walked_in_lock_step(count: int) -> None:
    """The scan in lock step finds all records of responses with different numbers of records."""
    found = maybe_find([block([replace(PLAIN, body=b"x" * at)] * (at % 3 + 1)) for at in range(count)])
    assert found
    assert found.counts.tolist() == [at % 3 + 1 for at in range(count)]


def test_the_smallest_records_are_walked_in_lock_step() -> None:
    """The scan in lock step finds records without body, properties and topic."""
    empty = replace(PLAIN, body=b"", properties_text=b"")
    found = maybe_find([block([empty, empty], queue=MessageQueue("", "broker-a", 3))] * 8)
    assert found and found.counts.tolist() == [2] * 8


@pytest.mark.parametrize(("topic", "at", "are_known"), [("t" * 9, 0, True), ("t" * 200, 0, True), ("t", 0xAB, False)])
def test_magics_of_both_layouts_are_known(topic: str, at: int, are_known: bool) -> None:
    """The magic of a record with a long topic is known, too; a magic that differs by a byte is not."""
    response = block([PLAIN, PLAIN], queue=MessageQueue(topic, "broker-a", 3))
    data = bytearray(response.data)
    data[7] ^= at
    records = Records(np.frombuffer(data, np.uint8), np.array(record_starts(response.data)), np.array([2]), ONE)
    assert records.has_known_magics() is are_known


def test_few_or_unequal_answers_are_walked_one_by_one() -> None:
    """The scan in lock step returns None for fewer than eight responses, and if one is over four times the average."""
    assert maybe_find([block([PLAIN])] * 7) is None
    assert maybe_find([*[block([PLAIN])] * 24, block([PLAIN] * 4)]) is not None
    assert maybe_find([*[block([PLAIN])] * 24, block([PLAIN] * 6)]) is None


def _decoded_or_refused(blocks: list[Block]) -> list[int] | str:
    """Return the offsets of the decoded messages, or the text of the error."""
    try:
        return list(whole(ColumnDecoder(["queueOffset"]), blocks).batch.column("queueOffset").to_pylist())
    except DecodeError as error:
        return str(error)


@example([block([PLAIN]) for _ in range(8)], 0, 0, 7, 0xAB)  # the magic of the other layout
@given(_answers, st.integers(0, 11), st.integers(0, 10_000), st.integers(0, 7), st.integers(0, 255))
def test_damage_is_told_as_the_walk_tells_it(blocks: list[Block], which: int, record: int, at: int, byte: int) -> None:
    """If one byte of a size or magic changes, decoding many responses at once gives the error of the damaged one.

    If the byte causes no error, all offsets are returned.
    """
    which %= len(blocks)
    starts = record_starts(blocks[which].data)
    changed = bytearray(blocks[which].data)
    changed[starts[record % len(starts)] + at] = byte
    blocks[which] = blocks[which]._replace(data=memoryview(bytes(changed)))
    alone = [_decoded_or_refused([single]) for single in blocks]
    errors = [told for told in alone if isinstance(told, str)]
    assert _decoded_or_refused(blocks) == (errors[0] if errors else [offset for told in alone for offset in told])


@given(st.integers(1, MIN_RECORD_BYTES - 1), st.integers(0, 8))
def test_an_answer_cut_short_is_told(cut: int, which: int) -> None:
    """If a response is cut inside its last record, an error is raised, although another response follows it."""
    blocks = [block([PLAIN, PLAIN]) for _ in range(9)]
    blocks[which] = blocks[which]._replace(data=blocks[which].data[:-cut])
    with pytest.raises(DecodeError, match="damaged record at byte"):
        whole(ColumnDecoder(["queueOffset"]), blocks)
