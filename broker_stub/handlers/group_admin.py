"""Handle administrators' requests about groups: their configuration, members and progress."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from pyspark_rocketmq.model import RETRY_PREFIX, MessageQueue
from pyspark_rocketmq.wire import fastjson
from pyspark_rocketmq.wire.bodies import (
    Body,
    Connection,
    ConsumerConnection,
    ConsumeStats,
    DataVersion,
    GroupList,
    OffsetWrapper,
    ProducerConnection,
    QueryConsumeTimeSpanBody,
    QueueTimeSpan,
    SetMessageRequestModeRequestBody,
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
    TopicConfig,
    TopicList,
    decode_body,
    encode_body,
)
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from pyspark_rocketmq.wire.commands import (
    DeleteSubscriptionGroupRequestHeader,
    GetConsumerConnectionListRequestHeader,
    GetConsumeStatsRequestHeader,
    GetProducerConnectionListRequestHeader,
    GetSubscriptionGroupConfigRequestHeader,
    QueryConsumeTimeSpanRequestHeader,
    QueryTopicConsumeByWhoRequestHeader,
    QueryTopicsByConsumerRequestHeader,
    RequestHeader,
    TopicRequestHeader,
)
from pyspark_rocketmq.wire.value_classes import members

from ..admin_codes import AdminCode
from ..group_tables import Member
from ..registry import handles
from ..requests import ClientRequest, HandlerResult, Refusal, response
from ..state import Broker
from ..topic_table import check_queue_count


@members
class SubscriptionGroupList(Body):
    """Body of a request that contains several groups' configurations."""

    group_config_list: tuple[SubscriptionGroupConfig, ...]


# --- configuration ---------------------------------------------------------------------------------------------------


@handles(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP)
def update_group(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Create or change a consumer group; its name is not checked."""
    _update(broker, decode_body(SubscriptionGroupConfig, request.body))
    return response()


@handles(AdminCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST)
def update_groups(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Create or change several groups; stop at the first refused one and keep those before it."""
    for config in decode_body(SubscriptionGroupList, request.body).group_config_list:
        _update(broker, config)
    return response()


def _update(broker: Broker, config: SubscriptionGroupConfig) -> None:
    if broker.release.is_5x:
        for change in config.attributes or {}:
            raise Refusal(ResponseCode.SYSTEM_ERROR, _attribute_fault(broker, config.group_name, change))
    check_queue_count(config.retry_queue_nums, broker.release)
    broker.group_configs.update(config)


def _attribute_fault(broker: Broker, group: str, change: str) -> str:
    """Return the remark with which 5.3.3 refuses a change of a group's attribute; it refuses every such change."""
    sign, name = change[:1], change[1:]
    if sign == "+":
        return f"java.lang.RuntimeException: unsupported key: {name}"
    if group not in broker.group_configs.table:
        return f"java.lang.RuntimeException: only add attribute is supported while creating topic. key: {name}"
    return f"java.lang.RuntimeException: attempt to delete a nonexistent key: {name}"


@handles(RequestCode.DELETE_SUBSCRIPTIONGROUP)
def delete_group(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Delete a group's configuration, and its offsets if the request says so."""
    header = request.header(DeleteSubscriptionGroupRequestHeader)
    broker.group_configs.delete(header.group_name)
    if header.clean_offset:
        broker.offsets.forget_group(header.group_name)
    return response()


@handles(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG)
def get_group(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Return a group's configuration; create a missing group first if settings and name allow it, else refuse."""
    config = broker.group_configs.find(request.header(GetSubscriptionGroupConfigRequestHeader).group)
    if config is None:
        raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "No group in this broker")
    return response(body=encode_body(config))


@handles(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
def get_all_groups(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Return the configurations of all groups of this broker."""
    is_5x = broker.release.is_5x
    version = DataVersion(
        counter=broker.group_configs.change_count,
        state_version=0 if is_5x else None,
        timestamp=broker.clock.now_ms(),
    )
    wrapper = SubscriptionGroupWrapper(
        subscription_group_table=broker.group_configs.table,
        forbidden_table={} if is_5x else None,
        data_version=version,
    )
    return response(body=encode_body(wrapper))


@handles(RequestCode.SET_MESSAGE_REQUEST_MODE)
def set_request_mode(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Accept a group's pull or pop mode for a topic without effect, because the stub cannot pop over remoting."""
    mode = decode_body(SetMessageRequestModeRequestBody, request.body)
    if mode.topic.startswith(RETRY_PREFIX):
        raise Refusal(ResponseCode.NO_PERMISSION, "retry topic is not allowed to set mode")
    return response()


# --- members ---------------------------------------------------------------------------------------------------------


@handles(RequestCode.GET_CONSUMER_CONNECTION_LIST)
def get_consumer_connections(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Return the members and subscriptions of a consumer group."""
    name = request.header(GetConsumerConnectionListRequestHeader).consumer_group
    group = broker.consumer_groups.table.get(name)
    if group is None:
        raise Refusal(ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{name}] not online")
    body = ConsumerConnection(
        connection_set=tuple(map(_connection, group.members.values())),
        subscription_table=group.subscriptions,
        consume_type=group.consume_type,
        message_model=group.message_model,
        consume_from_where=group.consume_from_where,
    )
    return response(body=encode_body(body))


@handles(RequestCode.GET_PRODUCER_CONNECTION_LIST)
def get_producer_connections(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Return the members of a producer group."""
    name = request.header(GetProducerConnectionListRequestHeader).producer_group
    members = broker.producer_groups.table.get(name)
    if members is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"the producer group[{name}] not exist")
    return response(body=encode_body(ProducerConnection(connection_set=tuple(map(_connection, members.values())))))


def _connection(member: Member) -> Connection:
    return Connection(
        client_id=member.client_id,
        client_addr=str(member.channel.remote),
        language=member.language.name if member.language is not None else None,
        version=member.version,
    )


@handles(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO)
def query_groups_of_topic(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Return the groups with offsets in a topic, at 4.9.7 also the groups that subscribe to it.

    5.3.3 adds the topic's own name as if it were a group, once a heartbeat has named the topic.
    """
    topic = request.header(QueryTopicConsumeByWhoRequestHeader).topic
    groups = broker.offsets.groups(topic)
    if not broker.release.is_5x:
        groups |= {group.name for group in broker.consumer_groups.table.values() if topic in group.subscriptions}
    elif topic in broker.consumer_groups.named_topics:
        groups.add(topic)
    return response(body=encode_body(GroupList(group_list=tuple(groups))))


@handles(RequestCode.QUERY_TOPICS_BY_CONSUMER)
def query_topics_of_group(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Return the topics in which a group has offsets."""
    topics = broker.offsets.topics(request.header(QueryTopicsByConsumerRequestHeader).group)
    return response(body=encode_body(TopicList(broker_addr=str(broker.address), topic_list=tuple(topics))))


@handles(AdminCode.GET_ALL_PRODUCER_INFO)
def get_all_producers(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Return the members of all producer groups."""
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
    return response(body=fastjson.write({"data": table}))


@members
class QuerySubscriptionRequestHeader(TopicRequestHeader):
    """Header of a request for a group's subscription to a topic."""

    group: str
    topic: str


@handles(AdminCode.QUERY_SUBSCRIPTION_BY_CONSUMER)
def query_subscription(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Return a group's subscription to a topic; none if the group has no members or does not subscribe to the topic."""
    header = request.header(QuerySubscriptionRequestHeader)
    members = broker.consumer_groups.table.get(header.group)
    subscription = members.subscriptions.get(header.topic) if members else None
    body: dict[str, Any] = {"group": header.group, "topic": header.topic}
    if subscription:
        body["subscriptionData"] = fastjson.parse(encode_body(subscription))
    return response(body=fastjson.write(body))


# --- progress --------------------------------------------------------------------------------------------------------


@handles(RequestCode.GET_CONSUME_STATS)
def get_consume_stats(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Return, for each queue, the group's committed offset and the queue's maximum offset; rates are constants."""
    header = request.header(GetConsumeStatsRequestHeader)
    table = {
        queue: _progress(broker, header.consumer_group, queue)
        for topic in _topics_to_count(broker, header)
        for queue in _read_queues(broker, topic)
    }
    return response(body=encode_body(ConsumeStats(offset_table=table)))


def _topics_to_count(broker: Broker, header: GetConsumeStatsRequestHeader) -> list[str]:
    """Return the topics that a request names, or else all topics in which its group has committed offsets.

    A `topic_list` in the request is returned unchanged. Otherwise topics to which the group does not subscribe are left
    out, if it has connected members.
    """
    if header.topic_list:
        return [topic for topic in header.topic_list.split(";") if topic]
    topics = [header.topic] if header.topic else sorted(broker.offsets.topics(header.consumer_group))
    subscribed = broker.consumer_groups.topics_of(header.consumer_group)
    return [topic for topic in topics if not subscribed or topic in subscribed]


def _read_queues(broker: Broker, topic: str) -> Iterator[MessageQueue]:
    config = broker.topics.find(topic)
    for queue_id in range(config.read_queue_nums if config else 0):
        yield MessageQueue(topic, broker.name, queue_id)


def _progress(broker: Broker, group: str, queue: MessageQueue) -> OffsetWrapper:
    topic, _, queue_id = queue
    committed = broker.offsets.query(group, topic, queue_id) or 0
    pulled = broker.offsets.pull_offset_of(group, topic, queue_id) or 0
    return OffsetWrapper(
        broker_offset=broker.store.max_offset(topic, queue_id),
        consumer_offset=committed,
        pull_offset=max(committed, pulled) if broker.release.is_5x else None,
        last_timestamp=max(0, broker.store.store_time(topic, queue_id, committed - 1)),
    )


@members
class GetConsumeStatsInBrokerHeader(RequestHeader):
    """Header of a request for the progress of all groups, in all topics or in ordered topics only."""

    is_order: bool = False


@handles(AdminCode.GET_BROKER_CONSUME_STATS)
def get_all_consume_stats(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Return each group's offsets and lag in its topics; rates are constants."""
    ordered = request.header(GetConsumeStatsInBrokerHeader).is_order
    groups = {group: _stats_of_group(broker, group, ordered=ordered) for group in broker.group_configs.table}
    lags = [
        row["brokerOffset"] - row["consumerOffset"]
        for stats in groups.values()
        for topic in stats
        for row in topic["offsetTable"].values()
    ]
    body: dict[str, Any] = {
        "brokerAddr": str(broker.address),
        "consumeStatsList": [{group: stats} for group, stats in groups.items()],
        "totalDiff": sum(lags),
    }
    return response(body=fastjson.write({**body, "totalInflightDiff": 0} if broker.release.is_5x else body))


def _stats_of_group(broker: Broker, group: str, *, ordered: bool) -> list[dict[str, Any]]:
    return [
        {"consumeTps": 0.0, "offsetTable": _written_progress(broker, group, config)}
        for topic in sorted(broker.offsets.topics(group))
        if (config := broker.topics.find(topic)) and (config.order or not ordered)
    ]


def _written_progress(broker: Broker, group: str, config: TopicConfig) -> dict[MessageQueue, dict[str, Any]]:
    """Return a group's offset and the maximum offset of each writable queue of a topic; an uncommitted offset is 0."""
    queues = (MessageQueue(config.topic_name, broker.name, queue_id) for queue_id in range(config.write_queue_nums))
    return {queue: fastjson.parse(encode_body(_progress(broker, group, queue))) for queue in queues}


@handles(RequestCode.QUERY_CONSUME_TIME_SPAN)
def query_time_span(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Return, for each queue, the store times of its first, its last and the group's last consumed message."""
    header = request.header(QueryConsumeTimeSpanRequestHeader)
    config = broker.topics.find(header.topic)
    if config is None:
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"topic[{header.topic}] not exist")
    spans = tuple(_time_span(broker, header, queue_id) for queue_id in range(config.write_queue_nums))
    return response(body=encode_body(QueryConsumeTimeSpanBody(consume_time_span_set=spans)))


def _time_span(broker: Broker, header: QueryConsumeTimeSpanRequestHeader, queue_id: int) -> QueueTimeSpan:
    store, topic = broker.store, header.topic
    end = store.max_offset(topic, queue_id)
    first_ms = store.store_time(topic, queue_id, store.min_offset(topic, queue_id))
    last_ms = store.store_time(topic, queue_id, end - 1)
    committed = broker.offsets.query(header.group, topic, queue_id)
    place = -1 if committed is None else committed
    place_ms = store.store_time(topic, queue_id, place - 1) if place > 0 else first_ms
    delay_ms = broker.clock.now_ms() - store.store_time(topic, queue_id, place) if place < end else 0
    return QueueTimeSpan(
        message_queue=MessageQueue(topic, broker.name, queue_id),
        min_time_stamp=first_ms,
        max_time_stamp=last_ms,
        consume_time_stamp=place_ms,
        delay_time=delay_ms,
        min_time_stamp_str=_as_text(first_ms),
        max_time_stamp_str=_as_text(last_ms),
        consume_time_stamp_str=_as_text(place_ms),
    )


def _as_text(time_ms: int) -> str:
    """Return a time in milliseconds as Java's tools print it, in local time."""
    return f"{datetime.fromtimestamp(time_ms // 1000):%Y-%m-%d#%H:%M:%S}:{time_ms % 1000:03}"
