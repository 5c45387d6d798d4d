"""How are topics made, changed, deleted and described?"""

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

from ..registry import Answer, Call, Refusal, answer, handles
from ..state import Broker
from ..topics import check_name, illegal_code, is_system_topic

NO_REMARK = "not set any response code"
"""What real brokers forget to take out of the answer to 17."""
_KNOWN_ATTRIBUTES = frozenset({"queue.type", "cleanup.policy", "message.type", "reserve.time"})


@handles(RequestCode.UPDATE_AND_CREATE_TOPIC)
def create_topic(broker: Broker, call: Call) -> Answer:
    """Make or change a topic."""
    header = call.header(CreateTopicRequestHeader)
    _check_free(broker, header.topic)
    known = broker.topics.find(header.topic)
    broker.topics.create(
        TopicConfig(
            topic_name=header.topic,
            read_queue_nums=header.read_queue_nums,
            write_queue_nums=header.write_queue_nums,
            perm=header.perm,
            topic_filter_type=header.topic_filter_type,
            topic_sys_flag=header.topic_sys_flag or 0,
            order=header.order,
            attributes=_alter((known and known.attributes) or {}, header.attributes or ""),
        )
    )
    return answer(remark=NO_REMARK)


@handles(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST)
def create_topics(broker: Broker, call: Call) -> Answer:
    """Make or change several topics, or none if one of them may not be."""
    configs = decode_body(CreateTopicListRequestBody, call.body).topic_config_list
    for config in configs:
        _check_free(broker, config.topic_name)
    for config in configs:
        broker.topics.create(config)
    return answer()


def _check_free(broker: Broker, topic: str) -> None:
    check_name(topic, broker.release)
    if is_system_topic(topic):
        raise Refusal(illegal_code(broker.release), f"The topic[{topic}] is conflict with system topic.")


def _alter(attributes: dict[str, str], changes: str) -> dict[str, str]:
    """Carry out `+name=value,-name`."""
    altered = dict(attributes)
    for change in filter(None, changes.split(",")):
        name, _, value = change[1:].partition("=")
        if change[0] not in "+-" or name not in _KNOWN_ATTRIBUTES:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"unsupported key: {name}")
        altered.pop(name, None)
        if change[0] == "+":
            altered[name] = value
    return altered


@handles(RequestCode.DELETE_TOPIC_IN_BROKER)
def delete_topic(broker: Broker, call: Call) -> Answer:
    """Delete a topic with its messages and what groups stored about it."""
    topic = call.header(DeleteTopicRequestHeader).topic
    check_name(topic, broker.release)
    if is_system_topic(topic):
        raise Refusal(illegal_code(broker.release), f"The topic[{topic}] is conflict with system topic.")
    broker.topics.delete(topic)
    broker.store.remove_topic(topic)
    broker.offsets.forget_topic(topic)
    return answer()


@handles(RequestCode.GET_TOPIC_CONFIG)
def get_topic_config(broker: Broker, call: Call) -> Answer:
    """One topic's configuration."""
    topic = call.header(GetTopicConfigRequestHeader).topic
    config = broker.topics.find(topic)
    if config is None:
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"No topic in this broker. topic: {topic}")
    return answer(body=encode_body(config))


@handles(RequestCode.GET_ALL_TOPIC_CONFIG)
def get_all_topic_configs(broker: Broker, call: Call) -> Answer:
    """All topics' configurations."""
    table = {config.topic_name: config for config in broker.topics}
    version = DataVersion(counter=broker.topics.version, state_version=0, timestamp=broker.clock.now_ms())
    return answer(body=encode_body(TopicConfigSerializeWrapper(topic_config_table=table, data_version=version)))


@handles(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
def get_system_topics(broker: Broker, call: Call) -> Answer:
    """The topics that belong to the broker itself."""
    names = tuple(config.topic_name for config in broker.topics if is_system_topic(config.topic_name))
    return answer(body=encode_body(TopicList(topic_list=names)))
