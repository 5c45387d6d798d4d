"""Scenarios of reading from a slave while its master is down, for a slave that serves reads."""

from __future__ import annotations

from pyspark_rocketmq.cluster.cluster import open_cluster
from pyspark_rocketmq.pull.settings import PullSettings
from tests.flows.reading import offsets_of, read_all, whole
from tests.flows.replicas import master_down, replicated_queue
from tests.flows.world import World


def messages_are_read_from_the_slave(world: World) -> None:
    """Check that all messages are read from the slave, also with a route that still contains the master."""
    queue = replicated_queue(world, 40)

    with master_down(world, queue):
        for cluster in (world.cluster, open_cluster(world.settings)):
            assert offsets_of(read_all(cluster, [whole(queue, 40)])) == {queue: list(range(40))}


def reading_goes_over_while_it_is_under_way(world: World) -> None:
    """Check that each message is read once if the master stops during the read."""
    queue = replicated_queue(world, 60)
    blocks = iter(read_all(world.cluster, [whole(queue, 60)], PullSettings(batch_size=5, depth=1)))

    first = [next(blocks)]
    with master_down(world, queue):
        rest = list(blocks)

    assert offsets_of(first + rest) == {queue: list(range(60))}
