"""Judge short answers that cannot be read again."""

from __future__ import annotations

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
    """Their offsets are those of another queue, even where they would fit into this one."""
    links, told, queue = ScriptedLinks(), Told(), MessageQueue(topic, "a", 0)
    links.serve("ns:1", GET_ROUTEINFO_BY_TOPIC=route_of(a={1: "replica:1"}))
    recheck = Recheck(cluster_of(links).brokers, cast(Any, None), told, PullSettings())
    data = memoryview(record_at(1, 100) + record_at(2, 200))
    short = Block(data, QueueRange(queue, 0, 3), 3, 0, 3, 3)

    assert len(list(recheck.read_again(short))) == row_count
    assert told.losses == losses
