"""Count again what a process answered that is gone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyspark_rocketmq.model import Block, MessageQueue, QueueRange
from pyspark_rocketmq.pull.recount import recount
from pyspark_rocketmq.pull.settings import Subscription
from pyspark_rocketmq.pull.tally import Unvouched

from .scripted_queue import ONE_FILTER, Told, record_at


def test_counts_of_light_topics_prove_nothing() -> None:
    """Their records bear offsets of another queue, so the one that is missing, the first, is not counted at all."""
    told, wanted = Told(), QueueRange(MessageQueue("%LMQ%orders", "a", 0), 10, 13)

    def read(ranges: Sequence[QueueRange], subscription: Subscription) -> Iterator[Block]:
        records = {10: record_at(3, 100), 11: record_at(11, 200), 12: record_at(12, 300)}
        for each in ranges:
            yield Block(memoryview(b"".join(records[at] for at in range(each.start, each.end))), each, 3)

    recount([Unvouched(wanted, 2)], read, ONE_FILTER, told)
    assert told.losses == [(10, 13)]
