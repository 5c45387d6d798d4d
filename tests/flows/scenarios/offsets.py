"""Scenarios of offsets: bounds, searches by time, commits."""

from __future__ import annotations

import pytest

from pyspark_rocketmq.broker_errors import SubscriptionGroupNotExist
from pyspark_rocketmq.cluster.queue_offsets import UPPER
from pyspark_rocketmq.model import MessageQueue, QueueBounds
from tests.flows.world import World, fresh, now_ms, until


def bounds_of_all_queues(world: World) -> None:
    """Check that the bounds of filled and empty queues are returned; the maximum is the offset of the next message."""
    queues = world.make_topic(3)
    world.fill(queues[1], 7)

    bounds = world.cluster.offsets.fetch_bounds(queues)

    assert bounds == {queues[0]: QueueBounds(0, 0), queues[1]: QueueBounds(0, 7), queues[2]: QueueBounds(0, 0)}
    assert world.cluster.offsets.fetch_max(queues) == dict(zip(queues, (0, 7, 0), strict=True))
    assert world.cluster.offsets.fetch_min([queues[1]]) == {queues[1]: 0}


def first_message_since_a_time(world: World) -> None:
    """Check that the first message at or after a time is found, also where brokers return only a near one."""
    queue, times = _queue_with_times(world)

    def first_since(time_ms: int) -> int:
        return world.cluster.offsets.fetch_first_since({queue: time_ms})[queue]

    for offset, time_ms in enumerate(times):
        assert first_since(time_ms) == offset
        assert first_since(time_ms + 1) == offset + 1
    assert first_since(times[0] - 60_000) == 0
    assert first_since(times[-1] + 60_000) == len(times)


def messages_around_a_time(world: World) -> None:
    """Check a search for a time between two messages: since 5.1.1 the caller chooses one, earlier the broker."""
    queue, times = _queue_with_times(world)
    between = {queue: times[1] + 1}

    lower = world.cluster.offsets.search(between)[queue]
    upper = world.cluster.offsets.search(between, UPPER)[queue]

    assert lower in world.by_version({"4.9": {1, 2}, "5": {2}})
    assert upper in world.by_version({"4.9": {1, 2}, "5": {1}})


def _queue_with_times(world: World) -> tuple[MessageQueue, list[int]]:
    """Store three messages at least two milliseconds apart; return their queue and store times."""
    queue = world.make_queue()
    return queue, [_send_and_wait(world, queue) for _ in range(3)]


def _send_and_wait(world: World, queue: MessageQueue) -> int:
    world.send(queue)
    stored_at = world.read(queue)[-1].store_timestamp
    until(lambda: now_ms() > stored_at + 3, "the clock moves")
    return stored_at


def store_time_of_the_first_message(world: World) -> None:
    """Check that the store time of a queue's first message is returned, and nothing for an empty queue."""
    empty, filled = world.make_topic(2)
    world.fill(filled, 2)

    times = world.cluster.offsets.fetch_earliest_times([empty, filled])

    assert times == {filled: world.read(filled)[0].store_timestamp}


def nothing_committed_yet(world: World) -> None:
    """Check the committed offset of a new group: 0 with `zero_if_young`; otherwise 0 before 5.0, none since then."""
    queue, group = world.make_queue(), fresh("group")
    world.fill(queue, 3)
    offsets = world.cluster.offsets

    assert offsets.fetch_committed(group, [queue], zero_if_young=True) == {queue: 0}
    assert offsets.fetch_committed(group, [queue]) == world.by_version({"4.9": {queue: 0}, "5": {}})


def commits_are_kept(world: World) -> None:
    """Check that committed offsets are stored for each queue, also when a commit goes back."""
    queues, group = world.make_topic(2), world.make_group()
    world.fill(queues[0], 9)
    offsets = world.cluster.offsets

    offsets.commit(group, {queues[0]: 8, queues[1]: 0})
    assert offsets.fetch_committed(group, queues) == {queues[0]: 8, queues[1]: 0}

    offsets.commit(group, {queues[0]: 3})
    assert offsets.fetch_committed(group, queues) == {queues[0]: 3, queues[1]: 0}


def commit_of_an_unknown_group(world: World) -> None:
    """Check that brokers accept a commit of an unknown group before 5.3, and refuse it by name since then."""
    queue, group = world.make_queue(), fresh("group")
    offsets = world.cluster.offsets

    if world.by_version({"4.9": True, "5": False}):
        offsets.commit(group, {queue: 0})
        assert offsets.fetch_committed(group, [queue]) == {queue: 0}
    else:
        with pytest.raises(SubscriptionGroupNotExist) as caught:
            offsets.commit(group, {queue: 0})
        assert caught.value.where["group"] == group and caught.value.advice


def oneway_commits_are_kept(world: World) -> None:
    """Check that an offset is stored that is committed by a one-way request."""
    queue, group = world.make_queue(), world.make_group()
    world.fill(queue, 5)

    world.cluster.offsets.commit_oneway(group, {queue: 4})

    until(lambda: world.cluster.offsets.fetch_committed(group, [queue]) == {queue: 4}, "the commit counts")


def groups_stand_apart(world: World) -> None:
    """Check that two groups have separate committed offsets in the same queue."""
    queue, one, other = world.make_queue(), world.make_group(), world.make_group()
    world.fill(queue, 5)

    world.cluster.offsets.commit(one, {queue: 2})
    world.cluster.offsets.commit(other, {queue: 4})

    assert world.cluster.offsets.fetch_committed(one, [queue]) == {queue: 2}
    assert world.cluster.offsets.fetch_committed(other, [queue]) == {queue: 4}
