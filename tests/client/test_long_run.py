"""Order through failures, suspensions and members that come, go and die."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from broker_stub import Settings
from pyspark_rocketmq.client.consumer import PushConsumer
from pyspark_rocketmq.client.message import ReceivedMessage
from pyspark_rocketmq.client.results import SUCCESS, Consumed, Ordered, suspend
from tests.client.fixtures import GROUP, QUICK, TOPIC, Group

QUEUES = 8
SHORT_LEASE = replace(QUICK, lock_s=0.05, lock_max_live_s=0.3, unlock_delay_s=0.25)
SETTINGS = Settings(lock_lease_ms=600)


class Ledger:
    """What all members together have done, in the order in which it was done."""

    def __init__(self, seed: int) -> None:
        self._lock = threading.Lock()
        self._chance = random.Random(seed)
        self.done: list[tuple[int, int]] = []

    def member(self) -> Callable[[Sequence[ReceivedMessage]], Consumed | Ordered]:
        """A listener that fails now and then."""
        return self._consume

    def _consume(self, messages: Sequence[ReceivedMessage]) -> Consumed | Ordered:
        with self._lock:
            chance = self._chance.random()
            if chance < 0.01:
                raise ValueError("as it happens")
            if chance < 0.03:
                return suspend(0.01)
            self.done.extend((message.queue.queue_id, message.offset) for message in messages)
        return SUCCESS

    def firsts(self, queue_id: int) -> list[int]:
        """Offsets of a queue in the order in which each was done first."""
        return list(dict.fromkeys(offset for number, offset in self.done if number == queue_id))


def kill(consumer: PushConsumer) -> None:
    """End a member as a crash does: its connections break, and it says nothing."""
    member = consumer._member
    member.state.is_running = False
    for assigned in member.table.all():
        assigned.process_queue.dropped = True
    member.cluster.close()
    consumer.close()


@pytest.mark.parametrize("count", [5_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_order_holds_through_failures_and_deaths(make_group: Callable[..., Group], count: int) -> None:
    """Per queue, what is done for the first time is done in the order of the offsets, and nothing is missing."""
    group = make_group(queues=QUEUES, settings=SETTINGS)
    group.stub.fill(TOPIC, count, 10)
    ledger, chance = Ledger(seed=count), random.Random(count)
    wish = {"batch_size": 8, "rhythm": SHORT_LEASE, "thread_count": 4}
    members = [group.orderly(ledger.member(), **wish) for _ in range(2)]
    end = time.monotonic() + 60 + count / 500
    while sum(group.committed().values()) < count:
        assert time.monotonic() < end, f"{sum(group.committed().values())} of {count} were committed"
        victim = members.pop(0)
        chance.choice([kill, PushConsumer.close])(victim)
        members.append(group.orderly(ledger.member(), **wish))
        threading.Event().wait(1.0)

    for number in range(QUEUES):
        assert ledger.firsts(number) == list(range(count // QUEUES))
    assert group.stub.groups()[GROUP]
