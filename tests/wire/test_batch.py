"""Test `wire.batch`."""

from __future__ import annotations

import pytest
from hypothesis import given

from pyspark_rocketmq.errors import DecodeError, LocalProtocolError
from pyspark_rocketmq.wire.batch import BatchEntry, decode_batch, encode_batch
from pyspark_rocketmq.wire.properties import decode_properties

from .recorded import recorded_batches
from .strategies import batches

TWO_ENTRIES = bytes.fromhex(
    "00000021 00000000 00000000 00000000 00000001 61 000a 54414753 01 54616741 02"
    "00000018 00000000 00000000 00000000 00000002 6263 0000"
)


@given(batches)
def test_decode_undoes_encode(entries: list[BatchEntry]) -> None:
    """Any list of messages, even an empty one, is equal after encoding and decoding."""
    assert decode_batch(encode_batch(entries)) == entries


def test_two_entries_as_documented() -> None:
    """Two messages are encoded to the bytes that the protocol's description shows."""
    entries = [BatchEntry(b"a", b"TAGS\x01TagA\x02"), BatchEntry(b"bc")]

    assert encode_batch(entries) == TWO_ENTRIES
    assert decode_batch(TWO_ENTRIES) == entries


def test_recorded_batches_are_three_tagged_messages() -> None:
    """Batches that the Java client sent are decoded, and encoded again to the same bytes."""
    for body in recorded_batches():
        entries = decode_batch(body)

        assert [entry.body for entry in entries] == [b"batch-0", b"batch-1", b"batch-2"]
        assert [decode_properties(entry.properties_text)["TAGS"] for entry in entries] == ["T0", "T1", "T2"]
        assert encode_batch(entries) == body
    assert len(recorded_batches()) == 5


def test_magic_and_crc_are_not_read() -> None:
    """The decoder ignores magic and CRC of an entry, as brokers do."""
    marked = TWO_ENTRIES[:4] + b"\xda\xa3\x20\xa7\x12\x34\x56\x78" + TWO_ENTRIES[12:]

    assert decode_batch(marked) == decode_batch(TWO_ENTRIES)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (TWO_ENTRIES[:-1], "batch entry 1 at byte 33 of 56"),
        (TWO_ENTRIES[:40], "batch entry 1 at byte 33 of 40"),
        (TWO_ENTRIES + b"\x00", "batch entry 2 at byte 57 of 58"),
        (b"\x00\x00\x00\x22" + TWO_ENTRIES[4:], "its fields take 33 bytes, its total size says 34"),
        (TWO_ENTRIES[:16] + b"\x7f\xff\xff\xff" + TWO_ENTRIES[20:], "a field of 2147483647 bytes at 16"),
        (TWO_ENTRIES[:16] + b"\xff\xff\xff\xff" + TWO_ENTRIES[20:], "a field of -1 bytes at 16"),
        (TWO_ENTRIES[:21] + b"\x80\x00" + TWO_ENTRIES[23:], "a field of -32768 bytes at 21"),
    ],
)
def test_entries_that_do_not_add_up_are_an_error(damage: bytes, reason: str) -> None:
    """A damaged batch raises an error that states the entry and the byte."""
    with pytest.raises(DecodeError, match=reason):
        decode_batch(damage)


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (BatchEntry(b"", bytes(32768)), "properties of 32768 bytes, the limit is 32767"),
        (BatchEntry(b"", flag=2**31), "a flag that is no 32-bit integer"),
    ],
)
def test_what_does_not_fit_an_entry_is_refused(entry: BatchEntry, reason: str) -> None:
    """A message that does not fit an entry raises an error when it is encoded."""
    with pytest.raises(LocalProtocolError, match=reason):
        encode_batch([entry])
