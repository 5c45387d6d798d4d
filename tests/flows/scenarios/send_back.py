"""Scenarios of messages that a group sends back: they are delivered again or become dead letters."""

from __future__ import annotations

from pyspark_rocketmq.model import MessageQueue, dead_letter_topic, retry_topic
from pyspark_rocketmq.wire.record import Record
from tests.flows.world import World, until


def message_sent_back_comes_again(world: World) -> None:
    """Check that a message sent back reaches the retry topic, with its count of attempts, its topic and its id."""
    queue, group = world.make_queue(), world.make_group()
    origin = _send_one(world, queue)

    world.cluster.messages.send_back(
        group, queue, origin.physical_offset, delay_level=1, origin_message_id=origin.offset_message_id
    )

    [again] = world.await_messages(_only_queue(world, retry_topic(group), queue))
    assert (again.body, again.reconsume_times) == (b"again", 1)
    assert again.properties["RETRY_TOPIC"] == queue.topic
    assert again.properties["ORIGIN_MESSAGE_ID"] == origin.offset_message_id


def message_given_up_rests(world: World) -> None:
    """Check that a message sent back with a negative delay level becomes a dead letter at once."""
    queue, group = world.make_queue(), world.make_group()
    origin = _send_one(world, queue)

    world.cluster.messages.send_back(group, queue, origin.physical_offset, delay_level=-1)

    topic = dead_letter_topic(group)
    until(lambda: world.route_names(topic), "the dead letters are routed")
    resting = MessageQueue(topic, queue.broker_name, 0)
    until(lambda: world.cluster.offsets.fetch_max([resting]) == {resting: 1}, "the dead letter is stored")


def message_tried_too_often_rests(world: World) -> None:
    """Check that a message becomes a dead letter when it is sent back more often than the client allows."""
    queue, group = world.make_queue(), world.make_group()
    origin = _send_one(world, queue)

    world.cluster.messages.send_back(group, queue, origin.physical_offset, max_reconsume_times=0)

    resting = MessageQueue(dead_letter_topic(group), queue.broker_name, 0)
    until(lambda: world.route_names(resting.topic), "the dead letters are routed")
    until(lambda: world.cluster.offsets.fetch_max([resting]) == {resting: 1}, "the dead letter is stored")


def _send_one(world: World, queue: MessageQueue) -> Record:
    world.send(queue, b"again")
    return world.read(queue)[0]


def _only_queue(world: World, topic: str, like: MessageQueue) -> MessageQueue:
    until(lambda: world.route_names(topic), f"{topic} is routed")
    return MessageQueue(topic, like.broker_name, 0)
