"""Scenarios of an administrator's requests: topics, groups, statistics, resets and broker settings."""

from __future__ import annotations

import pytest

from pyspark_rocketmq.broker_errors import RequestCodeNotSupported
from pyspark_rocketmq.errors import NoBrokerAvailable, TopicNotFound
from pyspark_rocketmq.model import MessageQueue
from pyspark_rocketmq.wire.bodies import ConsumerData, HeartbeatData, SubscriptionGroupConfig, build_subscription
from tests.flows.world import World, fresh, until


def topic_is_made_and_deleted(world: World) -> None:
    """Check that a deleted topic leaves the name servers, so that a request for its route fails."""
    topic = world.make_topic(2)[0].topic

    world.cluster.admin.delete_topic(topic)

    until(lambda: not world.route_names(topic), "the topic is gone")
    with pytest.raises(TopicNotFound):
        world.cluster.routes.route(topic)


def topic_config_is_told(world: World) -> None:
    """Check that a broker returns the configuration of all its topics and, since 5.0, of a single topic."""
    queue = world.make_topic(3)[0]
    admin = world.cluster.admin

    config = admin.fetch_topic_configs(queue.broker_name)[queue.topic]
    assert (config.read_queue_nums, config.write_queue_nums, config.perm) == (3, 3, 6)

    if world.by_version({"4.9": True, "5": False}):
        with pytest.raises(RequestCodeNotSupported, match=queue.topic):
            admin.fetch_topic_config(queue.topic)
    else:
        assert admin.fetch_topic_config(queue.topic)[queue.broker_name].write_queue_nums == 3


def topic_statistics(world: World) -> None:
    """Check that the statistics of a topic contain the bounds and the last store time of every queue."""
    filled, empty = world.make_topic(2)
    world.fill(filled, 4)

    stats = world.cluster.admin.fetch_topic_stats(filled.topic)

    assert (stats[filled].min_offset, stats[filled].max_offset) == (0, 4)
    assert stats[filled].last_update_timestamp == world.read(filled)[-1].store_timestamp
    assert (stats[empty].max_offset, stats[empty].last_update_timestamp) == (0, 0)


def group_config_is_made_and_told(world: World) -> None:
    """Check that a group's configuration is stored, returned with all others, since 5.0 also alone, and deleted."""
    queue, group = world.make_queue(), fresh("group")
    admin = world.cluster.admin

    admin.create_group(SubscriptionGroupConfig(group_name=group, retry_max_times=3, retry_queue_nums=2))
    config = admin.fetch_group_configs(queue.broker_name)[group]
    assert (config.retry_max_times, config.retry_queue_nums) == (3, 2)

    if world.by_version({"4.9": True, "5": False}):
        with pytest.raises(RequestCodeNotSupported, match=group):
            admin.fetch_group_config(group, queue.broker_name)
    else:
        assert admin.fetch_group_config(group, queue.broker_name).retry_max_times == 3

    admin.delete_group(group, clean_offsets=True)
    assert group not in admin.fetch_group_configs(queue.broker_name)


def progress_of_a_group(world: World) -> None:
    """Check that a group's statistics contain its committed offset and the end of the queue."""
    queue, group = _consumed_queue(world, committed=3)

    stats = world.cluster.admin.fetch_consume_stats(group, queue.topic)

    assert (stats[queue].consumer_offset, stats[queue].broker_offset) == (3, 5)
    assert stats[queue].last_timestamp == world.read(queue, 2)[0].store_timestamp


def groups_and_topics_are_linked_by_commits(world: World) -> None:
    """Check that after a commit a broker returns the group for its topic and, since 5.0, the topic for its group."""
    queue, group = _consumed_queue(world, committed=1)
    admin = world.cluster.admin

    assert group in admin.fetch_groups_of_topic(queue.topic)
    if world.by_version({"4.9": True, "5": False}):
        with pytest.raises(RequestCodeNotSupported):
            admin.fetch_topics_of_group(group)
    else:
        assert queue.topic in admin.fetch_topics_of_group(group)


def time_spans_of_a_group(world: World) -> None:
    """Check the store times of a queue's first and last message, and of the last one that the group consumed."""
    queue, group = _consumed_queue(world, committed=2)
    records = world.read(queue)

    [span] = world.cluster.admin.fetch_time_spans(group, queue.topic)

    assert span.message_queue == queue
    assert (span.min_time_stamp, span.max_time_stamp) == (records[0].store_timestamp, records[-1].store_timestamp)
    assert span.consume_time_stamp == records[1].store_timestamp


def group_is_reset(world: World) -> None:
    """Check that a reset to a time before all messages sets the offset to 0; before 5.0 it fails without a member."""
    queue, group = _consumed_queue(world, committed=4)

    if world.by_version({"4.9": True, "5": False}):
        with pytest.raises(Exception, match=group):
            world.cluster.admin.reset_offsets(group, queue.topic, 0)
    else:
        assert world.cluster.admin.reset_offsets(group, queue.topic, 0) == {queue: 0}


def broker_settings_are_changed(world: World) -> None:
    """Check that a running broker accepts a setting, and that its runtime information contains its version."""
    name, admin = world.make_queue().broker_name, world.cluster.admin
    before = admin.fetch_broker_config(name)["maxTransferCountOnMessageInMemory"]

    admin.update_broker_config(name, {"maxTransferCountOnMessageInMemory": before})

    assert admin.fetch_broker_config(name)["maxTransferCountOnMessageInMemory"] == before
    assert admin.fetch_runtime_info(name)["brokerVersionDesc"] == f"V{world.version.replace('.', '_')}"


def unknown_broker_has_no_settings(world: World) -> None:
    """Check that a request for the settings of an unknown broker fails with an error that lists the known brokers."""
    with pytest.raises(NoBrokerAvailable, match=r"broker-x\b.*\bbroker-a"):
        world.cluster.admin.fetch_broker_config("broker-x")


def _consumed_queue(world: World, committed: int) -> tuple[MessageQueue, str]:
    """Return a queue of five messages, and a group that has committed an offset in it.

    The group has a member for a moment, because brokers return statistics only for groups that have had one.
    """
    queue, group = world.make_queue(), world.make_group()
    groups, address = world.cluster.groups, world.master(queue)
    world.fill(queue, 5)
    consumer = ConsumerData(
        group_name=group,
        consume_type="CONSUME_PASSIVELY",
        message_model="CLUSTERING",
        consume_from_where="CONSUME_FROM_FIRST_OFFSET",
        subscription_data_set=(build_subscription(queue.topic, sub_version=1),),
    )
    groups.heartbeat(address, HeartbeatData(client_id=group, consumer_data_set=(consumer,)))
    until(lambda: world.route_names(f"%RETRY%{group}"), "the retry topic is routed")
    groups.unregister(address, group, consumer_group=group)
    world.cluster.offsets.commit(group, {queue: committed})
    return queue, group
