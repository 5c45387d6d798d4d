"""What must hold on every cluster, stub or real, for queries that work as members of their group do.

Each public function of a `World` is a flow.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from tests.flows.world import World, until
from tests.source.driving import Run, options_for


def a_broadcasting_query_keeps_its_positions_in_a_file(world: World) -> None:
    """The next query begins there; brokers are told nothing."""
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
    """Another query that locks, and any orderly consumer, gets a queue when the first query has ended."""
    queue, group = world.make_queue(), world.make_group()
    given = {"subscribe": queue.topic, "consumerGroup": group, "ordering": "queue", "lockQueues": "true"}
    world.fill(queue, 10)
    with Run(options_for(world, **given)) as first, Run(options_for(world, **given, commitOffsets="none")) as second:
        assert [row.offset for row in first.trigger() or ()] == list(range(10))
        assert second.trigger() == []
        assert world.cluster.groups.lock(group, "10.0.0.9@other", [queue]).refused == {queue}
        first.reader.stop()
        assert [row.offset for row in second.read_until(10)] == list(range(10))
    until(lambda: world.cluster.groups.lock(group, "10.0.0.9@other", [queue]).granted, "the lock is free")
