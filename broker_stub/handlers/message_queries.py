"""How is one message found by its id, and how are several found by a key?"""

from __future__ import annotations

from itertools import islice
from typing import Any

from pyspark_rocketmq.wire import fastjson
from pyspark_rocketmq.wire.bodies import encode_body
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from pyspark_rocketmq.wire.commands import (
    QueryMessageRequestHeader,
    QueryMessageResponseHeader,
    QueueRequestHeader,
    ViewMessageRequestHeader,
    header,
)
from pyspark_rocketmq.wire.record import encode_record

from ..registry import handles
from ..requests import ClientRequest, HandlerResult, Refusal, answer
from ..state import Broker
from .topic_admin import NO_REMARK

UNIQUE_KEY_COUNT = 32
"""How many messages a question for a unique id is answered with at most, whatever it asks for."""
_MAX_ENTRIES = 32


@handles(RequestCode.VIEW_MESSAGE_BY_ID)
def view_message(broker: Broker, request: ClientRequest) -> HandlerResult:
    """The message at an address of the log."""
    physical = request.header(ViewMessageRequestHeader).offset
    data = broker.store.log.record_at(physical)
    if data is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {physical}")
    return answer(body=data)


@handles(RequestCode.QUERY_MESSAGE)
def query_message(broker: Broker, request: ClientRequest) -> HandlerResult:
    """The messages with a key."""
    header = request.header(QueryMessageRequestHeader)
    count = UNIQUE_KEY_COUNT if header.unique_key_query else header.max_num
    found = list(
        islice(broker.keys.find(header.topic, header.key, header.begin_timestamp, header.end_timestamp), count)
    )
    told = QueryMessageResponseHeader(
        index_last_update_timestamp=found[0].store_timestamp if found else 0,
        index_last_update_phyoffset=broker.store.log.end if found else 0,
    )
    if not found:
        raise Refusal(ResponseCode.QUERY_NOT_FOUND, "can not find message, maybe time range not correct", told)
    return answer(fields=told, body=b"".join(map(encode_record, reversed(found))))


@header
class QueryConsumeQueueRequestHeader(QueueRequestHeader):
    """What does a consume queue hold?"""

    index: int
    count: int
    consumer_group: str | None = None


@handles(RequestCode.QUERY_CONSUME_QUEUE)
def query_consume_queue(broker: Broker, request: ClientRequest) -> HandlerResult:
    """A few entries of a consume queue, as the broker keeps them."""
    wish = request.header(QueryConsumeQueueRequestHeader)
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
        for index in range(first, min(first + wish.count, first + _MAX_ENTRIES, len(queue.physical)))
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
