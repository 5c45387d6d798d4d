"""Test `wire.message_id`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rocketmq.errors import DecodeError
from pyspark_rocketmq.model import Address
from pyspark_rocketmq.wire.message_id import (
    OffsetMessageId,
    UniqueId,
    UniqueIdMaker,
    decode_offset_message_id,
    decode_unique_id,
    encode_offset_message_id,
)
from pyspark_rocketmq.wire.record import decode_records

from .recorded import recorded_responses
from .strategies import hosts, int64

V6_ID = "00000000000000000000000000000001000059900000000000000109"


def milliseconds(year: int, month: int, day: int, hour: int = 0, minute: int = 0, second: int = 0) -> int:
    return int(datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp() * 1000)


@given(hosts(ipv6=False) | hosts(ipv6=True), int64)
def test_offset_ids_come_back(host: Address, offset: int) -> None:
    """An offset message id is decoded to the host (IPv4 or IPv6) and the offset from which it was made."""
    text = encode_offset_message_id(host, offset)

    assert decode_offset_message_id(text) == OffsetMessageId(host, offset)
    assert len(text) == (56 if ":" in host.host else 32)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("0A00000100002A9F00000000000003E8", OffsetMessageId(Address("10.0.0.1", 10911), 1000)),
        (V6_ID, OffsetMessageId(Address("::1", 22928), 265)),
    ],
)
def test_offset_ids_as_brokers_write_them(text: str, found: OffsetMessageId) -> None:
    """The documented id, and the id of a broker with an IPv6 address, are decoded, and encoded to the same text."""
    assert decode_offset_message_id(text) == found
    assert decode_offset_message_id(text.lower()) == found
    assert encode_offset_message_id(*found) == text


def test_stored_messages_have_javas_offset_id() -> None:
    """The offset message id of a record equals the one that the Java client shows."""
    for response in recorded_responses():
        expected = [message["offsetMsgId"] for message in response.messages]
        assert [record.offset_message_id for record in decode_records(response.body)] == expected


@pytest.mark.parametrize(
    "text", ["", "0A", "0A00000100002A9F00000000000003E", "Z" * 32, " " + "0A" * 16, "0A " * 16, "é" * 32]
)
def test_other_texts_are_no_id(text: str) -> None:
    """A text that is no message id makes both decoders raise an error."""
    with pytest.raises(DecodeError, match="is no message id; an id has 32 or 56"):
        decode_offset_message_id(text)
    with pytest.raises(DecodeError, match="is no message id"):
        decode_unique_id(text, now_ms=0)


def test_a_unique_id_tells_who_made_it_and_when() -> None:
    """A unique id is decoded to the host, process, instance, time and counter from which it was made."""
    now_ms = milliseconds(2024, 5, 17, 12)
    maker = UniqueIdMaker("10.0.0.9", 0x12345, 0xABCDEF01, lambda: now_ms, UTC)

    first, second = maker.make(), maker.make()

    assert first == "0A0000092345ABCDEF0154F8EE000000"
    assert decode_unique_id(first, now_ms, UTC) == UniqueId("10.0.0.9", 0x2345, 0xABCDEF01, now_ms, 0)
    assert decode_unique_id(second, now_ms, UTC).counter == 1


def test_a_unique_id_of_an_ipv6_host_is_longer() -> None:
    """The unique id of a producer with an IPv6 address has 56 digits, and is decoded to that address."""
    text = UniqueIdMaker("fe80::1", 1, 2, lambda: milliseconds(2024, 5, 1), UTC).make()

    assert len(text) == 56
    assert decode_unique_id(text, milliseconds(2024, 5, 1), UTC).host == "fe80::1"


def test_the_month_is_the_latest_possible() -> None:
    """If an id's time would be in the future in this month, it belongs to the month before.

    Ids do not state a month.
    """
    made_ms = milliseconds(2023, 12, 31, 23, 59, 59)
    text = UniqueIdMaker("10.0.0.9", 1, 2, lambda: made_ms, UTC).make()

    assert decode_unique_id(text, milliseconds(2024, 1, 1), UTC).born_ms == made_ms
    assert decode_unique_id(text, made_ms, UTC).born_ms == made_ms


def test_months_begin_in_the_given_zone() -> None:
    """The time in an id is counted from the first of the month in the given time zone, as in Java."""
    east, now_ms = timezone(timedelta(hours=8)), milliseconds(2024, 4, 30, 20)
    text = UniqueIdMaker("10.0.0.9", 1, 2, lambda: now_ms, east).make()

    assert int(text[20:28], 16) == 4 * 3_600_000
    assert decode_unique_id(text, now_ms, east).born_ms == now_ms


def test_ids_differ_within_one_millisecond() -> None:
    """65,536 ids made in one millisecond differ, and the next one repeats the first."""
    maker = UniqueIdMaker("10.0.0.9", 1, 2, lambda: 0, UTC)

    made = list(islice(iter(maker.make, None), 65_537))

    assert len(set(made)) == 65_536
    assert made[0] == made[-1]


def test_recorded_unique_ids_are_read() -> None:
    """Recorded ids, made with clocks set to UTC, are decoded to the time at which their messages were stored."""
    records = [record for response in recorded_responses() for record in decode_records(response.body)]
    by_broker = [record for record in records if not record.is_inner_batch]

    for record in by_broker:
        made = decode_unique_id(record.properties["UNIQ_KEY"], record.store_timestamp, UTC)
        assert 0 <= record.store_timestamp - made.born_ms < 5_000
    assert len(by_broker) == 10


@given(st.binary(min_size=16, max_size=16) | st.binary(min_size=28, max_size=28), st.integers(0, 2**42))
def test_any_id_of_the_right_length_is_read(data: bytes, now_ms: int) -> None:
    """Any id of a legal length is decoded, and its time is at most 2**32 ms in the future."""
    assert decode_unique_id(data.hex(), now_ms, UTC).born_ms <= now_ms + 2**32
