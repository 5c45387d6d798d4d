"""Run orderly members that fail, suspend, leave and crash, and record which messages succeeded."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence

from pyspark_rocketmq.client.consumer import PushConsumer
from pyspark_rocketmq.client.message import ReceivedMessage
from pyspark_rocketmq.client.results import SUCCESS, Consumed, Ordered, suspend


class Ledger:
    """Records the messages that succeeded at any member, in the order of their success."""

    def __init__(self, seed: int) -> None:
        self._lock = threading.Lock()
        self._chance = random.Random(seed)
        self.done: list[tuple[int, int]] = []

    def consume(self, messages: Sequence[ReceivedMessage]) -> Consumed | Ordered:
        """Record messages as done, or at random raise an error or suspend the queue."""
        with self._lock:
            chance = self._chance.random()
            if chance < 0.01:
                raise ValueError("as it happens")
            if chance < 0.03:
                return suspend(0.01)
            self.done.extend((message.queue.queue_id, message.offset) for message in messages)
        return SUCCESS

    def firsts(self, queue_id: int) -> list[int]:
        """Return the offsets of a queue's messages, each once, in the order of their first success."""
        return list(dict.fromkeys(offset for number, offset in self.done if number == queue_id))


def kill(consumer: PushConsumer) -> None:
    """End a member as a crash does: close its connections without unregistering it or committing."""
    member = consumer._member
    member.state.is_running = False
    for assigned in member.table.all():
        assigned.process_queue.dropped = True
    member.cluster.close()
    member.sink.finish()
    consumer.close()


def change_members(
    start: Callable[[], PushConsumer], count_done: Callable[[], int], count: int, *, pause_s: float, timeout_s: float
) -> None:
    """Keep two members running until `count` messages are committed; after each pause replace one of them.

    The replaced member is either closed or killed, by chance.
    """
    chance = random.Random(count)
    members = [start(), start()]
    end = time.monotonic() + timeout_s
    while (done := count_done()) < count:
        assert time.monotonic() < end, f"{done} of {count} were committed within {timeout_s:g} s"
        chance.choice([kill, PushConsumer.close])(members.pop(0))
        members.append(start())
        threading.Event().wait(pause_s)
