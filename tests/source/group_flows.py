"""Flows that hold on every cluster, stub or real, for queries that act like members of their group.

Each public function that takes a `World` is a flow.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark_rocketmq.options import ReaderOptions
from tests.flows.world import World, until
from tests.source.driving import Checkpoint, Run, options_for


def a_broadcasting_query_keeps_its_positions_in_a_file(world: World) -> None:
    """Check that a broadcasting query commits to a file, not to brokers, and that the next one starts from the file."""
    queue, group = world.make_queue(), world.make_group()
    world.fill(queue, 10)
    with TemporaryDirectory() as directory:
        given = {"subscribe": queue.topic, "consumerGroup": group, "messageModel": "BROADCASTING"}
        options = options_for(world, **given, localOffsetStoreDir=directory)
        with Run(options, available_now=True) as run:
            assert len(run.drain()) == 10
        world.fill(queue, 5)
        again = options_for(world, **given, localOffsetStoreDir=directory, startingOffsets="group")
        with Run(again, available_now=True) as run:
            assert [row.offset for row in run.drain()] == list(range(10, 15))
        assert len(list(Path(directory).rglob("offsets.json"))) == 1
    assert world.cluster.offsets.fetch_committed(group, [queue]) in ({}, {queue: 0})


def locked_queues_are_nobody_elses(world: World) -> None:
    """Check that no other query and no consumer gets a queue that a query locks, until the query has ended."""
    queue, group = world.make_queue(), world.make_group()
    given = {"subscribe": queue.topic, "consumerGroup": group, "ordering": "queue", "lockQueues": "true"}
    world.fill(queue, 10)
    with Run(options_for(world, **given)) as first, Run(options_for(world, **given, commitOffsets="none")) as second:
        assert [row.offset for row in first.read_until(10)] == list(range(10))
        assert second.trigger() == []
        assert world.cluster.groups.lock(group, "10.0.0.9@other", [queue]).refused == {queue}
        first.reader.stop()
        assert [row.offset for row in second.read_until(10)] == list(range(10))
    until(lambda: world.cluster.groups.lock(group, "10.0.0.9@other", [queue]).granted, "the lock is free")


def a_member_goes_on_where_its_group_stands(world: World) -> None:
    """Check that a member starts at the group's position and commits what it has finished."""
    queue, group = world.make_queue(), world.make_group()
    world.fill(queue, 10)
    world.cluster.offsets.commit(group, {queue: 4})
    options, checkpoint = _shared(world, queue.topic, group), Checkpoint()
    with Run(options, checkpoint) as run:
        assert [row.offset for row in run.read_until(6)] == list(range(4, 10))
        until(
            lambda: not run.trigger() and world.cluster.offsets.fetch_committed(group, [queue]) == {queue: 10}, "done"
        )
    world.fill(queue, 5)
    with Run(options, checkpoint, available_now=True) as run:
        assert [row.offset for row in run.drain()] == list(range(10, 15))
    until(lambda: world.cluster.offsets.fetch_committed(group, [queue]) == {queue: 15}, "the end publishes the rest")


def two_members_divide_the_queues(world: World) -> None:
    """Check that two members read half of the queues each, and that one gets all queues when the other leaves."""
    queues, group = world.make_topic(4), world.make_group()
    options = _shared(world, queues[0].topic, group)
    with Run(options) as stays:
        with Run(options) as leaves:
            until(
                lambda: not stays.trigger() and not leaves.trigger() and _share_sizes(stays, leaves) == [2, 2], "halves"
            )
            for queue in queues:
                world.fill(queue, 5)
            rows = stays.read_until(10) + leaves.read_until(10)
            assert {(row.queue, row.offset) for row in rows} == {(queue, at) for queue in queues for at in range(5)}
            leaves.trigger()
        until(lambda: not stays.trigger() and _share_sizes(stays) == [4], "all queues are back")
        assert world.cluster.offsets.fetch_committed(group, queues) == dict.fromkeys(queues, 5)


def a_reset_moves_a_member(world: World) -> None:
    """Check that a member reads again from the offset to which an administrator resets its group."""
    queue, group = world.make_queue(), world.make_group()
    world.fill(queue, 10)
    with Run(_shared(world, queue.topic, group)) as run:
        run.read_until(10)
        until(
            lambda: not run.trigger() and world.cluster.offsets.fetch_committed(group, [queue]) == {queue: 10}, "done"
        )
        assert world.cluster.admin.reset_offsets(group, queue.topic, 0) == {queue: 0}
        assert [row.offset for row in run.read_until(10)] == list(range(10))
        until(
            lambda: not run.trigger() and world.cluster.offsets.fetch_committed(group, [queue]) == {queue: 10}, "again"
        )


def _shared(world: World, topic: str, group: str) -> ReaderOptions:
    """Return options of a query that is a member of its group."""
    given = {"subscribe": topic, "consumerGroup": group, "groupMembership": "shared", "startingOffsets": "group"}
    return options_for(world, **given, rebalanceInterval="1s")


def _share_sizes(*runs: Run) -> list[int]:
    """Return for each query how many queues of the user's topic its newest offset names."""
    return [sum(len(ids) for ids in _each_topic(run).values()) for run in runs]


def _each_topic(run: Run) -> dict[str, dict[str, int]]:
    """Return the positions of the user's topic in the query's newest offset, by broker and queue id."""
    topics = run.checkpoint.last["next"]
    return next((brokers for topic, brokers in topics.items() if not topic.startswith("%")), {})
