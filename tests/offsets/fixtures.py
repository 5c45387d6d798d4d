"""Provide a scripted source of offsets, times and committed positions that records its requests."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyspark_rocketmq.model import MessageQueue, QueueBounds
from pyspark_rocketmq.offsets.requested import QueueTree
from pyspark_rocketmq.options import queue_json
from pyspark_rocketmq.options.values import OptionText

GOLDEN = Path(__file__).parents[1] / "golden" / "offsets"

A0, A1, B0 = MessageQueue("T", "a", 0), MessageQueue("T", "a", 1), MessageQueue("T", "b", 0)
U0 = MessageQueue("U", "a", 0)
QUEUES = [A0, A1, B0, U0]


@dataclass
class KnownOffsets:
    """A source of offsets for tests; in every queue, the message at offset `o` is stored at `o * 10` ms.

    By default each queue holds offsets 10 to 99.
    """

    bounds: Mapping[MessageQueue, QueueBounds] = field(
        default_factory=lambda: dict.fromkeys(QUEUES, QueueBounds(10, 100))
    )
    committed: Mapping[MessageQueue, int] = field(default_factory=dict)
    readable: Mapping[MessageQueue, int] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def fetch_bounds(self, queues: Collection[MessageQueue]) -> Mapping[MessageQueue, QueueBounds]:
        """Return the bounds that the test set."""
        self.asked.append("bounds")
        return {queue: self.bounds[queue] for queue in queues}

    def fetch_offsets_at(self, times_ms: Mapping[MessageQueue, int]) -> Mapping[MessageQueue, int]:
        """Return the offset of each queue's time, clamped to the queue's bounds as brokers do."""
        self.asked.append("times")
        limits = {queue: self.bounds[queue] for queue in times_ms}
        return {
            queue: max(limits[queue].min_offset, min(-(-time // 10), limits[queue].max_offset))
            for queue, time in times_ms.items()
        }

    def fetch_committed(self, queues: Collection[MessageQueue]) -> Mapping[MessageQueue, int]:
        """Return the positions that the test set."""
        self.asked.append("committed")
        return {queue: self.committed[queue] for queue in queues if queue in self.committed}

    def fetch_first_readable(self, bounds: Mapping[MessageQueue, QueueBounds]) -> Mapping[MessageQueue, int]:
        """Return the first readable offsets that the test set, by default the minimum offsets."""
        self.asked.append("readable")
        return {queue: self.readable.get(queue, each.min_offset) for queue, each in bounds.items()}


def read_tree(text: str, option: str = "startingOffsets") -> QueueTree:
    """Return the offsets by queue that a valid JSON text requests."""
    tree = queue_json.read_offsets(OptionText(option, text))
    assert isinstance(tree, QueueTree)
    return tree


def read_times(text: str) -> QueueTree:
    """Return the times by queue that a valid JSON text requests."""
    return queue_json.read_times(OptionText("startingOffsetsByTimestamp", text))
