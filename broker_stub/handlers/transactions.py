"""Handle the ends of transactions, and recalls of timer messages."""

from __future__ import annotations

from pyspark_rocketmq.errors import DecodeError
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode, TransactionState
from pyspark_rocketmq.wire.commands import (
    EndTransactionRequestHeader,
    RecallMessageRequestHeader,
    RequestHeader,
)
from pyspark_rocketmq.wire.message_id import decode_offset_message_id
from pyspark_rocketmq.wire.value_classes import members

from ..admin_codes import AdminCode
from ..delayed_messages import RECALLED_KEY, RecallHandle, decode_recall_handle, recall_key
from ..registry import handles
from ..requests import ClientRequest, HandlerResult, Refusal, response
from ..state import REGION, Broker
from ..store import InnerMessage
from .topic_admin import NO_REMARK

_REGION = {"MSG_REGION": REGION}


@handles(RequestCode.END_TRANSACTION)
def end_transaction(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Commit or roll back a half message; send no response if the request does neither."""
    if not broker.is_master:
        raise Refusal(ResponseCode.SLAVE_NOT_AVAILABLE, "half messages are ended at the master")
    end = request.header(EndTransactionRequestHeader)
    if end.commit_or_rollback == TransactionState.COMMIT:
        broker.half_messages.commit(end)
        return response()
    if end.commit_or_rollback == TransactionState.ROLLBACK:
        broker.half_messages.roll_back(end)
        return response(remark=NO_REMARK)
    return None


@members
class ResumeCheckHalfMessageRequestHeader(RequestHeader):
    """Header of a request to check a half message again that the broker has given up checking."""

    msg_id: str
    topic: str | None = None


@handles(AdminCode.RESUME_CHECK_HALF_MESSAGE)
def resume_check(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Make the broker check a half message again after it gave up, by storing a copy in the half topic.

    Ignore a message without the properties of a half message (REAL_TOPIC, REAL_QID); refuse if no message has this id.
    """
    try:
        place = decode_offset_message_id(request.header(ResumeCheckHalfMessageRequestHeader).msg_id)
    except DecodeError as error:
        raise Refusal(ResponseCode.SYSTEM_ERROR, error.what) from None
    broker.half_messages.resume_check(place.physical_offset)
    return response()


@handles(RequestCode.RECALL_MESSAGE)
def recall_message(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Recall a timer message, by storing another message that stops its delivery."""
    header = request.header(RecallMessageRequestHeader)
    handle = _checked_handle(broker, header)
    now = broker.clock.now_ms()
    properties = {
        "TAGS": "_RECALL_TAG_",
        RECALLED_KEY: recall_key(handle.topic, handle.unique_id),
        "UNIQ_KEY": handle.unique_id,
        "TIMER_DELIVER_MS": str(handle.timestamp_ms),
        "BORN_TIMESTAMP": str(now),
        "PGROUP": header.producer_group or "",
    }
    broker.accept(InnerMessage(handle.topic, 0, b"0", properties, born_timestamp=now, born_host=request.channel.remote))
    return response(fields={**_REGION, "msgId": handle.unique_id}, remark=NO_REMARK)


def _checked_handle(broker: Broker, header: RecallMessageRequestHeader) -> RecallHandle:
    if not broker.settings.recall_messages:
        raise Refusal(ResponseCode.NO_PERMISSION, "recall failed, operation is forbidden", _REGION)
    if broker.topics.find(header.topic) is None:
        remark = f"recall failed, the topic[{header.topic}] not exist"
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, remark, _REGION)
    handle = decode_recall_handle(header.recall_handle)
    if handle is None:
        fault = "recall handle is invalid"
    elif handle.topic != header.topic:
        fault = "recall failed, topic not match"
    elif handle.broker_name != broker.name:
        fault = "recall failed, broker service not available"
    elif not 0 < handle.timestamp_ms - broker.clock.now_ms() < broker.settings.timer_max_delay_ms:
        fault = "recall failed, timestamp invalid"
    else:
        return handle
    raise Refusal(ResponseCode.ILLEGAL_OPERATION, fault, _REGION)
