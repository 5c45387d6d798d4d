"""Handle sends: messages, batches, messages sent back, and replies to request messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pyspark_rocketmq.model import RETRY_PREFIX
from pyspark_rocketmq.wire.batch import BatchEntry, decode_batch
from pyspark_rocketmq.wire.bodies import TopicConfig
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode, SysFlag
from pyspark_rocketmq.wire.commands import (
    ConsumerSendMsgBackRequestHeader,
    ReplyMessageRequestHeader,
    SendHeader,
    SendMessageRequestHeader,
    SendMessageRequestHeaderV2,
    SendMessageResponseHeader,
)
from pyspark_rocketmq.wire.header import Command
from pyspark_rocketmq.wire.properties import MAX_PROPERTIES_BYTES, join_properties, parse_properties

from ..delayed_messages import DELAY, maybe_recall_handle
from ..half_messages import is_half
from ..registry import handles
from ..requests import HELD, ClientRequest, HandlerResult, Refusal, response
from ..send_back import redirect, send_back
from ..state import BROKER_PROPERTIES, REGION, Broker
from ..store import ENTRY_END, InnerMessage, Stored
from ..topic_table import FORBIDDEN_TO_SEND, WRITABLE, check_name, illegal_code, random_queue

_JAVA_PREFIX = "java."
"""Beginning of a remark that reports a Java exception; such a refusal has no further header fields."""
_PUSH_TIMEOUT_MS = 3_000
_READ_BY_V1 = frozenset({RequestCode.SEND_MESSAGE, RequestCode.SEND_REPLY_MESSAGE})

Accept = Callable[[Broker, ClientRequest, SendHeader, TopicConfig], HandlerResult]


@handles(RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
def send_message(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Store one message, or a batch of messages if the header says so."""
    header = read_send_header(request)
    return check_and_accept(broker, request, header, _accept_batch if header.batch else _accept_one)


def read_send_header(request: ClientRequest) -> SendHeader:
    """Return the header of a send, whether its fields have long or one-letter names."""
    is_v1 = request.command.code in _READ_BY_V1
    return request.header(SendMessageRequestHeader if is_v1 else SendMessageRequestHeaderV2)


def check_and_accept(broker: Broker, request: ClientRequest, header: SendHeader, accept: Accept) -> HandlerResult:
    """Check a send and call `accept` with its topic's configuration; return the response.

    A `Refusal` also gets the header fields that the broker adds to responses to sends, unless its remark reports a Java
    exception.
    """
    if not request.command.body and (broker.release.is_5x or header.batch):
        raise Refusal(ResponseCode.SYSTEM_ERROR, "java.lang.NullPointerException: the message has no body")
    try:
        config = _check(broker, request, header)
        return accept(broker, request, header, config)
    except Refusal as refusal:
        if not (refusal.response.remark or "").startswith(_JAVA_PREFIX):
            refusal.response.fields = BROKER_PROPERTIES.copy()
        raise


@handles(RequestCode.CONSUMER_SEND_MSG_BACK)
def send_message_back(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Store a message again that its consumer sends back, for a retry or as a dead letter."""
    send_back(broker, request.header(ConsumerSendMsgBackRequestHeader), request.command.version)
    return response()


# --- checks ----------------------------------------------------------------------------------------------------------


def _check(broker: Broker, request: ClientRequest, header: SendHeader) -> TopicConfig:
    """Return the configuration of the send's topic, or raise the `Refusal` of the first check that fails.

    The checks have a real broker's order. They may create the topic.
    """
    topic = header.topic
    if not broker.permission & WRITABLE:
        remark = f"the broker[{broker.address.host}] sending message is forbidden"
        raise Refusal(ResponseCode.NO_PERMISSION, remark)
    check_name(topic, broker.release)
    if topic in FORBIDDEN_TO_SEND:
        raise Refusal(ResponseCode.NO_PERMISSION, f"Sending message to topic[{topic}] is forbidden.")
    config = broker.topics.find(topic) or _create(broker, header)
    if config is None:
        help_text = f"See {broker.release.help_page} for further details."
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist, apply first please!\n{help_text}")
    if header.queue_id >= max(config.read_queue_nums, config.write_queue_nums):
        fault = f"request queueId[{header.queue_id}] is illegal, {_describe(broker, config)}"
        raise Refusal(illegal_code(broker.release), f"{fault} Producer: {request.channel.remote}")
    if not broker.is_master:
        raise Refusal(ResponseCode.SERVICE_NOT_AVAILABLE, "service not available now: messages are put to the slave")
    return config


def _create(broker: Broker, header: SendHeader) -> TopicConfig | None:
    if broker.settings.auto_create_topics:
        queues = header.default_topic_queue_nums
        if made := broker.topics.create_from_template(header.topic, header.default_topic, queues):
            return made
    return broker.topics.find_or_create(header.topic, 1) if header.topic.startswith(RETRY_PREFIX) else None


def _check_length(broker: Broker, properties: str, body_bytes: int) -> None:
    if len(properties.encode()) > MAX_PROPERTIES_BYTES or body_bytes > broker.settings.max_message_bytes:
        raise _too_long(broker)


def _too_long(broker: Broker) -> Refusal:
    return Refusal(
        ResponseCode.MESSAGE_ILLEGAL,
        "the message is illegal, maybe msg body or properties length not matched. "
        f"msg body length limit {broker.settings.max_message_bytes}B, msg properties length limit 32KB.",
    )


def _describe(broker: Broker, config: TopicConfig) -> str:
    """Return a topic's configuration as text, as Java prints it."""
    rights = "".join(letter if config.perm & bit else "-" for letter, bit in (("R", 4), ("W", 2), ("X", 1)))
    attributes = f", attributes={config.attributes or {}}" if broker.release.is_5x else ""
    return (
        f"TopicConfig [topicName={config.topic_name}, readQueueNums={config.read_queue_nums}, "
        f"writeQueueNums={config.write_queue_nums}, perm={rights}, topicFilterType={config.topic_filter_type}, "
        f"topicSysFlag={config.topic_sys_flag}, order={str(config.order).lower()}{attributes}]"
    )


# --- one message -----------------------------------------------------------------------------------------------------


def make_message(broker: Broker, request: ClientRequest, header: SendHeader, config: TopicConfig) -> InnerMessage:
    """Return the message that a send contains, with the properties that the broker adds."""
    is_multi_tag = config.topic_filter_type == "MULTI_TAG"
    return InnerMessage(
        topic=header.topic,
        queue_id=header.queue_id if header.queue_id >= 0 else random_queue(config.write_queue_nums),
        body=request.body,
        properties=broker.complete_properties(parse_properties(header.properties or ""), is_batch=bool(header.batch)),
        flag=header.flag,
        sys_flag=header.sys_flag | SysFlag.MULTI_TAGS * is_multi_tag,
        born_timestamp=header.born_timestamp,
        born_host=request.channel.remote,
        reconsume_times=header.reconsume_times or 0,
        unstored=frozenset() if broker.release.is_5x else frozenset({"WAIT"}),
    )


def _accept_one(broker: Broker, request: ClientRequest, header: SendHeader, config: TopicConfig) -> HandlerResult:
    sent = make_message(broker, request, header, config)
    _check_length(broker, join_properties(sent.properties), len(sent.body))
    message = redirect(broker, sent, header.max_reconsume_times, request.command.version)
    stored = broker.half_messages.prepare(message) if is_half(message) else broker.accept(message)
    stored_fields = stored_header(broker, message, stored)
    return response(fields=replace(stored_fields, recall_handle=maybe_recall_handle(message, broker.name)))


def stored_header(broker: Broker, message: InnerMessage, stored: Stored) -> SendMessageResponseHeader:
    """Return the header of the response to a send, with the message's id, queue and offset."""
    return SendMessageResponseHeader(
        msg_id=stored.message_id,
        queue_id=message.queue_id,
        queue_offset=stored.queue_offset,
        transaction_id=message.properties.get("UNIQ_KEY") if broker.release.is_5x else None,
        msg_region=REGION,
        trace_on=True,
    )


# --- a batch ---------------------------------------------------------------------------------------------------------


def _accept_batch(broker: Broker, request: ClientRequest, header: SendHeader, config: TopicConfig) -> HandlerResult:
    if header.topic.startswith(RETRY_PREFIX):
        raise Refusal(ResponseCode.MESSAGE_ILLEGAL, f"batch request does not support retry group {header.topic}")
    entries = decode_batch(request.command.body)
    if sum(len(entry.body) for entry in entries) > broker.settings.max_message_bytes:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"{_JAVA_PREFIX}lang.RuntimeException: message body size exceeded")
    outer = make_message(broker, request, header, config)
    if outer.properties.get(DELAY, "0") != "0":
        raise _too_long(broker)
    outer_text = join_properties(outer.properties)
    parts = [_batch_message(broker, outer, outer_text, entry) for entry in entries]
    for part in parts:
        _check_length(broker, (part.raw_properties or b"").decode(), len(part.body))
    stored = [broker.put(part) for part in parts]
    stored_fields = stored_header(broker, outer, stored[0])
    return response(fields=replace(stored_fields, msg_id=",".join(one.message_id for one in stored)))


def _batch_message(broker: Broker, outer: InnerMessage, outer_text: str, entry: BatchEntry) -> InnerMessage:
    """Return the message of one entry of a batch; its property text is the entry's, then that of the whole batch."""
    own_text = entry.properties_text.decode(errors="replace")
    text = own_text + ENTRY_END * (bool(own_text) and not own_text.endswith(ENTRY_END)) + outer_text
    return replace(
        outer,
        body=entry.body,
        flag=entry.flag,
        properties=parse_properties(own_text),
        raw_properties=(text if broker.release.is_5x else text.removesuffix(ENTRY_END)).encode(),
    )


# --- replies to request messages -------------------------------------------------------------------------------------


@handles(RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2)
def send_reply(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Push a reply message to the requester, which its REPLY_TO_CLIENT property names, and store the reply."""
    return check_and_accept(broker, request, read_send_header(request), _accept_reply)


def _accept_reply(broker: Broker, request: ClientRequest, header: SendHeader, config: TopicConfig) -> HandlerResult:
    message = make_message(broker, request, header, config)
    requester = message.properties.get("REPLY_TO_CLIENT", "")
    message.properties["PUSH_REPLY_TIME"] = str(broker.clock.now_ms())
    channel = broker.producer_groups.find_client(requester)
    if channel is None:
        return _store_and_report(broker, message, f"push reply message fail, channel of <{requester}> not found.")

    def pushed(reply: Command | None) -> None:
        is_taken = reply is not None and reply.code == ResponseCode.SUCCESS
        request.reply(
            _store_and_report(broker, message, None if is_taken else f"push reply message to <{requester}> fail.")
        )

    push_header = _push_header(broker, header, message)
    channel.send_request(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, push_header, message.body, pushed, _PUSH_TIMEOUT_MS)
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


def _store_and_report(broker: Broker, message: InnerMessage, failure: str | None) -> Command:
    """Store a reply message and return the response to its sender: success, or an error with the remark `failure`."""
    stored_fields = replace(stored_header(broker, message, broker.put(message)), transaction_id=None)
    return response(ResponseCode.SYSTEM_ERROR if failure else ResponseCode.SUCCESS, stored_fields, remark=failure)
