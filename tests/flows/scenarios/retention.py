"""What is left to a reader when the oldest messages are gone?"""

from __future__ import annotations

from pyspark_rocketmq.pull.outcome import PullStatus
from tests.flows.reading import offsets_of, read_all, whole
from tests.flows.world import World


def pull_below_the_start_is_sent_on(world: World) -> None:
    """Where retention has taken the oldest messages, the first one left is named."""
    queue = world.make_queue()
    world.fill(queue, 20)
    minimum = world.servers.expire(queue)

    outcome = world.pull(queue, minimum - 1)

    assert (outcome.status, outcome.next_offset) == (PullStatus.OFFSET_MOVED, minimum)
    assert outcome.min_offset == minimum > 0
    assert world.cluster.offsets.fetch_min([queue]) == {queue: minimum}


def expired_messages_are_a_loss(world: World) -> None:
    """The policy hears what is gone; reading goes on where the queue begins now."""
    queue = world.make_queue()
    world.fill(queue, 20)
    minimum = world.servers.expire(queue)
    [end] = world.cluster.offsets.fetch_max([queue]).values()

    reading = read_all(world.cluster, [whole(queue, end)])

    assert offsets_of(reading) == {queue: list(range(minimum, end))}
    assert reading.losses == [("begins later", queue, 0, minimum)]
