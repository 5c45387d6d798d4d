"""Scenarios of queues whose oldest messages have expired; real brokers may delete more of them during a scenario."""

from __future__ import annotations

from pyspark_rocketmq.model import MessageQueue
from pyspark_rocketmq.pull.port import PullStatus
from tests.flows.reading import offsets_of, read_all, whole
from tests.flows.world import World, until


def pull_below_the_start_is_sent_on(world: World) -> None:
    """Check that a pull below the minimum offset returns OFFSET_MOVED, with the minimum as next offset."""
    queue, minimum = _expired_queue(world)

    outcome = world.pull(queue, minimum - 1)

    assert outcome.status is PullStatus.OFFSET_MOVED
    assert outcome.next_offset == outcome.min_offset >= minimum > 0
    assert _minimum(world, queue) >= minimum


def expired_messages_are_a_loss(world: World) -> None:
    """Check that the loss policy gets the expired offsets, and that every message from the minimum on is read."""
    queue, minimum = _expired_queue(world)
    [end] = world.cluster.offsets.fetch_max([queue]).values()

    reading = read_all(world.cluster, [whole(queue, end)])
    found = offsets_of(reading)[queue]

    assert found == list(range(found[0], end))
    assert reading.losses[0][:3] == ("begins later", queue, 0)
    assert reading.losses[-1][3] == found[0] >= minimum


def _expired_queue(world: World) -> tuple[MessageQueue, int]:
    """Expire the oldest messages of a queue; return the queue and its minimum offset.

    A real broker deletes its log first and raises the minimum a second later. In between, pulls from the old minimum
    return the first messages that are left, and their responses do not differ from a gap. So wait until the queue's
    first message is at the minimum.
    """
    queue = world.make_queue()
    world.fill(queue, 20)
    world.servers.expire(queue)
    until(lambda: _first_offset(world, queue) == _minimum(world, queue), "the queue begins at its minimum")
    return queue, _minimum(world, queue)


def _minimum(world: World, queue: MessageQueue) -> int:
    return world.cluster.offsets.fetch_min([queue])[queue]


def _first_offset(world: World, queue: MessageQueue) -> int | None:
    records = world.read(queue, _minimum(world, queue))
    return records[0].queue_offset if records else None
