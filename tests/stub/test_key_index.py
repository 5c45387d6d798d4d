"""Tests of `broker_stub.key_index`."""

from __future__ import annotations

from broker_stub.clock import Clock
from broker_stub.key_index import KeyIndex
from broker_stub.store import InnerMessage, Store
from pyspark_rocketmq.model import Address

FOR_EVER = 0, 2**62


def make_store() -> Store:
    """Return a store with some messages that have keys."""
    store = Store(Clock(frozen=True), Address("127.0.0.1", 10911))
    for number, keys in enumerate(("k1 shared", "k2 shared", "")):
        properties = {"KEYS": keys, "UNIQ_KEY": f"U{number}"}
        store.put(InnerMessage("T", 0, b"%d" % number, properties, store_timestamp=100 + number))
    return store


def test_messages_are_found_by_any_of_their_keys() -> None:
    """A message is found by each of its keys and by its unique id; the latest message comes first."""
    index = KeyIndex(make_store())

    assert [record.body for record in index.find("T", "shared", *FOR_EVER)] == [b"1", b"0"]
    assert [record.body for record in index.find("T", "k1", *FOR_EVER)] == [b"0"]
    assert [record.body for record in index.find("T", "U2", *FOR_EVER)] == [b"2"]
    assert list(index.find("U", "k1", *FOR_EVER)) == []


def test_times_bound_the_search() -> None:
    """A search returns messages stored from its first time to its last time, both included."""
    index = KeyIndex(make_store())

    assert [record.body for record in index.find("T", "shared", 101, 101)] == [b"1"]


def test_later_messages_are_found_too() -> None:
    """A message that is stored after a query is found by the next query."""
    store = make_store()
    index = KeyIndex(store)
    assert list(index.find("T", "late", *FOR_EVER)) == []

    store.put(InnerMessage("T", 0, b"late", {"KEYS": "late"}))

    assert [record.body for record in index.find("T", "late", *FOR_EVER)] == [b"late"]


def test_messages_of_a_deleted_topic_are_not_found() -> None:
    """Messages of a deleted topic are not found, even after the topic is created again."""
    store = make_store()
    store.remove_topic("T")
    store.put(InnerMessage("T", 0, b"again", {"KEYS": "k1"}))

    assert [record.body for record in KeyIndex(store).find("T", "k1", *FOR_EVER)] == [b"again"]
