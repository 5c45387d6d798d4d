"""The first offset of a queue depends on the group's position, the topic and the settings."""

from __future__ import annotations

import pytest

from pyspark_rocketmq.client.settings import ConsumeFrom
from pyspark_rocketmq.client.stores import FirstOffsets, RemoteStore
from pyspark_rocketmq.errors import RocketMQError
from pyspark_rocketmq.model import retry_topic
from pyspark_rocketmq.wire.bodies import SubscriptionGroupConfig, TopicConfig
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from tests.client.fixtures import GROUP, TOPIC, Group, queue

LAST, FIRST, TIME = ConsumeFrom.LAST_OFFSET, ConsumeFrom.FIRST_OFFSET, ConsumeFrom.TIMESTAMP


def _first_offsets(group: Group, consume_from: ConsumeFrom) -> FirstOffsets:
    offsets = group.cluster().offsets
    return FirstOffsets(offsets, RemoteStore(offsets, GROUP), consume_from, consume_timestamp_ms=2_500)


def _fill(group: Group, topic: str, count: int, gone: int) -> None:
    """Store messages with times of 1, 2, 3, ... seconds, and delete the first `gone` of them as retention does."""
    for second in range(1, count + 1):
        group.stub.put(topic, b"x", queue_id=0, store_timestamp=1000 * second)
    group.stub.expire(topic, 0, gone)


@pytest.mark.parametrize(("consume_from", "start"), [(LAST, 4), (FIRST, 0), (TIME, 2)], ids=["last", "first", "time"])
def test_without_a_position_the_settings_count(group: Group, consume_from: ConsumeFrom, start: int) -> None:
    """Without a position the settings decide: a queue is read from its end, from 0, or from a time on."""
    _fill(group, TOPIC, 4, gone=1)

    assert _first_offsets(group, consume_from).find(queue(0)) == start


@pytest.mark.parametrize(("consume_from", "start"), [(LAST, 0), (FIRST, 0), (TIME, 4)], ids=["last", "first", "time"])
def test_retries_are_not_skipped(group: Group, consume_from: ConsumeFrom, start: int) -> None:
    """Without a position a retry topic is read from 0, or with TIMESTAMP from its end."""
    retries = retry_topic(GROUP)
    config = TopicConfig(topic_name=retries, read_queue_nums=1, write_queue_nums=1)
    group.cluster().admin.create_topic(config)
    _fill(group, retries, 4, gone=1)

    assert _first_offsets(group, consume_from).find(queue(0, retries)) == start


@pytest.mark.parametrize("consume_from", list(ConsumeFrom))
def test_a_position_always_wins(group: Group, consume_from: ConsumeFrom) -> None:
    """If the group has a position in a queue, it is read from there, even if the position is 0."""
    _fill(group, TOPIC, 4, gone=1)
    cluster = group.cluster()
    cluster.admin.create_group(SubscriptionGroupConfig(group_name=GROUP))
    cluster.offsets.commit(GROUP, {queue(0): 0})

    assert _first_offsets(group, consume_from).find(queue(0)) == 0


@pytest.mark.parametrize("consume_from", list(ConsumeFrom))
def test_a_young_queue_is_read_from_its_first_message(group: Group, consume_from: ConsumeFrom) -> None:
    """If a queue still has its first message, it is read from 0, because brokers report 0 for unknown groups."""
    _fill(group, TOPIC, 4, gone=0)

    assert _first_offsets(group, consume_from).find(queue(0)) == 0


def test_a_broker_that_does_not_tell_is_an_error(group: Group) -> None:
    """If a broker refuses to report the position, `find` raises its error."""
    group.stub.faults.answer(ResponseCode.NO_PERMISSION, on=RequestCode.QUERY_CONSUMER_OFFSET)
    with pytest.raises(RocketMQError, match="16"):
        _first_offsets(group, LAST).find(queue(0))
