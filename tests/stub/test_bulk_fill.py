"""Tests of `broker_stub.bulk_fill`."""

from __future__ import annotations

import pytest

from broker_stub.bulk_fill import fill
from broker_stub.clock import Clock
from broker_stub.commit_log import SEGMENT_BYTES
from broker_stub.filters import TagFilter
from broker_stub.store import InnerMessage, Store
from pyspark_rocketmq.model import Address
from pyspark_rocketmq.wire.properties import java_hash
from pyspark_rocketmq.wire.record import Record

UNIQUE_ID = "7F0000010001000000000000000000FF"


def filled(count: int, queues: int, size: int, before: int = 0) -> Store:
    """Return a store in whose topic T `fill` stored `count` messages, after `before` messages by `put`."""
    store = Store(Clock(frozen=True), Address("127.0.0.1", 10911))
    for _ in range(before):
        store.put(InnerMessage("T", 0, b"before"))
    message = InnerMessage("T", 0, b"." * size, {"UNIQ_KEY": UNIQUE_ID, "TAGS": "A", "a": "b"}, born_timestamp=7)
    fill(store, message, queues, count)
    return store


def all_messages(store: Store) -> list[Record]:
    """Return all messages of T, ordered by queue and offset."""
    return [record for topic, queue_id in sorted(store.queues) for record in store.messages(topic, queue_id)]


def test_filled_messages_are_whole() -> None:
    """Each filled message has its number in its body, an id of its own, its own address and a right CRC."""
    store = filled(10, 3, 20)

    records = all_messages(store)

    for record in records:
        record.check_crc()
        assert store.message_at(record.physical_offset) == record
    assert [int(record.body[:10]) for record in records] == [0, 3, 6, 9, 1, 4, 7, 2, 5, 8]
    assert {record.properties["UNIQ_KEY"][:-8] for record in records} == {UNIQUE_ID[:-8]}
    assert len({record.properties["UNIQ_KEY"] for record in records}) == 10


def test_filled_messages_spread_over_the_queues_in_turn() -> None:
    """A fill gives each queue the same number of messages, or one more, and their offsets are consecutive."""
    store = filled(10, 3, 20, before=2)

    assert [store.max_offset("T", queue_id) for queue_id in range(3)] == [6, 3, 3]
    assert [record.queue_offset for record in store.messages("T", 0)] == list(range(6))
    assert [record.queue_id for record in store.messages("T", 2)] == [2, 2, 2]


@pytest.mark.parametrize("size", [0, 1, 5, 10, 11])
def test_short_bodies_hold_the_first_digits(size: int) -> None:
    """If the requested size is less than ten bytes, the body still has exactly this size."""
    records = all_messages(filled(12, 1, size))

    for number, record in enumerate(records):
        record.check_crc()
        assert record.body == f"{number:010d}{'.' * 10}".encode()[:size] or size < 10
        assert len(record.body) == size


def test_a_fill_goes_on_in_the_next_segment() -> None:
    """If a fill is larger than a segment, it continues in the next one, and no record crosses a segment's end."""
    size, count = 1_000_000, 150
    store = filled(count, 2, size)

    places = [physical for physical, _ in store.log.records()]

    assert len(places) == count
    assert 2 * SEGMENT_BYTES in places
    assert [int(record.body[:10]) for record in store.messages("T", 1)] == list(range(1, count, 2))


def test_a_round_of_the_queues_may_go_on_in_the_next_segment() -> None:
    """If a segment ends in the middle of a round of the queues, the round continues with the next queue."""
    queues = 20
    store = filled(queues, queues, SEGMENT_BYTES // 16)

    assert [record.queue_id for record in all_messages(store)] == list(range(queues))


def test_filled_messages_can_be_filtered_and_found_by_time() -> None:
    """Filled messages have tag codes and store times in the queue's columns, as messages stored by `put` have."""
    store = filled(100, 2, 30)

    got = store.get_message("T", 0, 0, 32, TagFilter(frozenset({java_hash("A")})))

    assert got.next_begin_offset == 32
    assert store.store_time("T", 0, 49) == store.clock.now_ms()
    assert store.get_message("T", 0, 0, 32).next_begin_offset == 32
