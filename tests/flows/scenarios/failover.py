"""What goes on when a master stops, and again when it is back? For a master with a slave."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pyspark_rocketmq.cluster.cluster import open_cluster
from pyspark_rocketmq.errors import NoBrokerAvailable, RocketMQError
from pyspark_rocketmq.model import MessageQueue
from pyspark_rocketmq.pull.settings import PullSettings
from tests.flows.reading import offsets_of, read_all, whole
from tests.flows.world import World


def places_are_asked_of_the_slave(world: World) -> None:
    """While the master is down its slave says how far queues go, and that it is a replica."""
    queue = _replicated_queue(world, 5)

    with _master_down(world, queue):
        [bounds] = world.cluster.offsets.fetch_bounds([queue]).values()

    assert (bounds.min_offset, bounds.max_offset, bounds.from_replica) == (0, 5, True)
    assert not world.cluster.offsets.fetch_bounds([queue])[queue].from_replica


def messages_are_read_from_the_slave(world: World) -> None:
    """Reading goes over to it, with a route that still names the master and with a new one."""
    queue = _replicated_queue(world, 40)

    with _master_down(world, queue):
        for cluster in (world.cluster, open_cluster(world.settings)):
            assert offsets_of(read_all(cluster, [whole(queue, 40)])) == {queue: list(range(40))}


def reading_goes_over_while_it_is_under_way(world: World) -> None:
    """The master stops after the first answers; nothing is lost and nothing comes twice."""
    queue = _replicated_queue(world, 60)
    blocks = iter(read_all(world.cluster, [whole(queue, 60)], PullSettings(batch_size=5, depth=1)))

    first = [next(blocks)]
    with _master_down(world, queue):
        rest = list(blocks)

    assert offsets_of(first + rest) == {queue: list(range(60))}


def nothing_is_stored_at_a_slave(world: World) -> None:
    """Without its master a broker takes nothing; with it again, it does."""
    queue = _replicated_queue(world, 1)

    with _master_down(world, queue):
        world.cluster.routes.expire(queue.topic)
        with pytest.raises(NoBrokerAvailable, match=rf"no master now.*broker {queue.broker_name}"):
            world.send(queue)

    world.cluster.routes.expire(queue.topic)
    assert world.send(queue).queue_offset == 1


def old_route_is_given_up_by_the_error(world: World) -> None:
    """The first send to the dead master fails and says where; the route is fetched anew for the next."""
    queue = _replicated_queue(world, 1)
    dead = world.master(queue)

    with _master_down(world, queue):
        with pytest.raises(RocketMQError, match=str(dead)):
            world.send(queue)
        with pytest.raises(NoBrokerAvailable):
            world.send(queue)


def _replicated_queue(world: World, count: int) -> MessageQueue:
    queue = world.make_queue()
    world.fill(queue, count)
    world.servers.replicate([queue])
    return queue


@contextmanager
def _master_down(world: World, queue: MessageQueue) -> Iterator[None]:
    world.servers.stop(queue.broker_name)
    try:
        yield
    finally:
        world.servers.start(queue.broker_name)
        world.cluster.routes.expire(queue.topic)
