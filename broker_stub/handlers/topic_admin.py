"""Handle administrators' requests about topics."""

from __future__ import annotations

from pyspark_rocketmq.wire.bodies import (
    CreateTopicListRequestBody,
    DataVersion,
    TopicConfig,
    TopicConfigSerializeWrapper,
    TopicList,
    decode_body,
    encode_body,
)
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from pyspark_rocketmq.wire.commands import (
    CreateTopicRequestHeader,
    DeleteTopicRequestHeader,
    GetTopicConfigRequestHeader,
)

from ..registry import handles
from ..requests import ClientRequest, HandlerResult, Refusal, response
from ..state import Broker
from ..topic_table import check_name, check_queue_count, illegal_code

NO_REMARK = "not set any response code"
"""Remark that a real broker leaves in some successful responses by mistake."""
_ATTRIBUTES = {
    "message.type": ("UNSPECIFIED", "TRANSACTION", "FIFO", "MIXED", "DELAY", "NORMAL"),
    "queue.type": ("BatchCQ", "SimpleCQ"),
    "cleanup.policy": ("DELETE", "COMPACTION"),
    "reserve.time": (),
}
"""Legal values of each topic attribute; an empty tuple allows any value."""
_FILTER_TYPES = ("SINGLE_TAG", "MULTI_TAG")
_JAVA_REFUSAL = "org.apache.rocketmq.remoting.exception.RemotingCommandException"


@handles(RequestCode.UPDATE_AND_CREATE_TOPIC)
def create_topic(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Create a topic or change its configuration; refuse an illegal name and a system topic."""
    header = request.header(CreateTopicRequestHeader)
    _check_changeable(broker, header.topic)
    check_queue_count(max(header.read_queue_nums, header.write_queue_nums), broker.release)
    if header.topic_filter_type not in _FILTER_TYPES:
        fault = f"topicFilterType = [{header.topic_filter_type}] value invalid"
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"{_JAVA_REFUSAL}: {fault}")
    broker.topics.create(
        TopicConfig(
            topic_name=header.topic,
            read_queue_nums=header.read_queue_nums,
            write_queue_nums=header.write_queue_nums,
            perm=header.perm,
            topic_filter_type=header.topic_filter_type,
            topic_sys_flag=header.topic_sys_flag or 0,
            order=header.order,
            attributes=_apply_attribute_changes(broker.topics.find(header.topic), header.attributes or ""),
        )
    )
    return response(remark=NO_REMARK)


@handles(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST)
def create_topics(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Create or change several topics; if one of them is refused, create none."""
    configs = decode_body(CreateTopicListRequestBody, request.body).topic_config_list
    for config in configs:
        _check_changeable(broker, config.topic_name)
        check_queue_count(max(config.read_queue_nums, config.write_queue_nums), broker.release)
    for config in configs:
        broker.topics.create(config)
    return response(remark=NO_REMARK)


def _check_changeable(broker: Broker, topic: str) -> None:
    check_name(topic, broker.release)
    if broker.topics.is_system(topic):
        raise Refusal(illegal_code(broker.release), f"The topic[{topic}] is conflict with system topic.")


def _apply_attribute_changes(known: TopicConfig | None, changes: str) -> dict[str, str]:
    """Return a topic's attributes after changes such as `+name=value,-name`; raise a `Refusal` for illegal ones."""
    attributes = dict((known and known.attributes) or {})
    for change in filter(None, changes.split(",")):
        sign, name, value = change[0], *change[1:].partition("=")[::2]
        if sign not in "+-":
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"add/alter attribute format is wrong: {change.partition('=')[0]}")
        if sign == "-" and known is None:
            fault = f"only add attribute is supported while creating topic. key: {name}"
            raise Refusal(ResponseCode.SYSTEM_ERROR, fault)
        attributes.pop(name, None)
        if sign == "+":
            attributes[name] = _checked_attribute(name, value)
    return attributes


def _checked_attribute(name: str, value: str) -> str:
    if name not in _ATTRIBUTES:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"unsupported key: {name}")
    if (allowed := _ATTRIBUTES[name]) and value not in allowed:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"value is not in set: [{', '.join(allowed)}]")
    return value


@handles(RequestCode.DELETE_TOPIC_IN_BROKER)
def delete_topic(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Delete a topic with its messages and the offsets of all groups in it."""
    topic = request.header(DeleteTopicRequestHeader).topic
    _check_changeable(broker, topic)
    broker.topics.delete(topic)
    broker.store.remove_topic(topic)
    broker.offsets.forget_topic(topic)
    return response()


@handles(RequestCode.GET_TOPIC_CONFIG)
def get_topic_config(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Return the configuration of one topic."""
    topic = request.header(GetTopicConfigRequestHeader).topic
    config = broker.topics.find(topic)
    if config is None:
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"No topic in this broker. topic: {topic}")
    return response(body=encode_body(config))


@handles(RequestCode.GET_ALL_TOPIC_CONFIG)
def get_all_topic_configs(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Return the configurations of all topics of this broker."""
    table = {config.topic_name: config for config in broker.topics}
    version = DataVersion(counter=broker.topics.version, state_version=0, timestamp=broker.clock.now_ms())
    wrapper = TopicConfigSerializeWrapper(topic_config_table=table, data_version=version)
    return response(fields={} if broker.release.is_5x else None, body=encode_body(wrapper))


@handles(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
def get_system_topics(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Return the names of the broker's system topics."""
    return response(body=encode_body(TopicList(topic_list=tuple(broker.topics.system_names))))
