"""How are questions about offsets answered? Those about a queue's bounds never ask whether the queue exists."""

from __future__ import annotations

from pyspark_rocketmq.model import MessageQueue
from pyspark_rocketmq.wire import fastjson
from pyspark_rocketmq.wire.bodies import (
    TopicOffset,
    TopicStatsTable,
    encode_body,
)
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from pyspark_rocketmq.wire.commands import (
    GetEarliestMsgStoretimeRequestHeader,
    GetEarliestMsgStoretimeResponseHeader,
    GetMaxOffsetRequestHeader,
    GetMinOffsetRequestHeader,
    GetTopicStatsInfoRequestHeader,
    OffsetResponseHeader,
    QueryConsumerOffsetRequestHeader,
    SearchOffsetRequestHeader,
    UpdateConsumerOffsetRequestHeader,
)
from pyspark_rocketmq.wire.header import Command

from ..offsets import describe_offsets
from ..queues import Boundary
from ..registry import Answer, Call, Refusal, answer, handles
from ..state import Broker


@handles(RequestCode.GET_MAX_OFFSET)
def get_max_offset(broker: Broker, call: Call) -> Answer:
    """The offset of the next message."""
    header = call.header(GetMaxOffsetRequestHeader)
    return _offset(broker.store.max_offset(header.topic, header.queue_id))


@handles(RequestCode.GET_MIN_OFFSET)
def get_min_offset(broker: Broker, call: Call) -> Answer:
    """The first offset still there."""
    header = call.header(GetMinOffsetRequestHeader)
    found = _offset(broker.store.min_offset(header.topic, header.queue_id))
    found.remark = "" if broker.release.is_5x else None
    return found


@handles(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP)
def search_offset(broker: Broker, call: Call) -> Answer:
    """The offset that belongs to a store time; old brokers know no boundary and take the nearest message."""
    header = call.header(SearchOffsetRequestHeader)
    boundary = Boundary.NEAREST
    if broker.release.is_5x:
        boundary = Boundary.UPPER if (header.boundary_type or "").lower() == "upper" else Boundary.LOWER
    return _offset(broker.store.search(header.topic, header.queue_id, header.timestamp, boundary))


@handles(RequestCode.GET_EARLIEST_MSG_STORETIME)
def get_earliest_store_time(broker: Broker, call: Call) -> Answer:
    """When the first message still there was stored."""
    header = call.header(GetEarliestMsgStoretimeRequestHeader)
    first = broker.store.min_offset(header.topic, header.queue_id)
    time_ms = broker.store.store_time(header.topic, header.queue_id, first)
    return answer(fields=GetEarliestMsgStoretimeResponseHeader(timestamp=time_ms))


@handles(RequestCode.QUERY_CONSUMER_OFFSET)
def query_consumer_offset(broker: Broker, call: Call) -> Answer:
    """Where a group stands; a new group stands at 0 where the first message is still there."""
    header = call.header(QueryConsumerOffsetRequestHeader)
    stored = broker.offsets.query(header.consumer_group, header.topic, header.queue_id)
    if stored is not None:
        return _offset(stored)
    if broker.release.is_5x and header.set_zero_if_not_found is False:
        raise Refusal(ResponseCode.QUERY_NOT_FOUND, "Not found, do not set to zero, maybe this group boot first", {})
    if _starts_at_zero(broker, header.topic, header.queue_id):
        return _offset(0)
    remark = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"
    raise Refusal(ResponseCode.QUERY_NOT_FOUND, remark, {})


def _starts_at_zero(broker: Broker, topic: str, queue_id: int) -> bool:
    """Whether a new group is put to the beginning: the queue's first message is still there, and in memory.

    Releases before 5.1.0 only asked whether it was known to lie on disk, so an empty queue passed, too.
    """
    queue = broker.store.queue(topic, queue_id)
    is_there = queue.min_offset == 0 and (queue.max_offset > 0 or not broker.release.is_5x)
    return is_there and broker.settings.first_message_in_memory


@handles(RequestCode.UPDATE_CONSUMER_OFFSET)
def update_consumer_offset(broker: Broker, call: Call) -> Answer:
    """Store where a group stands; 5.x checks that group and topic exist."""
    if broker.release.is_5x:
        _check_given(call, queueId="QueueId", commitOffset="Offset")
    header = call.header(UpdateConsumerOffsetRequestHeader)
    if broker.release.is_5x:
        if header.consumer_group not in broker.group_configs.table:
            remark = f"Group {header.consumer_group} not exist!"
            raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark, {})
        if broker.topics.find(header.topic) is None:
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"Topic {header.topic} not exist!", {})
    broker.offsets.commit(header.consumer_group, header.topic, header.queue_id, header.commit_offset)
    return answer(fields={})


def _check_given(call: Call, **needed: str) -> None:
    """Refuse a commit that lacks a number, by the name it goes by in the refusal."""
    fields = call.command.fields or {}
    for name, text in needed.items():
        if name not in fields:
            remark = f"{text} is null, topic is {fields.get('topic')}"
            raise Refusal(ResponseCode.INVALID_PARAMETER, remark, {})


@handles(RequestCode.GET_ALL_CONSUMER_OFFSET)
def get_all_consumer_offsets(broker: Broker, call: Call) -> Answer:
    """All that was ever committed."""
    told = describe_offsets(broker.offsets.committed, is_5x=broker.release.is_5x)
    return answer(body=fastjson.write(told, bare_integer_keys=True))


@handles(RequestCode.GET_TOPIC_STATS_INFO)
def get_topic_stats(broker: Broker, call: Call) -> Answer:
    """The bounds of all queues of a topic."""
    topic = call.header(GetTopicStatsInfoRequestHeader).topic
    config = broker.topics.find(topic)
    if config is None:
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
    queues = range(max(config.read_queue_nums, config.write_queue_nums))
    table = {MessageQueue(topic, broker.name, queue_id): _bounds(broker, topic, queue_id) for queue_id in queues}
    tps = 0.0 if broker.release.is_5x else None
    return answer(body=encode_body(TopicStatsTable(offset_table=table, topic_put_tps=tps)))


def _bounds(broker: Broker, topic: str, queue_id: int) -> TopicOffset:
    end = broker.store.max_offset(topic, queue_id)
    return TopicOffset(
        min_offset=broker.store.min_offset(topic, queue_id),
        max_offset=end,
        last_update_timestamp=max(0, broker.store.store_time(topic, queue_id, end - 1)),
    )


def _offset(offset: int) -> Command:
    return answer(fields=OffsetResponseHeader(offset=offset))
