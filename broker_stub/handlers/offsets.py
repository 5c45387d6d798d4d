"""Handle requests about offsets: bounds, searches, commits and resets.

As at a real broker, a request for the bounds of a queue that does not exist is not refused: both bounds are 0.
"""

from __future__ import annotations

from typing import Any

from pyspark_rocketmq.model import MessageQueue
from pyspark_rocketmq.wire import fastjson
from pyspark_rocketmq.wire.bodies import (
    ResetOffsetBody,
    TopicConfig,
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
    ResetConsumerClientOffsetRequestHeader,
    ResetOffsetHeader,
    ResetOffsetRequestHeader,
    SearchOffsetRequestHeader,
    TopicRequestHeader,
    UpdateConsumerOffsetRequestHeader,
)
from pyspark_rocketmq.wire.header import Command
from pyspark_rocketmq.wire.value_classes import members

from ..admin_codes import AdminCode
from ..consume_queue import Boundary
from ..offset_table import offsets_body
from ..registry import handles
from ..requests import ClientRequest, HandlerResult, Refusal, response
from ..state import Broker
from .topic_admin import NO_REMARK


@handles(RequestCode.GET_MAX_OFFSET)
def get_max_offset(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Return the maximum offset of a queue: the one that its next message gets."""
    header = request.header(GetMaxOffsetRequestHeader)
    return _offset(broker.store.max_offset(header.topic, header.queue_id))


@handles(RequestCode.GET_MIN_OFFSET)
def get_min_offset(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Return the minimum offset of a queue: that of its first unexpired message."""
    header = request.header(GetMinOffsetRequestHeader)
    found = _offset(broker.store.min_offset(header.topic, header.queue_id))
    found.remark = "" if broker.release.is_5x else None
    return found


@handles(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP)
def search_offset(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Return the offset at a store time: at 5.x of the first message since then, at 4.9.7 of the nearest message.

    If the request says so, 5.x returns the offset of the last message at or before the time instead.
    """
    header = request.header(SearchOffsetRequestHeader)
    boundary = Boundary.NEAREST
    if broker.release.is_5x:
        boundary = Boundary.UPPER if (header.boundary_type or "").lower() == "upper" else Boundary.LOWER
    return _offset(broker.store.search(header.topic, header.queue_id, header.timestamp, boundary))


@handles(RequestCode.GET_EARLIEST_MSG_STORETIME)
def get_earliest_store_time(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Return the store time of a queue's first unexpired message; -1 if there is none."""
    header = request.header(GetEarliestMsgStoretimeRequestHeader)
    first = broker.store.min_offset(header.topic, header.queue_id)
    time_ms = broker.store.store_time(header.topic, header.queue_id, first)
    return response(fields=GetEarliestMsgStoretimeResponseHeader(timestamp=time_ms))


@handles(RequestCode.QUERY_CONSUMER_OFFSET)
def query_consumer_offset(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Return a group's committed offset in a queue; if it has none, return 0 or refuse the request.

    The answer is 0 if the queue begins at offset 0 and counts as in memory, and at 5.x is not empty. A 5.x request can
    forbid the answer 0.
    """
    header = request.header(QueryConsumerOffsetRequestHeader)
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
    """Return whether a group without a committed offset starts at 0 in a queue.

    It does if no message has expired and the queue counts as in memory; at 5.x the queue must also have a message.
    Releases before 5.1.0 let a group start at 0 in an empty queue, too.
    """
    queue = broker.store.queue(topic, queue_id)
    is_there = queue.min_offset == 0 and (queue.max_offset > 0 or not broker.release.is_5x)
    return is_there and broker.settings.first_message_in_memory


@handles(RequestCode.UPDATE_CONSUMER_OFFSET)
def update_consumer_offset(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Commit a group's offset; 5.x refuses an unknown group or topic."""
    if broker.release.is_5x:
        _require_fields(request, queueId="QueueId", commitOffset="Offset")
    header = request.header(UpdateConsumerOffsetRequestHeader)
    if broker.release.is_5x:
        if header.consumer_group not in broker.group_configs.table:
            remark = f"Group {header.consumer_group} not exist!"
            raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark, {})
        if broker.topics.find(header.topic) is None:
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"Topic {header.topic} not exist!", {})
    broker.offsets.commit(header.consumer_group, header.topic, header.queue_id, header.commit_offset)
    return response(fields={})


def _require_fields(request: ClientRequest, **needed: str) -> None:
    """Raise a `Refusal` if the request lacks one of the fields `needed`: {field: its name in the refusal's text}."""
    fields = request.command.fields or {}
    for name, text in needed.items():
        if name not in fields:
            remark = f"{text} is null, topic is {fields.get('topic')}"
            raise Refusal(ResponseCode.INVALID_PARAMETER, remark, {})


@handles(RequestCode.GET_ALL_CONSUMER_OFFSET)
def get_all_consumer_offsets(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Return the committed offsets of all groups."""
    body = offsets_body(broker.offsets.committed, is_5x=broker.release.is_5x)
    return response(body=fastjson.write(body, bare_integer_keys=True))


@handles(RequestCode.GET_TOPIC_STATS_INFO)
def get_topic_stats(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Return the minimum and maximum offset of every queue of a topic."""
    topic = request.header(GetTopicStatsInfoRequestHeader).topic
    config = broker.topics.find(topic)
    if config is None:
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
    queues = range(max(config.read_queue_nums, config.write_queue_nums))
    table = {MessageQueue(topic, broker.name, queue_id): _bounds(broker, topic, queue_id) for queue_id in queues}
    tps = 0.0 if broker.release.is_5x else None
    return response(body=encode_body(TopicStatsTable(offset_table=table, topic_put_tps=tps)))


def _bounds(broker: Broker, topic: str, queue_id: int) -> TopicOffset:
    end = broker.store.max_offset(topic, queue_id)
    return TopicOffset(
        min_offset=broker.store.min_offset(topic, queue_id),
        max_offset=end,
        last_update_timestamp=max(0, broker.store.store_time(topic, queue_id, end - 1)),
    )


def _offset(offset: int) -> Command:
    return response(fields=OffsetResponseHeader(offset=offset))


# --- changes of a group's offsets ------------------------------------------------------------------------------------


@members
class CloneGroupOffsetRequestHeader(TopicRequestHeader):
    """Header of a request to copy one group's offsets to another group."""

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False


@handles(AdminCode.CLONE_GROUP_OFFSET)
def clone_offsets(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Copy one group's committed offsets to another group, in one topic or in all."""
    header = request.header(CloneGroupOffsetRequestHeader)
    topics = [header.topic] if header.topic else sorted(broker.offsets.topics(header.src_group))
    for topic in topics:
        if broker.topics.find(topic):
            for queue_id, offset in dict(broker.offsets.queues(header.src_group, topic)).items():
                broker.offsets.commit(header.dest_group, topic, queue_id, offset)
    return response()


@handles(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET)
def reset_offset(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Reset a group's offsets in a topic, and return the new offset of each queue.

    5.x changes the broker's table of offsets. 4.9.7, and 5.x with the setting `server_side_reset` off, notify the
    group's members instead.
    """
    header = request.header(ResetOffsetRequestHeader)
    if broker.release.is_5x and broker.settings.server_side_reset:
        moved = _reset_here(broker, header)
        return response(body=encode_body(ResetOffsetBody(offset_table=moved)))
    moved = _reset_at_members(broker, header)
    return response(body=encode_body(ResetOffsetBody(offset_table=moved)), remark=NO_REMARK)


def _reset_here(broker: Broker, header: ResetOffsetHeader) -> dict[MessageQueue, int]:
    if not broker.is_master:
        raise Refusal(ResponseCode.SYSTEM_ERROR, "Can not reset offset in slave broker")
    config = broker.topics.find(header.topic)
    if config is None:
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"Topic {header.topic} does not exist")
    if header.group not in broker.group_configs.table:
        raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {header.group} does not exist")
    moved = _target_offsets(broker, header, config)
    if not moved:
        raise Refusal(ResponseCode.SYSTEM_ERROR, "No queues to reset.")
    for queue_id, offset in moved.items():
        broker.offsets.reset(header.group, header.topic, queue_id, offset)
    return {MessageQueue(header.topic, broker.name, queue_id): offset for queue_id, offset in moved.items()}


def _target_offsets(broker: Broker, header: ResetOffsetHeader, config: TopicConfig) -> dict[int, int]:
    one_queue = -1 if header.queue_id is None else header.queue_id
    if one_queue < 0:
        every = range(config.read_queue_nums)
        return {queue_id: _offset_at(broker, header.topic, queue_id, header.timestamp) for queue_id in every}
    if header.offset is None or header.offset == -1:
        return {one_queue: _offset_at(broker, header.topic, one_queue, header.timestamp)}
    low = broker.store.min_offset(header.topic, one_queue)
    high = broker.store.max_offset(header.topic, one_queue)
    if not low <= header.offset <= high + 1:
        remark = f"Target offset {header.offset} not in consume queue range [{low}-{high}]"
        raise Refusal(ResponseCode.SYSTEM_ERROR, remark)
    return {one_queue: header.offset}


def _offset_at(broker: Broker, topic: str, queue_id: int, time_ms: int) -> int:
    """Return the offset that a search by store time finds in a queue; the maximum offset for a negative time."""
    if time_ms < 0:
        return broker.store.max_offset(topic, queue_id)
    boundary = Boundary.LOWER if broker.release.is_5x else Boundary.NEAREST
    return broker.store.search(topic, queue_id, time_ms, boundary)


def _reset_at_members(broker: Broker, header: ResetOffsetHeader) -> dict[MessageQueue, int]:
    config = broker.topics.find(header.topic)
    if config is None:
        remark = f"[reset-offset] reset offset failed, no topic in this broker. topic={header.topic}"
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, remark)
    moved = {}
    for queue_id in range(config.write_queue_nums):
        committed = broker.offsets.query(header.group, header.topic, queue_id)
        if committed is None:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"THe consumer group <{header.group}> not exist")
        target = _offset_at(broker, header.topic, queue_id, header.timestamp)
        offset = target if header.is_force else min(target, committed)
        moved[MessageQueue(header.topic, broker.name, queue_id)] = offset
    _notify_members(broker, header, moved)
    return moved


def _notify_members(broker: Broker, header: ResetOffsetHeader, moved: dict[MessageQueue, int]) -> None:
    group = broker.consumer_groups.table.get(header.group)
    if group is None:
        remark = (
            f"Consumer not online, so can not reset offset, Group: {header.group} "
            f"Topic: {header.topic} Timestamp: {header.timestamp}"
        )
        raise Refusal(ResponseCode.CONSUMER_NOT_ONLINE, remark)
    notification = ResetConsumerClientOffsetRequestHeader(
        topic=header.topic,
        group=header.group,
        timestamp=header.timestamp,
        is_force=False,
        queue_id=-1 if broker.release.is_5x else None,
    )
    body = encode_body(ResetOffsetBody(offset_table=moved))
    for channel in list(group.members):
        channel.send_oneway(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, notification, body)


@handles(RequestCode.GET_ALL_DELAY_OFFSET)
def get_delay_offsets(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Return, by delay level, the offset of the next message to deliver in the level's queue."""
    table: dict[str, Any] = {"dataVersion": _data_version(broker), "offsetTable": broker.delayed_messages.delivered}
    return response(body=fastjson.write(table, bare_integer_keys=True))


def _data_version(broker: Broker) -> dict[str, int]:
    version = {"counter": 0, "timestamp": broker.clock.now_ms()}
    return {**version, "stateVersion": 0} if broker.release.is_5x else version
