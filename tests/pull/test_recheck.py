"""Test that a response with too few messages, or with impossible offsets, is read again, and losses are reported."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from pyspark_rocketmq.model import Block, MessageQueue, QueueRange
from pyspark_rocketmq.pull.recheck import Recheck
from pyspark_rocketmq.pull.settings import PullSettings
from tests.cluster.scripted import ScriptedLinks, cluster_of, route_of

from .scripted_queue import Told, record_at


@pytest.mark.parametrize(
    ("topic", "losses", "row_count"), [("orders", [(0, 1)], 2), ("%LMQ%orders", [(0, 3)], 0)], ids=["plain", "light"]
)
def test_records_of_light_topics_do_not_tell_which_messages_are_missing(
    topic: str, losses: list[tuple[int, int]], row_count: int
) -> None:
    """If a short response holds records of a light topic, it brings no rows, and its whole range is reported lost."""
    links, told, queue = ScriptedLinks(), Told(), MessageQueue(topic, "a", 0)
    links.serve("ns:1", GET_ROUTEINFO_BY_TOPIC=route_of(a={1: "replica:1"}))
    recheck = Recheck(cluster_of(links).brokers, cast(Any, None), told, PullSettings())
    data = memoryview(record_at(1, 100) + record_at(2, 200))
    short = Block(data, QueueRange(queue, 0, 3), 3, 0, 3, 3)

    assert len(list(recheck.read_again(short))) == row_count
    assert told.losses == losses


@pytest.mark.parametrize(
    ("wanted", "losses", "positions"),
    [(range(20), [(0, 20)], [2, 9]), (range(3), [], [2]), (range(5, 20), [], [9])],
    ids=["whole", "cut behind", "cut before"],
)
def test_filtered_messages_that_the_master_does_not_have_are_told(
    wanted: range, losses: list[tuple[int, int]], positions: list[int]
) -> None:
    """If a filtered record within the wanted offsets is not found again, the range is reported as lost."""
    told, queue = Told(), MessageQueue("orders", "a", 0)
    asked = QueueRange(queue, wanted.start, wanted.stop)

    class Scripted(Recheck):
        def read_again(self, block: Block) -> Iterator[Block]:
            for at in (2, 9):
                if at in wanted:
                    yield Block(memoryview(record_at(at, 100 * at)), asked, 1, at, 1, at + 1)

    recheck = Scripted(cluster_of(ScriptedLinks()).brokers, cast(Any, None), told, PullSettings())
    records = [record_at(2, 200), record_at(30, 777), record_at(9, 900)]
    answer = Block(memoryview(b"".join(records)), asked, 3, 0, 0, 20)

    assert [block.first for block in recheck.place(answer)] == positions
    assert told.losses == losses
