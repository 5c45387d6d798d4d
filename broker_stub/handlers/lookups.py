"""How is one message found by its id, and how are several found by a key?"""

from __future__ import annotations

from itertools import islice

from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from pyspark_rocketmq.wire.commands import (
    QueryMessageRequestHeader,
    QueryMessageResponseHeader,
    ViewMessageRequestHeader,
)
from pyspark_rocketmq.wire.record import encode_record

from ..registry import Answer, Call, Refusal, answer, handles
from ..state import Broker

UNIQUE_KEY_COUNT = 32
"""How many messages a question for a unique id is answered with at most, whatever it asks for."""


@handles(RequestCode.VIEW_MESSAGE_BY_ID)
def view_message(broker: Broker, call: Call) -> Answer:
    """The message at an address of the log."""
    physical = call.header(ViewMessageRequestHeader).offset
    data = broker.store.log.record_at(physical)
    if data is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {physical}")
    return answer(body=data)


@handles(RequestCode.QUERY_MESSAGE)
def query_message(broker: Broker, call: Call) -> Answer:
    """The messages with a key."""
    header = call.header(QueryMessageRequestHeader)
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
