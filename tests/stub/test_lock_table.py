"""Tests of `broker_stub.lock_table`."""

from __future__ import annotations

import pytest

from broker_stub.clock import Clock
from broker_stub.lock_table import LEASE_MS, LockTable
from pyspark_rocketmq.model import MessageQueue

Q0, Q1 = (MessageQueue("T", "broker-a", queue_id) for queue_id in (0, 1))


@pytest.fixture
def clock() -> Clock:
    """Return a clock that only `advance` moves."""
    return Clock(frozen=True)


@pytest.fixture
def locks(clock: Clock) -> LockTable:
    """Return the empty lock table of a broker."""
    return LockTable(clock)


def test_the_reference_sequence(clock: Clock, locks: LockTable) -> None:
    """A fixed sequence of locks, unlocks and expiries has the results of RocketMQ's own lock manager."""
    assert locks.lock("g", [Q0, Q1], "c1") == [Q0, Q1]
    assert locks.lock("g", [Q0, Q1], "c2") == []
    assert locks.lock("other", [Q0, Q1], "c2") == [Q0, Q1]
    locks.unlock("g", [Q0], "c2")
    assert locks.lock("g", [Q0, Q1], "c2") == []
    locks.unlock("g", [Q0], "c1")
    assert locks.lock("g", [Q0, Q1], "c2") == [Q0]
    clock.advance(LEASE_MS + 1)
    assert locks.lock("g", [Q0, Q1], "c3") == [Q0, Q1]
    assert locks.lock("g", [Q0, Q1], "c1") == []


def test_a_lease_lasts_exactly_its_time(clock: Clock, locks: LockTable) -> None:
    """A lock holds as long as its lease, and one millisecond later another client can take it."""
    locks.lock("g", [Q0], "c1")
    clock.advance(LEASE_MS)
    assert locks.lock("g", [Q0], "c2") == []
    clock.advance(1)
    assert locks.lock("g", [Q0], "c2") == [Q0]


def test_renewal_extends_the_lease(clock: Clock, locks: LockTable) -> None:
    """If the owner locks its queue again, the lease starts anew."""
    locks.lock("g", [Q0], "c1")
    clock.advance(LEASE_MS - 1)
    locks.lock("g", [Q0], "c1")
    clock.advance(LEASE_MS - 1)
    assert locks.owners("g") == {Q0: "c1"}


def test_an_owner_may_unlock_what_expired(clock: Clock, locks: LockTable) -> None:
    """An expired lock can be unlocked by its last owner, and by no other client."""
    locks.lock("g", [Q0], "c1")
    clock.advance(LEASE_MS + 1)
    assert locks.owners("g") == {}
    locks.unlock("g", [Q0], "c1")
    assert locks.lock("g", [Q0], "c2") == [Q0]


def test_the_lease_can_be_set(clock: Clock) -> None:
    """A lock table can have a shorter lease, for tests of clients."""
    locks = LockTable(clock, lease_ms=100)
    locks.lock("g", [Q0], "c1")
    clock.advance(101)
    assert locks.lock("g", [Q0], "c2") == [Q0]


def test_a_restart_frees_every_queue(locks: LockTable) -> None:
    """After a restart no queue is locked."""
    locks.lock("g", [Q0, Q1], "c1")
    locks.clear()
    assert locks.lock("g", [Q0, Q1], "c2") == [Q0, Q1]
