"""Tests of `broker_stub.store` and of the scan of its queues."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker_stub.clock import Clock
from broker_stub.commit_log import SEGMENT_BYTES
from broker_stub.consume_queue import Boundary
from broker_stub.filters import TagFilter
from broker_stub.queue_scan import GetResult, GetStatus, MessageFilter, PullLimits
from broker_stub.store import InnerMessage, Replica, Store
from pyspark_rocketmq.model import Address
from pyspark_rocketmq.wire.properties import java_hash
from pyspark_rocketmq.wire.record import Record, decode_records

HOST = Address("127.0.0.1", 10911)
VECTORS = json.loads((Path(__file__).parents[1] / "golden" / "get_message.json").read_text(encoding="utf-8"))["cases"]
WANTED = TagFilter(frozenset({java_hash("A")}))


def make_store(limits: PullLimits = PullLimits(), count: int = 0, **properties: str) -> Store:  # noqa: B008
    """Return a store with `count` messages in queue 0 of T."""
    store = Store(Clock(frozen=True), HOST, limits)
    for number in range(count):
        store.put(InnerMessage("T", 0, b"%d" % number, dict(properties)))
    return store


def found(got: GetResult) -> list[Record]:
    """Return the messages in the result of a read."""
    return decode_records(b"".join(got.records))


# --- recorded cases --------------------------------------------------------------------------------------------------


def layout(case: dict[str, Any]) -> tuple[Callable[[int], str], MessageFilter | None]:
    """Return a function that gives the tag of each offset in a test case, and the filter of the case's read."""
    if case["id"] in ("GM-17", "GM-18"):
        return (lambda offset: "A" if offset % 10 == 0 else "B"), WANTED
    if case["id"] in ("GM-22", "GM-23"):
        return (lambda offset: "A" if offset == 900 else "B"), WANTED
    return (lambda offset: "B"), WANTED if case["id"] in ("GM-19", "GM-20", "GM-21") else None


def body_bytes(case: dict[str, Any]) -> int:
    """Return the size of the message bodies in a test case, as its note says."""
    if case["id"] == "GM-15":
        return 400 * 1024
    size = re.search(r"(\d+) KiB messages", case["note"])
    return int(size[1]) * 1024 if size else 100


def vector_store(case: dict[str, Any]) -> Store:
    """Return a store with the messages, bounds and memory limits that a test case describes."""
    is_cold = "cold" in case["note"]
    store = Store(Clock(frozen=True), HOST, PullLimits(warm_bytes=0 if is_cold else None))
    tag, _ = layout(case)
    for offset in range(case["max"]):
        store.put(InnerMessage("T", 0, b"." * body_bytes(case), {"TAGS": tag(offset)}))
    store.expire("T", 0, case["min"])
    if case["id"] in ("GM-24", "GM-25"):
        places = store.queue("T", 0).physical
        store.log.min_offset = places[2] if case["id"] == "GM-25" else store.log.end
    return store


@pytest.mark.parametrize("case", VECTORS, ids=[case["id"] for case in VECTORS])
def test_vectors(case: dict[str, Any]) -> None:
    """For each recorded case, status, next offset and messages of a read are those of a real broker."""
    store = vector_store(case)
    requests = Replica(store, HOST) if case["id"] == "GM-26" else store

    got = requests.get_message("T", 0, case["request_offset"], case["max_msgs"], layout(case)[1])

    offsets = [record.queue_offset for record in found(got)]
    assert got.status.value == case["status"]
    assert (got.next_begin_offset, got.min_offset, got.max_offset) == (
        case["next_begin_offset"],
        case["min"],
        case["max"],
    )
    assert ([offsets[0], offsets[-1], len(offsets)] if offsets else []) == case["returned"]


# --- storing ---------------------------------------------------------------------------------------------------------


def test_what_is_put_is_found_with_its_place() -> None:
    """A stored record contains its own address, by which the store finds it."""
    store = make_store(count=3, TAGS="A", KEYS="k")

    records = found(store.get_message("T", 0, 0, 32))

    assert [record.queue_offset for record in records] == [0, 1, 2]
    assert [store.message_at(record.physical_offset) for record in records] == records
    assert records[2].properties == {"TAGS": "A", "KEYS": "k"}
    records[2].check_crc()


def test_the_id_of_a_stored_message_names_host_and_address() -> None:
    """The message id contains the broker's host and the record's address, as clients expect."""
    stored = make_store(count=1).put(InnerMessage("T", 0, b"x"))

    assert stored.message_id == f"7F000001{HOST.port:08X}{stored.physical_offset:016X}"


def test_a_batch_brings_its_own_property_text() -> None:
    """If a message has `raw_properties`, they are stored unchanged, and its tag is read from `properties`."""
    store = make_store()
    store.put(InnerMessage("T", 0, b"x", {"TAGS": "A"}, raw_properties=b"TAGS\x01A\x02TAGS\x01Z"))

    assert found(store.get_message("T", 0, 0, 1, WANTED))[0].properties_text == b"TAGS\x01A\x02TAGS\x01Z"


def test_records_do_not_cross_segments() -> None:
    """If a record does not fit into a segment, it begins the next one, and is found there."""
    store = make_store()
    body = b"." * (3 * 1024 * 1024)
    places = [store.put(InnerMessage("T", 0, body)).physical_offset for _ in range(23)]

    assert SEGMENT_BYTES in places
    assert [physical for physical, _ in store.log.records()] == places
    assert [len(record.body) for record in store.messages("T", 0)] == [len(body)] * 23


def test_nothing_is_found_where_no_record_begins() -> None:
    """If an address lies beyond the log or in its deleted part, there is no message."""
    store = make_store(count=2)
    second = store.queue("T", 0).physical[1]
    store.log.min_offset = second

    assert store.message_at(store.log.end) is None
    assert store.message_at(10 * SEGMENT_BYTES) is None
    assert store.message_at(0) is None
    assert store.message_at(second) is not None


# --- bounds ----------------------------------------------------------------------------------------------------------


def test_a_queue_never_used_is_empty() -> None:
    """The bounds of an unused queue are 0, and no offset has a store time."""
    store = make_store()

    assert (store.min_offset("U", 7), store.max_offset("U", 7), store.store_time("U", 7, 0)) == (0, 0, -1)
    assert store.get_message("U", 7, 0, 32).status is GetStatus.NO_MESSAGE_IN_QUEUE


def test_expired_messages_are_gone_and_offsets_go_on() -> None:
    """Expiring messages raises the minimum offset, never lowers it, and never raises it above the maximum."""
    store = make_store(count=5)

    store.expire("T", 0, 3)
    store.expire("T", 0, 1)
    assert (store.min_offset("T", 0), store.max_offset("T", 0)) == (3, 5)
    store.expire("T", 0, 99)

    assert store.put(InnerMessage("T", 0, b"x")).queue_offset == 5
    assert store.min_offset("T", 0) == 5


def test_a_topic_made_anew_starts_at_0() -> None:
    """If a topic is removed and used again, its offsets start at 0."""
    store = make_store(count=5)

    store.remove_topic("T")

    assert store.put(InnerMessage("T", 0, b"x")).queue_offset == 0


@pytest.mark.parametrize(
    ("time_ms", "lower", "upper", "nearest"),
    [(5, 0, 0, 0), (10, 0, 1, 0), (15, 2, 1, 1), (19, 2, 1, 2), (30, 3, 4, 3), (40, 5, 5, 5), (41, 6, 5, 5)],
)
def test_search_by_store_time(time_ms: int, lower: int, upper: int, nearest: int) -> None:
    """A search finds the first message at or after a time, the last at or before it, or the nearest."""
    store = make_store()
    for stored_ms in (10, 10, 20, 30, 30, 40):
        store.put(InnerMessage("T", 0, b"x", store_timestamp=stored_ms))

    assert [store.search("T", 0, time_ms, boundary) for boundary in Boundary] == [lower, upper, nearest]


def test_search_stays_inside_the_queue() -> None:
    """A search finds no expired message, and in an empty queue it returns the minimum offset."""
    store = make_store()
    for stored_ms in (10, 20, 30, 40):
        store.put(InnerMessage("T", 0, b"x", store_timestamp=stored_ms))
    store.expire("T", 0, 2)

    assert [store.search("T", 0, 5, boundary) for boundary in Boundary] == [2, 2, 2]
    assert [store.search("U", 0, 5, boundary) for boundary in Boundary] == [0, 0, 0]


# --- reading ---------------------------------------------------------------------------------------------------------


def test_zero_messages_asked_for_gives_one() -> None:
    """If a pull asks for zero messages, it gets one."""
    assert len(found(make_store(count=3).get_message("T", 0, 0, 0))) == 1


def test_a_pull_stays_in_one_index_file() -> None:
    """A pull ends where a real broker's consume-queue file ends, even if more messages follow."""
    store = make_store(PullLimits(index_file_entries=10), count=25)

    assert store.get_message("T", 0, 7, 32).next_begin_offset == 10
    assert store.get_message("T", 0, 10, 32).next_begin_offset == 20


def test_scattered_messages_are_gathered() -> None:
    """If messages of other queues lie between those of a queue, a pull leaves them out."""
    store = make_store()
    for number in range(10):
        store.put(InnerMessage("T", number % 2, b"%d" % number))

    got = store.get_message("T", 1, 1, 32)

    assert [record.body for record in found(got)] == [b"3", b"5", b"7", b"9"]


def test_a_filter_on_properties_sees_them() -> None:
    """A filter that reads properties is called with the properties of each message."""

    class Odd:
        reads_properties = True

        def matches_code(self, tag_code: int) -> bool:
            return True

        def matches_properties(self, properties: Any) -> bool:
            return int(properties["n"]) % 2 == 1

    store = make_store()
    for number in range(6):
        store.put(InnerMessage("T", 0, b"x", {"n": str(number)}))

    assert [record.queue_offset for record in found(store.get_message("T", 0, 0, 32, Odd()))] == [1, 3, 5]


def test_data_far_behind_the_end_is_cold() -> None:
    """Messages far from the log's end count as read from disk, so the result has fewer of them and is marked cold."""
    store = make_store(PullLimits(warm_bytes=1_000), count=100)

    first, last = store.get_message("T", 0, 0, 32), store.get_message("T", 0, 95, 32)

    assert (first.cold, len(found(first))) == (True, 8)
    assert (last.cold, len(found(last))) == (False, 5)


# --- replicas --------------------------------------------------------------------------------------------------------


def test_a_replica_shows_its_masters_messages_but_the_last() -> None:
    """If a replica lags by some messages, each of its queues ends that many offsets earlier."""
    master = make_store(count=10)
    replica = Replica(master, HOST)
    replica.lag = 3

    got = replica.get_message("T", 0, 0, 32)

    assert (got.max_offset, len(found(got))) == (7, 7)
    assert replica.get_message("T", 0, 7, 32).status is GetStatus.OFFSET_OVERFLOW_ONE


def test_a_replica_does_not_judge_offsets() -> None:
    """If a reader's offset is beyond a replica's end, the replica returns the same offset to read next."""
    replica = Replica(make_store(count=10), HOST)
    replica.lag = 3

    got = replica.get_message("T", 0, 9, 32)

    assert (got.status, got.next_begin_offset) == (GetStatus.OFFSET_OVERFLOW_BADLY, 9)
