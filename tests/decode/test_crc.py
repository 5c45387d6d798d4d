"""Test that bodies are compared with their stored CRCs if the user wants it, and that `mode` decides about the rest."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from pyspark_rocketmq.decode.columns import Content, Mode
from pyspark_rocketmq.decode.decoder import ColumnDecoder
from pyspark_rocketmq.errors import DecodeError
from pyspark_rocketmq.model import Block
from pyspark_rocketmq.wire.compression import Compression
from pyspark_rocketmq.wire.record import Record

from .differential import EVERY_COLUMN
from .samples import PLAIN, block, inner_batch, packed, whole
from .test_columns import readable, recorded_answers

COLUMNS = ["queueOffset", "body"]
RECORDS = {
    "plain": PLAIN,
    "compressed": packed(replace(PLAIN, body=b"hello" * 40), Compression.ZSTD),
    "inner batch": inner_batch(PLAIN, [b"hello", b"world"]),
}


def checking(mode: Mode, columns: list[str] = COLUMNS) -> ColumnDecoder:
    """Return a decoder that checks CRCs."""
    return ColumnDecoder(columns, Content(mode=mode, check_crc=True))


def damaged(record: Record, number: int = 1) -> Block:
    """Return a response of three messages; the stored CRC of the message at this offset is wrong."""
    response = block([PLAIN if at != number else record for at in range(3)])
    starts = [0]
    for _ in range(number):
        starts.append(starts[-1] + int.from_bytes(response.data[starts[-1] : starts[-1] + 4], "big"))
    crc_at = starts[-1] + 8
    data = bytearray(response.data)
    data[crc_at + 3] ^= 1
    return response._replace(data=memoryview(bytes(data)))


@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS)
def test_a_wrong_crc_fails_and_names_the_message(record: Record) -> None:
    """The error about a wrong CRC has topic, broker, queue, offset and commit-log offset of the message, and advice."""
    with pytest.raises(DecodeError) as caught:
        whole(checking(Mode.FAILFAST), [damaged(record)])
    said = str(caught.value)
    assert re.match(r"\[DECODE\] at commit-log offset 1000 the body's CRC is 0x\w{8}, stored was 0x\w{8} ", said)
    assert "(topic orders, broker broker-a, queue 3, offset 1)" in said
    assert "at a replica" in said and "set mode to PERMISSIVE" in said


@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS)
def test_a_wrong_crc_follows_the_mode(record: Record) -> None:
    """A message with a wrong CRC has a null body (PERMISSIVE), or is left out and counted (DROPMALFORMED)."""
    kept = whole(checking(Mode.PERMISSIVE), [damaged(record)]).batch
    assert kept.to_pydict() == {"queueOffset": [0, 1, 2], "body": [b"hello", None, b"hello"]}
    left = whole(checking(Mode.DROPMALFORMED), [damaged(record)])
    assert (left.batch.column("queueOffset").to_pylist(), left.dropped) == ([0, 2], 1)


@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS)
def test_crcs_are_not_checked_unless_the_user_wants_it(record: Record) -> None:
    """Without the option, a message with a wrong CRC is read like others."""
    wrong, right = (
        whole(ColumnDecoder(COLUMNS), [each]).batch for each in (damaged(record), block([PLAIN, record, PLAIN]))
    )
    assert wrong == right


def test_crcs_of_bodies_that_no_column_shows_are_not_checked() -> None:
    """If no requested column shows the body, a wrong CRC causes no error."""
    assert whole(checking(Mode.FAILFAST, ["queueOffset"]), [damaged(PLAIN)]).batch.num_rows == 3


def test_right_crcs_need_no_decoding_one_by_one() -> None:
    """Plain records with right CRCs are still decoded in bulk."""
    assert whole(checking(Mode.FAILFAST), [block([PLAIN] * 5)]).irregular_count == 0


def test_recorded_bodies_have_the_stored_crc() -> None:
    """Real brokers store the CRC of the body as it is stored: recorded responses pass, compressed bodies among them."""
    blocks, content = recorded_answers(), Content(check_crc=True)
    decoded = whole(ColumnDecoder(EVERY_COLUMN, content), blocks)
    assert decoded.batch.num_rows > 100
    assert [column.to_pylist() for column in decoded.batch.columns] == readable(blocks, content)
