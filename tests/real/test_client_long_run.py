"""Test the order of messages on a real broker while consumers fail, suspend, join, leave and are killed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pyspark_rocketmq.model import Message, MessageQueue
from tests.client.long_run import Ledger, change_members
from tests.real.our_clients import QUICK, Ours, committed
from tests.real.servers import RealCluster

pytestmark = pytest.mark.real

QUEUES = 8
BATCH = 125
SHORT_LEASE = replace(QUICK, lock_s=0.5, lock_max_live_s=2.5, unlock_delay_s=2.0)
"""Intervals with which a member's lock lease ends after 2.5 s, before that of the tests' brokers, which is 5 s."""


def fill(ours: Ours, count: int) -> None:
    """Send `count` messages, equally many to each queue."""
    producer = ours.producer()
    for number in range(QUEUES):
        queue = MessageQueue(ours.topic, "broker-a", number)
        for start in range(0, count // QUEUES, BATCH):
            producer.send_batch([Message(ours.topic, b"%d" % (start + step)) for step in range(BATCH)], queue)


@pytest.mark.parametrize("count", [5_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_order_holds_through_failures_and_deaths(real_cluster: RealCluster, unique: str, count: int) -> None:
    """In each queue the first deliveries of messages are in the order of offsets and complete."""
    real_cluster.create_topic(unique, queues=QUEUES)
    ours, ledger = Ours(real_cluster.name_server, unique), Ledger(seed=count)
    fill(ours, count)
    cluster, settings = ours.cluster(), {"batch_size": 8, "rhythm": SHORT_LEASE, "thread_count": 4}
    try:
        change_members(
            lambda: ours.member(unique, ledger.consume, orderly=True, **settings),
            lambda: committed(ours, cluster, unique),
            count,
            pause_s=5.0,
            timeout_s=120 + count / 200,
        )
    finally:
        ours.close()

    for number in range(QUEUES):
        assert ledger.firsts(number) == list(range(count // QUEUES))
