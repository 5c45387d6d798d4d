"""Handle queries for messages by id and by key, and for entries of a consume queue."""

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
)
from pyspark_rocketmq.wire.record import encode_record
from pyspark_rocketmq.wire.value_classes import members

from ..registry import handles
from ..requests import ClientRequest, HandlerResult, Refusal, response
from ..state import Broker
from .topic_admin import NO_REMARK

UNIQUE_KEY_COUNT = 32
"""Maximum number of messages that a query by unique id returns, whatever limit the request has."""
_MAX_ENTRIES = 32


@handles(RequestCode.VIEW_MESSAGE_BY_ID)
def view_message(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Return the message at a physical offset of the commit log."""
    physical = request.header(ViewMessageRequestHeader).offset
    data = broker.store.log.record_at(physical)
    if data is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {physical}")
    return response(body=data)


@handles(RequestCode.QUERY_MESSAGE)
def query_message(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Return a topic's latest messages with a key, oldest first, and no more than the settings allow."""
    header = request.header(QueryMessageRequestHeader)
    most = UNIQUE_KEY_COUNT if header.unique_key_query else max(0, header.max_num)
    count = min(most, broker.settings.max_messages_per_query)
    found = list(
        islice(broker.key_index.find(header.topic, header.key, header.begin_timestamp, header.end_timestamp), count)
    )
    fields = QueryMessageResponseHeader(
        index_last_update_timestamp=found[0].store_timestamp if found else 0,
        index_last_update_phyoffset=broker.store.log.end if found else 0,
    )
    if not found:
        raise Refusal(ResponseCode.QUERY_NOT_FOUND, "can not find message, maybe time range not correct", fields)
    return response(fields=fields, body=b"".join(map(encode_record, reversed(found))))


@members
class QueryConsumeQueueRequestHeader(QueueRequestHeader):
    """Header of a request for entries of a consume queue."""

    index: int
    count: int
    consumer_group: str | None = None


@handles(RequestCode.QUERY_CONSUME_QUEUE)
def query_consume_queue(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Return entries of a consume queue: address, size and tag code of each message."""
    header = request.header(QueryConsumeQueueRequestHeader)
    queue = broker.store.queues.get((header.topic, header.queue_id))
    if queue is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"{header.queue_id}@{header.topic} is not exist!")
    first = max(0, header.index - queue.base)
    entries = [
        {
            "eval": False,
            "physicOffset": queue.physical[index],
            "physicSize": queue.sizes[index],
            "tagsCode": queue.codes[index],
        }
        for index in range(first, min(first + header.count, first + _MAX_ENTRIES, len(queue.physical)))
    ]
    if not entries:
        return response(remark=f"Index {header.index} of {header.queue_id}@{header.topic} is not exist!")
    fields = {"maxQueueIndex": queue.max_offset, "minQueueIndex": queue.min_offset, "queueData": entries}
    return response(body=fastjson.write({**_subscription(broker, header), **fields}), remark=NO_REMARK)


def _subscription(broker: Broker, header: QueryConsumeQueueRequestHeader) -> dict[str, Any]:
    """Return the response's fields about a group's subscription to a topic; no fields if the request names no group."""
    if header.consumer_group is None:
        return {}
    group = broker.consumer_groups.table.get(header.consumer_group)
    subscription = group.subscriptions.get(header.topic) if group else None
    if subscription is None:
        return {"filterData": f"{header.consumer_group}@{header.topic} is not online!"}
    return {"filterData": "null", "subscriptionData": fastjson.parse(encode_body(subscription))}
