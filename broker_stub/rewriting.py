"""How does a stored message become a new one?

Nothing is ever changed in the log: a delayed, retried or committed message is stored again. On its way through a topic
of the broker's own, its properties REAL_TOPIC and REAL_QID remember where it belongs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark_rocketmq.wire.record import Record

from .store import InnerMessage, Store

REAL_TOPIC, REAL_QUEUE_ID = "REAL_TOPIC", "REAL_QID"


def record_at(store: Store, topic: str, queue_id: int, offset: int) -> Record | None:
    """The message at an offset of a queue; None if it is not there, or not any more."""
    queue = store.queue(topic, queue_id)
    is_there = queue.min_offset <= offset < queue.max_offset
    return store.message_at(queue.physical[offset - queue.base]) if is_there else None


def message_of(record: Record) -> InnerMessage:
    """A stored message, as a new one."""
    return InnerMessage(
        topic=record.topic,
        queue_id=record.queue_id,
        body=record.body,
        properties=record.properties,
        flag=record.flag,
        sys_flag=record.sys_flag,
        born_timestamp=record.born_timestamp,
        born_host=record.born_host,
        reconsume_times=record.reconsume_times,
    )


def set_aside(message: InnerMessage, topic: str, queue_id: int) -> InnerMessage:
    """The message in a topic of the broker; its properties, which both share, remember its own."""
    message.properties.update({REAL_TOPIC: message.topic, REAL_QUEUE_ID: str(message.queue_id)})
    return replace(message, topic=topic, queue_id=queue_id, unstored=frozenset())


def release(record: Record, more: Mapping[str, str]) -> InnerMessage:
    """A message that was set aside, where it belongs, with more properties."""
    message = message_of(record)
    message.topic, message.queue_id = message.properties[REAL_TOPIC], int(message.properties[REAL_QUEUE_ID])
    message.properties.update(more)
    return message
