"""Scenarios of a topic with queues at two masters."""

from __future__ import annotations

import pytest

from pyspark_rocketmq.errors import ConnectError, RocketMQError
from pyspark_rocketmq.model import MessageQueue
from pyspark_rocketmq.pull.settings import PullSettings
from pyspark_rocketmq.wire.bodies import TopicConfig
from tests.flows.reading import offsets_of, read_all, whole
from tests.flows.world import World, fresh, until


def topic_spans_both(world: World) -> None:
    """Check that a topic's queues are sorted by broker, and that each broker returns the bounds of its own queues."""
    queues = world.make_topic(2)
    for count, queue in enumerate(queues):
        world.fill(queue, count + 1)

    assert [(queue.broker_name, queue.queue_id) for queue in queues] == [
        ("broker-a", 0), ("broker-a", 1), ("broker-b", 0), ("broker-b", 1)
    ]  # fmt: skip
    assert list(world.cluster.offsets.fetch_max(queues).values()) == [1, 2, 3, 4]
    assert {
        queue: stats.max_offset for queue, stats in world.cluster.admin.fetch_topic_stats(queues[0].topic).items()
    } == (dict(zip(queues, (1, 2, 3, 4), strict=True)))


def locks_are_each_brokers_own(world: World) -> None:
    """Check that locks are granted by the running broker, and reported as unknown for the stopped one."""
    here, there = world.make_topic()
    group = fresh("group")

    world.servers.stop(there.broker_name)
    try:
        locked = world.cluster.groups.lock(group, "me", [here, there])
    finally:
        world.servers.start(there.broker_name)

    assert (locked.granted, locked.refused) == (frozenset([here]), frozenset[MessageQueue]())
    assert list(locked.unknown) == [there.broker_name]


def ranges_of_both_are_read(world: World) -> None:
    """Check that each message of both brokers is read once, and in order within a queue."""
    queues = world.make_topic(2)
    for queue in queues:
        world.fill(queue, 50)

    found = offsets_of(read_all(world.cluster, [whole(queue, 50) for queue in queues]))

    assert found == {queue: list(range(50)) for queue in queues}


def reading_waits_for_a_broker(world: World) -> None:
    """Check that each message is read once although one broker stops and restarts during the read."""
    queues = world.make_topic()
    for queue in queues:
        world.fill(queue, 40)
    settings = PullSettings(batch_size=5, depth=2, max_retries=20)
    blocks = iter(read_all(world.cluster, [whole(queue, 40) for queue in queues], settings))

    seen = [next(blocks), next(blocks)]
    world.servers.stop(queues[1].broker_name)
    seen.append(next(blocks))
    world.servers.start(queues[1].broker_name)
    seen += list(blocks)

    assert offsets_of(seen) == {queue: list(range(40)) for queue in queues}


def topics_only_broker_is_waited_for(world: World) -> None:
    """Check that each message is read once although the only broker restarts while many pulls are in flight."""
    away = world.make_topic()[1].broker_name
    topic = fresh("topic")
    world.cluster.admin.create_topic(TopicConfig(topic_name=topic, read_queue_nums=1, write_queue_nums=1), [away])
    until(lambda: world.route_names(topic) == (away,), f"{topic} is routed")
    queue = MessageQueue(topic, away, 0)
    world.fill(queue, 2000, size=2000)
    blocks = iter(read_all(world.cluster, [whole(queue, 2000)], PullSettings(max_retries=20)))

    seen = [next(blocks), next(blocks)]
    world.servers.stop(away)
    world.servers.start(away)
    seen += list(blocks)

    assert offsets_of(seen) == {queue: list(range(2000))}


def broker_that_stays_away_is_a_loss(world: World) -> None:
    """Check that a queue whose broker is not in the route for `stall_timeout_s` is reported as vanished."""
    queues = world.make_topic()
    here, away = queues
    for queue in queues:
        world.fill(queue, 10)

    world.servers.stop(away.broker_name)
    try:
        world.cluster.routes.expire(here.topic)
        blocks = read_all(world.cluster, [whole(queue, 10) for queue in queues], PullSettings(stall_timeout_s=2))
        found = offsets_of(blocks)
    finally:
        world.servers.start(away.broker_name)

    assert found == {here: list(range(10))}
    assert blocks.losses == [("vanished", away, 0, 10)]


def dead_broker_is_named(world: World) -> None:
    """Check that a request to a stopped broker fails with an error that names its name or its address."""
    _, there = world.make_topic()
    address = world.master(there)

    world.servers.stop(there.broker_name)
    try:
        with pytest.raises(RocketMQError, match=f"{there.broker_name}|{address}"):
            world.cluster.offsets.fetch_max([there])
    finally:
        world.servers.start(there.broker_name)
    _assert_back(world, there)


def _assert_back(world: World, queue: MessageQueue) -> None:
    world.cluster.routes.expire(queue.topic)
    try:
        assert world.cluster.offsets.fetch_max([queue]) == {queue: 0}
    except ConnectError as error:
        raise AssertionError("the broker is back, but not reached") from error
