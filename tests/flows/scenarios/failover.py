"""Scenarios of a master that stops and returns, for a master with a slave."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from pyspark_rocketmq.broker_errors import SlaveNotAvailable
from pyspark_rocketmq.cluster.cluster import open_cluster
from pyspark_rocketmq.cluster.servers import ServerRequest
from pyspark_rocketmq.errors import NoBrokerAvailable, RocketMQError
from pyspark_rocketmq.pull.settings import PullSettings
from tests.flows.half_messages import COMMIT, end_header, prepare
from tests.flows.reading import offsets_of, read_all, whole
from tests.flows.replicas import master_down, replicated_queue, watch_log
from tests.flows.world import WAIT_TIMEOUT_S, World, until


def bounds_are_asked_of_the_slave(world: World) -> None:
    """Check that bounds come from the slave while the master is down, and are marked with `from_replica`."""
    queue = replicated_queue(world, 5)

    with master_down(world, queue):
        [bounds] = world.cluster.offsets.fetch_bounds([queue]).values()

    assert (bounds.min_offset, bounds.max_offset, bounds.from_replica) == (0, 5, True)
    assert not world.cluster.offsets.fetch_bounds([queue])[queue].from_replica


def reading_outlasts_the_absence_of_a_master(world: World) -> None:
    """Check that each message is read once although the master stops; the slave may serve reads or refuse them."""
    queue = replicated_queue(world, 60)
    blocks = iter(read_all(open_cluster(world.settings), [whole(queue, 60)], PullSettings(batch_size=5, depth=1)))
    seen = [next(blocks)]

    with ThreadPoolExecutor(1) as pool, watch_log("slaveReadEnable") as is_refused:
        with master_down(world, queue):
            rest = pool.submit(list, blocks)
            until(lambda: rest.done() or is_refused(), "the slave serves, or refuses reads")
        assert offsets_of(seen + rest.result(WAIT_TIMEOUT_S)) == {queue: list(range(60))}


def nothing_is_stored_at_a_slave(world: World) -> None:
    """Check that a send fails while the master is down, and succeeds when it is up again."""
    queue = replicated_queue(world, 1)

    with master_down(world, queue):
        world.cluster.routes.expire(queue.topic)
        with pytest.raises(NoBrokerAvailable) as caught:
            world.send(queue)
    assert caught.value.where["broker"] == queue.broker_name

    world.cluster.routes.expire(queue.topic)
    assert world.send(queue).queue_offset == 1


def transaction_is_not_ended_at_a_slave(world: World) -> None:
    """Check that a slave refuses the end of a transaction, although it may hold the half message."""
    half = prepare(world)
    endpoints = world.cluster.routes.route(half.queue.topic).broker(half.queue.broker_name).endpoints
    slave = next(endpoint.address for endpoint in endpoints if not endpoint.is_master)

    with pytest.raises(SlaveNotAvailable):
        world.cluster.brokers.servers.ask(ServerRequest(slave, end_header(half, COMMIT)))


def old_route_is_given_up_by_the_error(world: World) -> None:
    """Check that a failed send names the stopped master, and that the next send uses a route without it."""
    queue = replicated_queue(world, 1)
    dead = world.master(queue)

    with master_down(world, queue):
        with pytest.raises(RocketMQError, match=str(dead)):
            world.send(queue)
        with pytest.raises(NoBrokerAvailable):
            world.send(queue)
