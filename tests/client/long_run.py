"""Members in order that fail, suspend, leave and die, and what they have done together."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence

from pyspark_rocketmq.client.consumer import PushConsumer
from pyspark_rocketmq.client.message import ReceivedMessage
from pyspark_rocketmq.client.results import SUCCESS, Consumed, Ordered, suspend


class Ledger:
    """What all members together have done, in the order in which it was done."""

    def __init__(self, seed: int) -> None:
        self._lock = threading.Lock()
        self._chance = random.Random(seed)
        self.done: list[tuple[int, int]] = []

    def consume(self, messages: Sequence[ReceivedMessage]) -> Consumed | Ordered:
        """A listener that fails now and then."""
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
    member.sink.finish()
    consumer.close()


def change_members(
    start: Callable[[], PushConsumer], count_done: Callable[[], int], count: int, *, pause_s: float, patience_s: float
) -> None:
    """Keep two members at work, one of which ends well or badly after each pause, until everything is done."""
    chance = random.Random(count)
    members = [start(), start()]
    end = time.monotonic() + patience_s
    while (done := count_done()) < count:
        assert time.monotonic() < end, f"{done} of {count} were committed within {patience_s:g} s"
        chance.choice([kill, PushConsumer.close])(members.pop(0))
        members.append(start())
        threading.Event().wait(pause_s)
