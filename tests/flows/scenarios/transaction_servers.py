"""Scenarios of half messages that need brokers with a certain setting; each docstring names it."""

from __future__ import annotations

import pytest

from pyspark_rocketmq.errors import BrokerError
from pyspark_rocketmq.wire.codes import ResponseCode
from tests.flows.half_messages import COMMIT, LONG_AGO_MS, Half, end, prepare, records_of, watching
from tests.flows.world import World, sending, until


def half_message_in_memory_is_not_found(world: World) -> None:
    """Check that END refuses a half message until it has reached the file, with `transientStorePoolEnable`."""
    half = prepare(world)

    with pytest.raises(BrokerError, match="Find prepared transaction message failed"):
        end(world.cluster, half, COMMIT)
    until(lambda: _commits(world, half), "the half message can be committed")

    assert [record.body for record in world.await_messages(half.queue)] == [b"half"]


def success_of_end_hides_a_missing_flush(world: World) -> None:
    """Check that each END says SUCCESS although nearly no message is flushed in time, which sends report.

    The brokers flush each message before the response, and have no time for it (`syncFlushTimeout=0`).
    """
    queue = world.make_queue()
    halves = [prepare(world, queue) for _ in range(10)]

    for half in halves:
        end(world.cluster, half, COMMIT)

    assert len(world.await_messages(queue, len(halves))) == len(halves)
    plain = sending(queue, b"plain", {})
    until(lambda: world.store(plain).status is ResponseCode.FLUSH_DISK_TIMEOUT, "a send reports that it is not flushed")


def crash_forgets_that_a_half_message_ended(world: World) -> None:
    """Check that 5.x checks a half message again that was committed just before a crash.

    It keeps in memory for `transactionOpBatchInterval` which half messages have ended. 4.9 writes each end at once, and
    so does RocksDB mode.
    """
    half = prepare(world, age_ms=LONG_AGO_MS)
    end(world.cluster, half, COMMIT)

    world.servers.stop(half.queue.broker_name)
    world.servers.start(half.queue.broker_name)
    with watching(world) as producer:
        producer.await_pass()

    is_checked = world.by_version({"4.9": False, "5.5.0-rocksdb": False, "5": True})
    assert (len(records_of(world, half)) > 1) == is_checked
    assert [record.body for record in world.await_messages(half.queue)] == [b"half"]


def _commits(world: World, half: Half) -> bool:
    try:
        end(world.cluster, half, COMMIT)
    except BrokerError:
        return False
    return True
