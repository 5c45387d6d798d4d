"""How does the answer to a request message get from the consumer who gives it to the producer who waits for it?

The broker pushes it to the requester's connection, stores it, and only then tells the giver how it went.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark_rocketmq.wire.bodies import TopicConfig
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from pyspark_rocketmq.wire.commands import ReplyMessageRequestHeader, SendHeader
from pyspark_rocketmq.wire.header import Command
from pyspark_rocketmq.wire.properties import join_properties

from ..registry import handles
from ..requests import HELD, Answer, Call, answer
from ..state import Broker
from ..store import ENTRY_END, InnerMessage
from .send import checked_send, make_message, read_send_header, stored_header

PUSH_TIMEOUT_MS = 3_000


@handles(RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2)
def send_reply(broker: Broker, call: Call) -> Answer:
    """Pass an answer on to the client that its REPLY_TO_CLIENT names."""
    return checked_send(broker, call, read_send_header(call), _accept_reply)


def _accept_reply(broker: Broker, call: Call, header: SendHeader, config: TopicConfig) -> Answer:
    message = make_message(broker, call, header, config)
    requester = message.properties.get("REPLY_TO_CLIENT", "")
    message.properties["PUSH_REPLY_TIME"] = str(broker.clock.now_ms())
    channel = broker.producer_groups.find_client(requester)
    if channel is None:
        return _finish(broker, message, f"push reply message fail, channel of <{requester}> not found.")

    def pushed(reply: Command | None) -> None:
        is_taken = reply is not None and reply.code == ResponseCode.SUCCESS
        call.reply(_finish(broker, message, None if is_taken else f"push reply message to <{requester}> fail."))

    push_header = _push_header(broker, header, message)
    channel.ask(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, push_header, message.body, pushed, PUSH_TIMEOUT_MS)
    return HELD


def _push_header(broker: Broker, header: SendHeader, message: InnerMessage) -> ReplyMessageRequestHeader:
    text = join_properties(message.properties)
    return ReplyMessageRequestHeader(
        topic=header.topic,
        queue_id=message.queue_id,
        producer_group=header.producer_group,
        default_topic=header.default_topic,
        default_topic_queue_nums=header.default_topic_queue_nums,
        sys_flag=message.sys_flag,
        born_timestamp=message.born_timestamp,
        flag=message.flag,
        properties=text if broker.release.is_5x else text.removesuffix(ENTRY_END),
        reconsume_times=message.reconsume_times,
        unit_mode=header.unit_mode,
        born_host=str(message.born_host),
        store_host=str(broker.address),
        store_timestamp=broker.clock.now_ms(),
    )


def _finish(broker: Broker, message: InnerMessage, failure: str | None) -> Command:
    """Store the answer and report; the report names its place even if it could not be pushed."""
    told = replace(stored_header(broker, message, broker.put(message)), transaction_id=None)
    return answer(ResponseCode.SYSTEM_ERROR if failure else ResponseCode.SUCCESS, told, remark=failure)
