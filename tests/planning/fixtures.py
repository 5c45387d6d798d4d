"""Make queues and ranges for tests of planning."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import strategies as st

from pyspark_rocketmq.model import MessageQueue, QueueRange


def queue(number: int, topic: str = "T") -> MessageQueue:
    """Return queue `number` in planning order; each broker has four queues, and there are three machine rooms."""
    broker = number // 4
    return MessageQueue(topic, f"room{min(broker, 2)}@b{broker:04}", number % 4)


def ranges_of(lengths: Iterable[int], start: int = 100) -> list[QueueRange]:
    """Return one range for each length: the first of queue 0, the next of queue 1, and so on; all begin at `start`."""
    return [QueueRange(queue(number), start, start + length) for number, length in enumerate(lengths)]


lengths = st.lists(st.integers(0, 10_000) | st.integers(0, 5), max_size=30)
