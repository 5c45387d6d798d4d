"""Flows that hold on every cluster, stub or real: a query reads and commits, step by step.

Each public function that takes a `World` is a flow. Flows whose names begin with `two_brokers_` or `master_slave_`
need such a cluster; those with `expiry_` need one that can expire messages.
"""

from __future__ import annotations

import json

import pytest

from pyspark_rocketmq.errors import GroupInUse, OffsetBeforeEarliest
from pyspark_rocketmq.model import MessageQueue
from pyspark_rocketmq.wire.bodies import ConsumerData, HeartbeatData, TopicConfig
from pyspark_rocketmq.wire.codes import SysFlag
from tests.flows.world import World, fresh, sending, until
from tests.source.driving import Checkpoint, Run, batch_options_for, options_for, read_batch


def a_batch_holds_all_messages_of_its_range(world: World) -> None:
    """Check that a batch read of three queues, one of them empty, returns every message once."""
    first, second, _ = queues = world.make_topic(3)
    world.fill(first, 100)
    world.fill(second, 7)
    rows = read_batch(batch_options_for(world, subscribe=queues[0].topic, pullBatchSize="16"))
    assert [row.offset for row in rows if row.queue == first] == list(range(100))
    assert [row.offset for row in rows if row.queue == second] == list(range(7)) and len(rows) == 107


def a_stream_reads_all_and_publishes_what_is_finished(world: World) -> None:
    """Check that a stream with `maxOffsetsPerTrigger` reads all messages and commits every queue, even an empty one."""
    first, second, empty = world.make_topic(3)
    group = fresh("group")
    options = options_for(world, subscribe=first.topic, consumerGroup=group, maxOffsetsPerTrigger="40")
    world.fill(first, 50)
    world.fill(second, 50)
    with Run(options, available_now=True) as run:
        batches = [len(rows) for rows in iter(run.trigger, None) if rows is not None]
    assert batches == [40, 40, 20]
    wanted = {first: 50, second: 50, empty: 0}
    until(lambda: world.cluster.offsets.fetch_committed(group, list(wanted)) == wanted, "positions are committed")


def a_restart_neither_loses_nor_repeats(world: World) -> None:
    """Check that an unfinished batch is not committed, and that a restart reads it again with the same rows."""
    queue, group = world.make_queue(), world.make_group()
    options, checkpoint = options_for(world, subscribe=queue.topic, consumerGroup=group), Checkpoint()
    world.fill(queue, 10)
    with Run(options, checkpoint) as killed:
        killed.plan()
        killed.read()
    world.fill(queue, 5)
    with Run(options, checkpoint) as run:
        assert [row.offset for row in run.trigger() or ()] == list(range(10))
        assert world.cluster.offsets.fetch_committed(group, [queue]) in ({}, {queue: 0})
        assert [row.offset for row in run.read_until(5)] == list(range(10, 15))
    with Run(options, checkpoint, available_now=True) as run:
        assert run.drain() == []
    assert world.cluster.offsets.fetch_committed(group, [queue]) == {queue: 15}


def a_query_begins_where_its_group_stands(world: World) -> None:
    """Check that a query with `startingOffsets=group` reads from the group's position, and commits the queue's end."""
    queue, group = world.make_queue(), world.make_group()
    world.fill(queue, 10)
    world.cluster.offsets.commit(group, {queue: 4})
    options = options_for(world, subscribe=queue.topic, consumerGroup=group, startingOffsets="group")
    with Run(options, available_now=True) as run:
        assert [row.offset for row in run.drain()] == list(range(4, 10))
    assert world.cluster.offsets.fetch_committed(group, [queue]) == {queue: 10}


def a_position_is_never_moved_back(world: World) -> None:
    """Check that a query's commit does not lower a larger position that another client has committed."""
    queue, group = world.make_queue(), world.make_group()
    world.fill(queue, 10)
    world.cluster.offsets.commit(group, {queue: 12})
    with Run(options_for(world, subscribe=queue.topic, consumerGroup=group), available_now=True) as run:
        assert len(run.drain()) == 10
    assert world.cluster.offsets.fetch_committed(group, [queue]) == {queue: 12}


def tags_choose_messages(world: World) -> None:
    """Check that a tag filter passes over other messages, and that the committed position counts them as read."""
    queue, group = world.make_queue(), world.make_group()
    for number in range(6):
        world.send(queue, b"x", TAGS="even" if number % 2 == 0 else "odd")
    options = options_for(world, subscribe=queue.topic, tags="even", consumerGroup=group)
    with Run(options, available_now=True) as run:
        assert [row.offset for row in run.drain()] == [0, 2, 4]
    assert world.cluster.offsets.fetch_committed(group, [queue]) == {queue: 6}


def a_queue_that_comes_is_read_from_its_first_message(world: World) -> None:
    """Check that a query that started at `latest` reads a new queue from the beginning of that queue."""
    queue = world.make_queue()
    with Run(options_for(world, subscribe=queue.topic, startingOffsets="latest")) as run:
        run.trigger()
        config = TopicConfig(topic_name=queue.topic, read_queue_nums=2, write_queue_nums=2)
        world.cluster.admin.create_topic(config, (queue.broker_name,))
        world.cluster.routes.expire(queue.topic)
        new = queue._replace(queue_id=1)
        until(lambda: new in world.cluster.name_servers.fetch_route(queue.topic).readable, "the new queue is routed")
        world.cluster.routes.expire(queue.topic)
        world.send(new)
        assert [row.queue for row in run.read_until(1)] == [new]


def a_group_with_members_is_refused(world: World) -> None:
    """Check that a query that is no member fails with `GroupInUse` if its group has members."""
    queue, group = world.make_queue(), world.make_group()
    consumer = ConsumerData(
        group_name=group,
        consume_type="CONSUME_PASSIVELY",
        message_model="CLUSTERING",
        consume_from_where="CONSUME_FROM_LAST_OFFSET",
    )
    member = HeartbeatData(client_id=fresh("client"), consumer_data_set=(consumer,))
    world.cluster.groups.heartbeat(world.master(queue), member)
    with Run(options_for(world, subscribe=queue.topic, consumerGroup=group)) as run, pytest.raises(GroupInUse):
        run.plan()
    world.cluster.groups.unregister(world.master(queue), member.client_id, consumer_group=group)


def a_lost_message_shifts_no_offsets(world: World) -> None:
    """Check that all messages that a queue still serves are read, at consecutive offsets, after its broker lost one.

    The broker acknowledges the lost message, whose sysFlag claims IPv6 addresses falsely, but never adds it to the
    queue.
    """
    queue = world.make_queue()
    bodies = _send_around_an_odd_message(world, queue)
    rows = read_batch(batch_options_for(world, subscribe=queue.topic, pullBatchSize="16"))
    assert [row.body for row in rows] == bodies
    assert [row.offset for row in rows] == list(range(len(bodies)))


def a_lost_message_shifts_no_offsets_where_tags_choose(world: World) -> None:
    """Check that a tag filter finds the same rows in one range as in two, though one message has an odd sysFlag."""
    queue = world.make_queue()
    bodies = _send_around_an_odd_message(world, queue)
    tagged = {"subscribe": queue.topic, "tags": "even"}
    whole = read_batch(batch_options_for(world, **tagged))
    ends = [json.dumps({queue.topic: {"broker-a": {"0": end}}}) for end in (100, len(bodies))]
    front = read_batch(batch_options_for(world, **tagged, endingOffsets=ends[0]))
    rest = read_batch(batch_options_for(world, **tagged, startingOffsets=ends[0], endingOffsets=ends[1]))
    assert sorted(row.body for row in whole) == sorted(body for body in bodies if int(body) % 2 == 0)
    assert [row.body for row in front + rest] == [row.body for row in whole]
    assert [row.offset for row in front + rest] == [row.offset for row in whole]
    assert [row.offset for row in whole] == [at for at, body in enumerate(bodies) if int(body) % 2 == 0]


def _send_around_an_odd_message(world: World, queue: MessageQueue) -> list[bytes]:
    """Send 210 messages, of which number 20 has a sysFlag that makes brokers lose it; return the bodies that are left.

    The broker also loses the messages after number 20 that it has stored when it tries to add number 20 to the queue.
    """
    for number in range(210):
        flag = SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6 if number == 20 else 0
        tag = "even" if number % 2 == 0 else "odd"
        world.cluster.messages.send(sending(queue, b"%d" % number, {"TAGS": tag}, flag))
    until(lambda: _served(world, queue)[-1:] == [b"209"], "the last message can be pulled")
    bodies = _served(world, queue)
    assert len(bodies) > 150 and b"20" not in bodies
    return bodies


def _served(world: World, queue: MessageQueue) -> list[bytes]:
    """Return the bodies of all messages that pulls find in the queue."""
    bodies: list[bytes] = []
    while records := world.read(queue, len(bodies)):
        bodies += [record.body for record in records]
    return bodies


def two_brokers_outlive_the_absence_of_one(world: World) -> None:
    """Check that while one of two brokers is stopped the other is read, and that later the first is read, too."""
    queues = world.make_topic(1)
    stays, leaves = queues
    with Run(options_for(world, subscribe=stays.topic)) as run:
        for queue in queues:
            world.fill(queue, 3)
        run.read_until(6)
        world.servers.stop(leaves.broker_name)
        try:
            world.cluster.routes.expire(stays.topic)
            world.fill(stays, 2)
            assert [row.queue for row in run.read_until(2)] == [stays] * 2
        finally:
            world.servers.start(leaves.broker_name)
        until(lambda: len(world.route_names(stays.topic)) == 2, "the broker is routed again")
        world.cluster.routes.expire(stays.topic)
        world.fill(leaves, 2)
        assert [(row.queue, row.offset) for row in run.read_until(2)] == [(leaves, 3), (leaves, 4)]


def master_slave_reads_go_on_at_the_slave(world: World) -> None:
    """Check that a stream loses and repeats no message when the master stops between planning and reading."""
    queue = world.make_queue()
    world.fill(queue, 60)
    world.servers.replicate([queue])
    with Run(options_for(world, subscribe=queue.topic, maxOffsetsPerTrigger="40", pullMaxRetries="50")) as run:
        run.plan()
        world.servers.stop(queue.broker_name)
        try:
            rows = run.trigger() or []
            assert [row.offset for row in rows + run.read_until(20)] == list(range(60))
        finally:
            world.servers.start(queue.broker_name)


def expiry_is_loss_that_is_named(world: World) -> None:
    """Check that expired messages fail a query, and that with `failOnDataLoss=false` it goes on at the minimum."""
    queue = world.make_queue()
    world.fill(queue, 10)
    from_0 = json.dumps({queue.topic: {"*": {"*": 0}}})
    with Run(options_for(world, subscribe=queue.topic, startingOffsets=from_0)) as run:
        run.plan()
        minimum = world.servers.expire(queue)
        with pytest.raises(OffsetBeforeEarliest, match=f"offset 0 is gone, the queue starts at {minimum}"):
            run.read()
        lenient = options_for(world, subscribe=queue.topic, failOnDataLoss="false")
        with Run(lenient, run.checkpoint) as other:
            assert [row.offset for row in other.trigger() or ()] == list(range(minimum, 10))
