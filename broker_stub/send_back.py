"""Store messages again that their consumer sends back.

Such a message goes to the group's retry topic, with a delay, or after the last retry to the group's dead-letter topic.
There are two ways: the consumer names the message's address in the log (`send_back`), or sends it as a new message to
the retry topic (`redirect`), as orderly consumers do after their last retry.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark_rocketmq.model import RETRY_PREFIX, dead_letter_topic, retry_topic
from pyspark_rocketmq.wire.bodies import SubscriptionGroupConfig
from pyspark_rocketmq.wire.codes import ResponseCode
from pyspark_rocketmq.wire.commands import ConsumerSendMsgBackRequestHeader
from pyspark_rocketmq.wire.record import Record

from .delayed_messages import DELAY
from .requests import Refusal
from .state import Broker
from .store import InnerMessage
from .topic_table import WRITABLE, random_queue

FIRST_RETRY_LEVEL = 3
MAX_TIMES_SINCE_VERSION = 121
"""First client version (3.4.9) that sends the maximum of retries; for older clients the group's maximum applies."""

RETRY_TOPIC, ORIGIN_MESSAGE_ID, WAIT = "RETRY_TOPIC", "ORIGIN_MESSAGE_ID", "WAIT"


def send_back(broker: Broker, header: ConsumerSendMsgBackRequestHeader, client_version: int) -> None:
    """Store a message of the log again, in the group's retry topic or as a dead letter.

    Do nothing if the group has no retry queues. Raise a `Refusal` if the group, message or permission is missing.
    """
    config = _find_group(broker, header.group)
    if not broker.permission & WRITABLE:
        remark = f"the broker[{broker.address.host}] sending message is forbidden"
        raise Refusal(ResponseCode.NO_PERMISSION, remark)
    if config.retry_queue_nums <= 0:
        return
    topic = broker.topics.find_or_create(retry_topic(header.group), config.retry_queue_nums)
    if not topic.perm & WRITABLE:
        raise Refusal(ResponseCode.NO_PERMISSION, f"the topic[{topic.topic_name}] sending message is forbidden")
    record = broker.store.message_at(header.offset)
    if record is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {header.offset}")
    max_times = _max_times(config, header.max_reconsume_times, client_version)
    broker.accept(_retry_message(broker, record, config, header.delay_level, max_times))


def _retry_message(
    broker: Broker, record: Record, config: SubscriptionGroupConfig, delay_level: int, max_times: int
) -> InnerMessage:
    message = InnerMessage.of_record(record)
    message.properties.setdefault(RETRY_TOPIC, record.topic)
    message.properties.setdefault(ORIGIN_MESSAGE_ID, record.offset_message_id)
    message.properties[WAIT] = "false"
    message.reconsume_times += 1
    if record.reconsume_times >= max_times or delay_level < 0:
        message.properties[DELAY] = "0"
        return _as_dead_letter(broker, message, config.group_name)
    message.properties[DELAY] = str(delay_level or FIRST_RETRY_LEVEL + record.reconsume_times)
    queue_id = random_queue(config.retry_queue_nums)
    return replace(message, topic=retry_topic(config.group_name), queue_id=queue_id)


def redirect(broker: Broker, message: InnerMessage, max_times: int | None, client_version: int) -> InnerMessage:
    """Return the message as a dead letter if it goes to a retry topic and has no retry left, else unchanged."""
    if not message.topic.startswith(RETRY_PREFIX):
        return message
    config = _find_group(broker, message.topic.removeprefix(RETRY_PREFIX))
    limit = _max_times(config, max_times, client_version)
    if not _is_exhausted(broker, config.group_name, message.reconsume_times, limit):
        return message
    if broker.release.is_5x:
        message.properties[DELAY] = "-1"
    return _as_dead_letter(broker, message, config.group_name)


def _is_exhausted(broker: Broker, group: str, times: int, limit: int) -> bool:
    """Return whether a message has had all its retries.

    At 5.x it has if a client holds queue locks of the group, because orderly consumers retry messages themselves."""
    if not broker.release.is_5x:
        return times >= limit
    return times > limit or bool(broker.locks.owners(group))


def _as_dead_letter(broker: Broker, message: InnerMessage, group: str) -> InnerMessage:
    topic = broker.topics.find_or_create(dead_letter_topic(group), 1)
    return replace(message, topic=topic.topic_name, queue_id=0)


def _find_group(broker: Broker, group: str) -> SubscriptionGroupConfig:
    config = broker.group_configs.find(group)
    if config is None:
        remark = f"subscription group not exist, {group} \nSee {broker.release.help_page} for further details."
        raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
    return config


def _max_times(config: SubscriptionGroupConfig, requested: int | None, client_version: int) -> int:
    if requested is None or client_version < MAX_TIMES_SINCE_VERSION:
        return config.retry_max_times
    return requested
