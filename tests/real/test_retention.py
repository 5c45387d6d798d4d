"""Read a queue while retention takes its messages and its minimum offset lags behind."""

from __future__ import annotations

import json
import logging

import pytest

from pyspark_rocketmq.errors import DataLossError
from pyspark_rocketmq.model import MessageQueue
from tests.flows.world import World
from tests.real.fixtures import ClusterKeeper
from tests.real.servers import Broker, RealCluster, wait_until
from tests.real.worlds import real_world
from tests.source.driving import Row, batch_options_for, read_batch

pytestmark = [pytest.mark.real, pytest.mark.slow]

OVERTAKEN = {"mappedFileSizeCommitLog": "1048576", "fileReservedTime": "0", "cleanResourceInterval": "10000"}
"""Small files, and RocketMQ's own interval of cleaning: messages go up to ten seconds before the minimum moves."""
COUNT, BATCH, SIZE = 6_000, 100, 1_800
DELETE_EXPIRED_COMMITLOG = 329
FILTERS = [{}, {"tags": "TagA"}]


@pytest.fixture
def cluster(real_clusters: ClusterKeeper) -> RealCluster:
    """A broker whose retention takes everything as soon as it is asked to."""
    return real_clusters.cluster(options=OVERTAKEN)


def fill(world: World) -> MessageQueue:
    """A queue of 11 MB; every second hundred of its messages bears the tag TagA."""
    queue = world.make_queue()
    for number in range(COUNT // BATCH):
        world.fill(queue, BATCH, size=SIZE, TAGS="TagA" if number % 2 else "TagB")
    return queue


def overtake(broker: Broker, queue: MessageQueue) -> int:
    """Wait until retention has taken most of the log's files; return the queue's minimum offset, which lags behind."""

    def has_overtaken() -> bool:
        if len(list((broker.home / "store/commitlog").iterdir())) > 3:
            broker.ask(DELETE_EXPIRED_COMMITLOG)
            return False
        return True

    wait_until(has_overtaken, "the log's files are deleted", 150)
    return broker.min_offset(queue.topic, queue.queue_id)


def read(cluster: RealCluster, queue: MessageQueue, start: int, **given: str) -> list[Row]:
    """The rows of the queue as they were planned before retention came."""
    limits = {"startingOffsets": start, "endingOffsets": COUNT}
    bounds = {name: json.dumps({queue.topic: {queue.broker_name: {"0": at}}}) for name, at in limits.items()}
    return read_batch(batch_options_for(cluster, subscribe=queue.topic, **bounds, **given))


@pytest.mark.parametrize("given", FILTERS, ids=["unfiltered", "tags"])
def test_messages_that_retention_takes_before_the_minimum_moves_are_a_loss(
    cluster: RealCluster, given: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """A read that finds fewer messages than were planned fails by default, and otherwise warns and goes on."""
    queue = fill(real_world(cluster))
    minimum = overtake(cluster.broker, queue)
    assert minimum < 2_000, "the minimum has been raised already: there is nothing to show"

    with pytest.raises(DataLossError):
        read(cluster, queue, minimum, **given)
    with caplog.at_level(logging.WARNING):
        rows = read(cluster, queue, minimum, **given, failOnDataLoss="false")
    assert 0 < len(rows) < COUNT // 2 and str(queue) in caplog.text
