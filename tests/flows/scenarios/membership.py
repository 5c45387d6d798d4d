"""Scenarios of group members: heartbeats, subscriptions and queue locks."""

from __future__ import annotations

import pytest

from pyspark_rocketmq.broker_errors import SubscriptionParseFailed
from pyspark_rocketmq.model import MessageQueue
from pyspark_rocketmq.wire.bodies import ConsumerData, HeartbeatData, ProducerData, build_subscription
from tests.flows.world import World, fresh

ME, OTHER = "127.0.0.1@1", "127.0.0.1@2"


def heartbeat_makes_a_member(world: World) -> None:
    """Check that a broker lists a member and its subscription from its first heartbeat until it unregisters."""
    queue, group = world.make_queue(), fresh("group")
    groups, address = world.cluster.groups, world.master(queue)

    response = groups.heartbeat(address, _consumer(group, queue, "red"))

    assert response.broker_version == world.by_version({"4.9.7": 407, "5.3.3": 479, "5.5.0": response.broker_version})
    assert response.knows_version_2 == world.by_version({"4": False, "5": True})
    assert groups.fetch_members(group, queue.topic) == (ME,)
    [connection] = groups.fetch_consumer_connections(group, queue.topic).values()
    assert connection.subscription_table[queue.topic].sub_string == "red"

    groups.unregister(address, ME, consumer_group=group)
    assert groups.fetch_members(group, queue.topic) == ()
    assert groups.fetch_consumer_connections(group, queue.topic) == {}


def group_without_members(world: World) -> None:
    """Check that a request for the members of a group without any returns none and raises nothing."""
    queue, group = world.make_queue(), fresh("group")

    assert world.cluster.groups.fetch_members(group, queue.topic) == ()
    assert world.cluster.groups.fetch_consumer_connections(group, queue.topic) == {}


def producers_are_known(world: World) -> None:
    """Check that a broker lists a producer from its first heartbeat until it unregisters."""
    queue, group = world.make_queue(), fresh("group")
    groups, address = world.cluster.groups, world.master(queue)

    groups.heartbeat(address, HeartbeatData(client_id=ME, producer_data_set=(ProducerData(group_name=group),)))
    connections = groups.fetch_producer_connections(group, queue.topic)
    groups.unregister(address, ME, producer_group=group)

    assert [connection.client_id for connection in connections[queue.broker_name].connection_set] == [ME]
    assert groups.fetch_producer_connections(group, queue.topic) == {}


def subscriptions_are_checked(world: World) -> None:
    """Check that a broker accepts a valid SQL92 expression and refuses an invalid one."""
    queue, group = world.make_queue(), fresh("group")
    good = build_subscription(queue.topic, "a > 1", expression_type="SQL92")
    bad = build_subscription(queue.topic, "a >", expression_type="SQL92")

    world.cluster.groups.check_subscription(group, ME, good)
    with pytest.raises(SubscriptionParseFailed):
        world.cluster.groups.check_subscription(group, ME, bad)


def lock_is_held_by_one(world: World) -> None:
    """Check that a locked queue is refused to others until its holder unlocks it; the holder may lock it again."""
    queue, group = world.make_queue(), fresh("group")
    groups, wanted = world.cluster.groups, frozenset([queue])

    assert groups.lock(group, ME, [queue]).granted == wanted
    assert groups.lock(group, ME, [queue]).granted == wanted, "renewing is granted"
    refusal = groups.lock(group, OTHER, [queue])
    assert (refusal.granted, refusal.refused, refusal.unknown) == (frozenset(), wanted, {})

    groups.unlock(group, OTHER, [queue])
    assert groups.lock(group, OTHER, [queue]).refused == wanted, "only the holder gives up"
    groups.unlock(group, ME, [queue])
    assert groups.lock(group, OTHER, [queue]).granted == wanted


def locks_are_granted_queue_by_queue(world: World) -> None:
    """Check that a lock request grants free queues and refuses locked ones; other groups' locks do not matter."""
    first, second = world.make_topic(2)
    group, groups = fresh("group"), world.cluster.groups
    groups.lock(group, ME, [first])

    locked = groups.lock(group, OTHER, [first, second])

    assert (locked.granted, locked.refused) == (frozenset([second]), frozenset([first]))
    assert groups.lock(fresh("group"), OTHER, [first, second]).granted == {first, second}


def _consumer(group: str, queue: MessageQueue, expression: str = "*") -> HeartbeatData:
    consumer = ConsumerData(
        group_name=group,
        consume_type="CONSUME_PASSIVELY",
        message_model="CLUSTERING",
        consume_from_where="CONSUME_FROM_FIRST_OFFSET",
        subscription_data_set=(build_subscription(queue.topic, expression, sub_version=1),),
    )
    return HeartbeatData(client_id=ME, consumer_data_set=(consumer,))
