"""What else do administrators' tools ask a broker?"""

from __future__ import annotations

from functools import partial
from typing import Any

from pyspark_rocketmq.model import RETRY_PREFIX, MessageQueue
from pyspark_rocketmq.wire import fastjson
from pyspark_rocketmq.wire.bodies import SetMessageRequestModeRequestBody, decode_body, encode_body
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from pyspark_rocketmq.wire.commands import QueueRequestHeader, RequestHeader, TopicRequestHeader
from pyspark_rocketmq.wire.header import Command
from pyspark_rocketmq.wire.members import members

from ..codes import AdminCode
from ..registry import HELD, Answer, Call, Refusal, answer, handles
from ..state import Broker
from .admin import CONSUMER_TIMEOUT_MS
from .topics import NO_REMARK

MOST_ENTRIES = 32
_STATS = frozenset("TOPIC_PUT_NUMS TOPIC_PUT_SIZE GROUP_GET_NUMS GROUP_GET_SIZE SNDBCK_PUT_NUMS".split())
_NO_RATE = {"avgpt": 0.0, "sum": 0, "tps": 0.0}


@handles(AdminCode.CLEAN_EXPIRED_CONSUMEQUEUE, AdminCode.CLEAN_UNUSED_TOPIC, AdminCode.DELETE_EXPIRED_COMMITLOG)
def clean_up(broker: Broker, call: Call) -> Answer:
    """Accepted, though there is nothing to clean: the stub deletes what it is told to, when it is told."""
    return answer()


# --- groups ----------------------------------------------------------------------------------------------------------


@members
class CloneGroupOffsetRequestHeader(TopicRequestHeader):
    """Give one group the offsets of another."""

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False


@handles(AdminCode.CLONE_GROUP_OFFSET)
def clone_offsets(broker: Broker, call: Call) -> Answer:
    """Give one group the offsets of another, in one topic or in all."""
    wish = call.header(CloneGroupOffsetRequestHeader)
    topics = [wish.topic] if wish.topic else sorted(broker.offsets.topics(wish.src_group))
    for topic in topics:
        if broker.topics.find(topic):
            for queue_id, offset in dict(broker.offsets.queues(wish.src_group, topic)).items():
                broker.offsets.commit(wish.dest_group, topic, queue_id, offset)
    return answer()


@members
class QuerySubscriptionRequestHeader(TopicRequestHeader):
    """What does a group want of a topic?"""

    group: str
    topic: str


@handles(AdminCode.QUERY_SUBSCRIPTION_BY_CONSUMER)
def query_subscription(broker: Broker, call: Call) -> Answer:
    """What the group's last heartbeat said about the topic; nothing about it if no member is there."""
    wish = call.header(QuerySubscriptionRequestHeader)
    members = broker.consumer_groups.table.get(wish.group)
    subscription = members.subscriptions.get(wish.topic) if members else None
    told: dict[str, Any] = {"group": wish.group, "topic": wish.topic}
    if subscription:
        told["subscriptionData"] = fastjson.parse(encode_body(subscription))
    return answer(body=fastjson.write(told))


@members
class GetConsumeStatsInBrokerHeader(RequestHeader):
    """How far is every group, in all topics or in ordered ones?"""

    is_order: bool = False


@handles(AdminCode.GET_BROKER_CONSUME_STATS)
def get_all_consume_stats(broker: Broker, call: Call) -> Answer:
    """How far every group is in every topic; rates are not measured."""
    ordered = call.header(GetConsumeStatsInBrokerHeader).is_order
    groups = {group: _stats_of_group(broker, group, ordered=ordered) for group in broker.group_configs.table}
    lags = [
        row["brokerOffset"] - row["consumerOffset"]
        for stats in groups.values()
        for topic in stats
        for row in topic["offsetTable"].values()
    ]
    told: dict[str, Any] = {
        "brokerAddr": str(broker.address),
        "consumeStatsList": [{group: stats} for group, stats in groups.items()],
        "totalDiff": sum(lags),
    }
    return answer(body=fastjson.write({**told, "totalInflightDiff": 0} if broker.release.is_5x else told))


def _stats_of_group(broker: Broker, group: str, *, ordered: bool) -> list[dict[str, Any]]:
    return [
        {"consumeTps": 0.0, "offsetTable": _progress(broker, group, topic)}
        for topic in sorted(broker.offsets.topics(group))
        if (config := broker.topics.find(topic)) and (config.order or not ordered)
    ]


def _progress(broker: Broker, group: str, topic: str) -> dict[MessageQueue, dict[str, int]]:
    """All queues that are written to: one the group has not begun counts from 0."""
    config = broker.topics.find(topic)
    return {
        MessageQueue(topic, broker.name, queue_id): {
            "brokerOffset": broker.store.max_offset(topic, queue_id),
            "consumerOffset": offset,
            "lastTimestamp": max(0, broker.store.store_time(topic, queue_id, offset - 1)),
        }
        for queue_id in range(config.write_queue_nums if config else 0)
        for offset in (broker.offsets.query(group, topic, queue_id) or 0,)
    }


@members
class GetConsumerStatusRequestHeader(RequestHeader):
    """How far are the members of a group with a topic?"""

    topic: str
    group: str
    client_addr: str | None = None


@handles(AdminCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS)
def get_consumer_status(broker: Broker, call: Call) -> Answer:
    """Ask every member of a group how far it is; those that keep silent are left out."""
    wish = call.header(GetConsumerStatusRequestHeader)
    group = broker.consumer_groups.table.get(wish.group)
    if group is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"No Any Consumer online in the consumer group: [{wish.group}]")
    members = list(group.members.values())
    tables: dict[str, Any] = {}

    def collect(client_id: str, reply: Command | None) -> None:
        tables[client_id] = _queue_offsets(reply)
        if len(tables) == len({member.client_id for member in members}):
            told = {"consumerTable": tables, "messageQueueTable": {}}
            call.reply(answer(body=fastjson.write(told), remark=NO_REMARK))

    for member in members:
        code, on_reply = RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, partial(collect, member.client_id)
        member.channel.ask(code, wish, b"", on_reply, CONSUMER_TIMEOUT_MS)
    return HELD


def _queue_offsets(reply: Command | None) -> dict[MessageQueue, int]:
    parsed = fastjson.parse(reply.body) if reply and reply.body else {}
    return {fastjson.parse_queue(key): offset for key, offset in (parsed.get("messageQueueTable") or {}).items()}


@handles(AdminCode.GET_ALL_PRODUCER_INFO)
def get_all_producers(broker: Broker, call: Call) -> Answer:
    """Who produces, by group."""
    table = {
        group: [
            {
                "clientId": member.client_id,
                "language": None if member.language is None else member.language.name,
                "lastUpdateTimestamp": broker.clock.now_ms() - int(broker.clock.elapsed_ms() - member.seen_ms),
                "remoteIP": f"/{channel.remote}",
                "version": member.version,
            }
            for channel, member in members.items()
        ]
        for group, members in broker.producer_groups.table.items()
    }
    return answer(body=fastjson.write({"data": table}))


@handles(RequestCode.SET_MESSAGE_REQUEST_MODE)
def set_request_mode(broker: Broker, call: Call) -> Answer:
    """Say how a group is to read a topic; it is remembered, but the stub knows no popping."""
    wish = decode_body(SetMessageRequestModeRequestBody, call.body)
    if wish.topic.startswith(RETRY_PREFIX):
        raise Refusal(ResponseCode.NO_PERMISSION, "retry topic is not allowed to set mode")
    broker.request_modes[wish.topic, wish.consumer_group] = wish
    return answer()


@handles(AdminCode.GET_ALL_MESSAGE_REQUEST_MODE)
def get_request_modes(broker: Broker, call: Call) -> Answer:
    """How groups are to read."""
    table: dict[str, dict[str, Any]] = {}
    for (topic, group), mode in broker.request_modes.items():
        row = {
            "consumerGroup": group,
            "mode": mode.mode,
            "popShareQueueNum": mode.pop_share_queue_num,
            "topic": topic,
        }
        table.setdefault(topic, {})[group] = row
    return answer(body=fastjson.write({"messageRequestModeMap": table}))


# --- queues and figures ----------------------------------------------------------------------------------------------


@members
class QueryConsumeQueueRequestHeader(QueueRequestHeader):
    """What does a consume queue hold?"""

    index: int
    count: int
    consumer_group: str | None = None


@handles(RequestCode.QUERY_CONSUME_QUEUE)
def query_consume_queue(broker: Broker, call: Call) -> Answer:
    """A few entries of a consume queue, as the broker keeps them."""
    wish = call.header(QueryConsumeQueueRequestHeader)
    queue = broker.store.queues.get((wish.topic, wish.queue_id))
    if queue is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"{wish.queue_id}@{wish.topic} is not exist!")
    first = max(0, wish.index - queue.base)
    entries = [
        {
            "eval": False,
            "physicOffset": queue.physical[index],
            "physicSize": queue.sizes[index],
            "tagsCode": queue.codes[index],
        }
        for index in range(first, min(first + wish.count, first + MOST_ENTRIES, len(queue.physical)))
    ]
    if not entries:
        return answer(remark=f"Index {wish.index} of {wish.queue_id}@{wish.topic} is not exist!")
    told = {"maxQueueIndex": queue.max_offset, "minQueueIndex": queue.min_offset, "queueData": entries}
    return answer(body=fastjson.write({**_subscription(broker, wish), **told}), remark=NO_REMARK)


def _subscription(broker: Broker, wish: QueryConsumeQueueRequestHeader) -> dict[str, Any]:
    """What the group asked about wants of the topic."""
    if wish.consumer_group is None:
        return {}
    group = broker.consumer_groups.table.get(wish.consumer_group)
    subscription = group.subscriptions.get(wish.topic) if group else None
    if subscription is None:
        return {"filterData": f"{wish.consumer_group}@{wish.topic} is not online!"}
    return {"filterData": "null", "subscriptionData": fastjson.parse(encode_body(subscription))}


@members
class ViewBrokerStatsDataRequestHeader(RequestHeader):
    """How busy is a topic or a group?"""

    stats_name: str
    stats_key: str


@handles(AdminCode.VIEW_BROKER_STATS_DATA)
def view_stats(broker: Broker, call: Call) -> Answer:
    """How busy a topic or a group is; rates are not measured."""
    wish = call.header(ViewBrokerStatsDataRequestHeader)
    if wish.stats_name not in _STATS or not broker.topics.find(wish.stats_key.partition("@")[0]):
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"The stats <{wish.stats_name}> <{wish.stats_key}> not exist")
    return answer(body=fastjson.write({"statsDay": _NO_RATE, "statsHour": _NO_RATE, "statsMinute": _NO_RATE}))
