"""Define the header fields of each request and of its response.

There is one frozen class for each header, named as in RocketMQ. The class of a request's header holds the request code
(`code`) and the class of the response's header (`response`; None if the response has no fields of its own). On the
wire, header fields are a map of texts: `to_fields` encodes a header, `from_fields` decodes it. Wire names are the
attribute names in camelCase; `wire_names` holds the exceptions. Fields without a default are required.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from typing import Any, ClassVar, NamedTuple, TypeVar, dataclass_transform, get_args, get_type_hints

from ..errors import MalformedFrame
from .codes import RequestCode
from .value_classes import Members, members, wire_name

H = TypeVar("H", bound="Header")
R = TypeVar("R", bound="RequestHeader")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def request(code: RequestCode, response: type[ResponseHeader] | None = None) -> Callable[[type[R]], type[R]]:
    """Return a class decorator that notes, on the header class of a request, the request's code.

    It also notes the header class of the response, if `response` is given.
    """

    def make(cls: type[R]) -> type[R]:
        made = members(cls)
        made.code, made.response = code, response
        return made

    return make


class Header(Members):
    """Base class of all headers."""

    __slots__ = ()


class ResponseHeader(Header):
    """Base class of the headers of responses."""

    __slots__ = ()


@members
class RequestHeader(Header):
    """Base class of the headers of requests, with the fields that every request may have."""

    code: ClassVar[RequestCode]
    response: ClassVar[type[ResponseHeader] | None] = None

    bname: str | None = None
    """Name of the broker that the request is for."""
    ns: str | None = None
    """Namespace of the names in the request."""
    nsd: bool | None = None
    """Whether `ns` is to be used."""
    oway: bool | None = None


@members
class TopicRequestHeader(RequestHeader):
    """Base class of the headers of requests about one topic."""

    lo: bool | None = None
    """False if queue ids and offsets are those of the broker, and not the logical ones of a static topic."""


# --- name server -----------------------------------------------------------------------------------------------------


@request(RequestCode.GET_ROUTEINFO_BY_TOPIC)
class GetRouteInfoRequestHeader(TopicRequestHeader):
    """Request for the route of a topic: its queues and brokers."""

    topic: str
    accept_standard_json_only: bool | None = None


@request(RequestCode.GET_BROKER_CLUSTER_INFO)
class GetBrokerClusterInfoRequestHeader(RequestHeader):
    """Request for all brokers of all clusters."""


@request(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
class GetAllTopicListRequestHeader(RequestHeader):
    """Request for the names of all topics."""


@request(RequestCode.GET_TOPICS_BY_CLUSTER)
class GetTopicsByClusterRequestHeader(RequestHeader):
    """Request for the topics of one cluster."""

    cluster: str


@request(RequestCode.PUT_KV_CONFIG)
class PutKVConfigRequestHeader(RequestHeader):
    """Request to store a value at the name server."""

    namespace: str
    key: str
    value: str


@members
class GetKVConfigResponseHeader(ResponseHeader):
    """The value that the name server stores for a key."""

    value: str | None = None


@request(RequestCode.GET_KV_CONFIG, GetKVConfigResponseHeader)
class GetKVConfigRequestHeader(RequestHeader):
    """Request for a value stored at the name server."""

    namespace: str
    key: str


@request(RequestCode.DELETE_KV_CONFIG)
class DeleteKVConfigRequestHeader(RequestHeader):
    """Request to remove a value stored at the name server."""

    namespace: str
    key: str


@request(RequestCode.GET_KVLIST_BY_NAMESPACE)
class GetKVListByNamespaceRequestHeader(RequestHeader):
    """Request for all values of one namespace."""

    namespace: str


@request(RequestCode.DELETE_TOPIC_IN_NAMESRV)
class DeleteTopicFromNamesrvRequestHeader(TopicRequestHeader):
    """Request to remove a topic from the name server."""

    topic: str
    cluster_name: str | None = None


# --- clients and groups ----------------------------------------------------------------------------------------------


@members
class HeartbeatResponseHeader(ResponseHeader):
    """Response to a heartbeat (5.1.3 and later)."""

    wire_names: ClassVar = {"is_support_heart_beat_v2": "IS_SUPPORT_HEART_BEAT_V2", "is_sub_change": "IS_SUB_CHANGE"}

    is_support_heart_beat_v2: bool | None = None
    is_sub_change: bool | None = None


@request(RequestCode.HEART_BEAT, HeartbeatResponseHeader)
class HeartbeatRequestHeader(RequestHeader):
    """Heartbeat of a client; the body names its groups."""


@request(RequestCode.UNREGISTER_CLIENT)
class UnregisterClientRequestHeader(RequestHeader):
    """Request to unregister a client from a group."""

    wire_names: ClassVar = {"client_id": "clientID"}

    client_id: str
    producer_group: str | None = None
    consumer_group: str | None = None


@request(RequestCode.GET_CONSUMER_LIST_BY_GROUP)
class GetConsumerListByGroupRequestHeader(RequestHeader):
    """Request for the members of a group."""

    consumer_group: str


@request(RequestCode.CHECK_CLIENT_CONFIG)
class CheckClientConfigRequestHeader(RequestHeader):
    """Request to check the subscription in the body."""


@request(RequestCode.LOCK_BATCH_MQ)
class LockBatchMqRequestHeader(RequestHeader):
    """Request to lock the queues in the body."""


@request(RequestCode.UNLOCK_BATCH_MQ)
class UnlockBatchMqRequestHeader(RequestHeader):
    """Request to release the locks of the queues in the body."""


@request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED)
class NotifyConsumerIdsChangedRequestHeader(RequestHeader):
    """Broker's one-way request to a member, which says that the members of its group have changed."""

    consumer_group: str


@members
class ResetOffsetHeader(TopicRequestHeader):
    """Base class of the two requests that reset a group's offsets."""

    topic: str
    group: str
    timestamp: int
    is_force: bool
    queue_id: int | None = None
    offset: int | None = None


@request(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET)
class ResetOffsetRequestHeader(ResetOffsetHeader):
    """Request to the broker to reset a group's offsets."""


@request(RequestCode.RESET_CONSUMER_CLIENT_OFFSET)
class ResetConsumerClientOffsetRequestHeader(ResetOffsetHeader):
    """Broker's request to a member to continue at the offsets in the body."""


@request(RequestCode.GET_CONSUMER_RUNNING_INFO)
class GetConsumerRunningInfoRequestHeader(RequestHeader):
    """Request for a member's state; the broker passes the request on to the member."""

    consumer_group: str
    client_id: str
    jstack_enable: bool | None = None


@request(RequestCode.CONSUME_MESSAGE_DIRECTLY)
class ConsumeMessageDirectlyResultRequestHeader(TopicRequestHeader):
    """Request to consume the message `msg_id`.

    The broker adds the message as the body, and passes the request on to a member.
    """

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: int | None = None
    group_sys_flag: int | None = None


@request(RequestCode.QUERY_ASSIGNMENT)
class QueryAssignmentRequestHeader(RequestHeader):
    """Request for the queues that the broker assigns to the client that the body names."""


# --- offsets ---------------------------------------------------------------------------------------------------------


@members
class QueueRequestHeader(TopicRequestHeader):
    """Base class of the headers of requests about one queue."""

    topic: str
    queue_id: int


@members
class OffsetResponseHeader(ResponseHeader):
    """Response to the requests for an offset: codes 14, 29, 30 and 31 (committed, by time, maximum, minimum)."""

    offset: int


@request(RequestCode.GET_MAX_OFFSET, OffsetResponseHeader)
class GetMaxOffsetRequestHeader(QueueRequestHeader):
    """Request for the offset that the next message of a queue will get."""

    committed: bool | None = None


@request(RequestCode.GET_MIN_OFFSET, OffsetResponseHeader)
class GetMinOffsetRequestHeader(QueueRequestHeader):
    """Request for the first offset that a queue still holds."""


@request(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, OffsetResponseHeader)
class SearchOffsetRequestHeader(QueueRequestHeader):
    """Request for the offset in a queue at which the messages stored at a given time begin."""

    timestamp: int
    boundary_type: str | None = None


@members
class GetEarliestMsgStoretimeResponseHeader(ResponseHeader):
    """Store time of a queue's first message; -1 if it is unknown."""

    timestamp: int


@request(RequestCode.GET_EARLIEST_MSG_STORETIME, GetEarliestMsgStoretimeResponseHeader)
class GetEarliestMsgStoretimeRequestHeader(QueueRequestHeader):
    """Request for the store time of a queue's first message."""


@request(RequestCode.QUERY_CONSUMER_OFFSET, OffsetResponseHeader)
class QueryConsumerOffsetRequestHeader(QueueRequestHeader):
    """Request for the offset that a group has committed."""

    consumer_group: str
    set_zero_if_not_found: bool | None = None


@request(RequestCode.UPDATE_CONSUMER_OFFSET)
class UpdateConsumerOffsetRequestHeader(QueueRequestHeader):
    """Request to commit a group's offset of a queue."""

    consumer_group: str
    commit_offset: int


# --- pulling ---------------------------------------------------------------------------------------------------------


@members
class PullMessageResponseHeader(ResponseHeader):
    """Result of a pull; only responses with code 0, 19, 20 or 21 have all required fields."""

    suggest_which_broker_id: int
    next_begin_offset: int
    min_offset: int
    max_offset: int
    offset_delta: int | None = None
    topic_sys_flag: int | None = None
    group_sys_flag: int | None = None
    forbidden_type: int | None = None


@members
class PullHeader(QueueRequestHeader):
    """Base class of the headers of requests that pull."""

    wire_names: ClassVar = {"proxy_forward_client_id": "proxyFrowardClientId"}

    consumer_group: str
    queue_offset: int
    max_msg_nums: int
    sys_flag: int
    commit_offset: int
    suspend_timeout_millis: int
    subscription: str | None = None
    sub_version: int
    expression_type: str | None = None
    max_msg_bytes: int | None = None
    request_source: int | None = None
    proxy_forward_client_id: str | None = None


@request(RequestCode.PULL_MESSAGE, PullMessageResponseHeader)
class PullMessageRequestHeader(PullHeader):
    """Request for the messages of a queue from an offset on."""


# --- sending ---------------------------------------------------------------------------------------------------------


@members
class SendMessageResponseHeader(ResponseHeader):
    """Id, queue and offset of a stored message; only responses with code 0, 10, 11 or 12 have all required fields."""

    wire_names: ClassVar = {"msg_region": "MSG_REGION", "trace_on": "TRACE_ON"}

    msg_id: str
    queue_id: int
    queue_offset: int
    transaction_id: str | None = None
    batch_uniq_id: str | None = None
    recall_handle: str | None = None
    msg_region: str | None = None
    trace_on: bool | None = None


@members
class SendHeader(QueueRequestHeader):
    """Base class of the headers of requests that send messages; the fields have their full names."""

    producer_group: str
    default_topic: str
    default_topic_queue_nums: int
    sys_flag: int
    born_timestamp: int
    flag: int
    properties: str | None = None
    reconsume_times: int | None = None
    unit_mode: bool | None = None
    max_reconsume_times: int | None = None
    batch: bool | None = None


@members
class SendHeaderV2(SendHeader):
    """Base class of the headers of requests that send messages; the fields have names of one letter."""

    wire_names: ClassVar = {
        "producer_group": "a",
        "topic": "b",
        "default_topic": "c",
        "default_topic_queue_nums": "d",
        "queue_id": "e",
        "sys_flag": "f",
        "born_timestamp": "g",
        "flag": "h",
        "properties": "i",
        "reconsume_times": "j",
        "unit_mode": "k",
        "max_reconsume_times": "l",
        "batch": "m",
        "bname": "n",
    }


@request(RequestCode.SEND_MESSAGE, SendMessageResponseHeader)
class SendMessageRequestHeader(SendHeader):
    """Request to store the message in the body; the header's fields have their full names."""


@request(RequestCode.SEND_MESSAGE_V2, SendMessageResponseHeader)
class SendMessageRequestHeaderV2(SendHeaderV2):
    """Request to store the message in the body; the header's fields have names of one letter."""


@request(RequestCode.SEND_BATCH_MESSAGE, SendMessageResponseHeader)
class SendBatchMessageRequestHeader(SendHeaderV2):
    """Request to store the messages in the body; `batch` must be true."""


@request(RequestCode.SEND_REPLY_MESSAGE, SendMessageResponseHeader)
class SendReplyMessageRequestHeader(SendHeader):
    """Request to the broker to deliver the reply in the body to the client that sent the request message."""


@request(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT)
class ReplyMessageRequestHeader(SendHeader):
    """Broker's request that delivers a reply message to the client that sent the request message."""

    born_host: str
    store_host: str
    store_timestamp: int


@request(RequestCode.CONSUMER_SEND_MSG_BACK)
class ConsumerSendMsgBackRequestHeader(RequestHeader):
    """Request to deliver a message to the group again later (send back)."""

    offset: int
    group: str
    delay_level: int
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool | None = None
    max_reconsume_times: int | None = None


@request(RequestCode.END_TRANSACTION)
class EndTransactionRequestHeader(TopicRequestHeader):
    """Request to commit a half message (`commit_or_rollback` is 8), to roll it back (12), or to leave it open (0)."""

    topic: str | None = None
    producer_group: str
    tran_state_table_offset: int
    commit_log_offset: int
    commit_or_rollback: int
    from_transaction_check: bool | None = None
    msg_id: str
    transaction_id: str | None = None


@request(RequestCode.CHECK_TRANSACTION_STATE)
class CheckTransactionStateRequestHeader(TopicRequestHeader):
    """Broker's request to a producer for the transaction state of the half message in the body."""

    topic: str | None = None
    tran_state_table_offset: int
    commit_log_offset: int
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None


@members
class RecallMessageResponseHeader(ResponseHeader):
    """Unique id of the recalled message."""

    msg_id: str


@request(RequestCode.RECALL_MESSAGE, RecallMessageResponseHeader)
class RecallMessageRequestHeader(TopicRequestHeader):
    """Request to recall a timed message before its delivery."""

    producer_group: str | None = None
    topic: str
    recall_handle: str


# --- looking messages up ---------------------------------------------------------------------------------------------


@request(RequestCode.VIEW_MESSAGE_BY_ID)
class ViewMessageRequestHeader(RequestHeader):
    """Request for the message at an offset of the commit log."""

    offset: int
    topic: str | None = None


@members
class QueryMessageResponseHeader(ResponseHeader):
    """Progress of the broker's index of keys: the last indexed message's store time and commit-log offset."""

    index_last_update_timestamp: int
    index_last_update_phyoffset: int


@request(RequestCode.QUERY_MESSAGE, QueryMessageResponseHeader)
class QueryMessageRequestHeader(TopicRequestHeader):
    """Request for the messages that have a key."""

    wire_names: ClassVar = {"unique_key_query": "_UNIQUE_KEY_QUERY"}

    topic: str
    key: str
    max_num: int
    begin_timestamp: int
    end_timestamp: int
    index_type: str | None = None
    unique_key_query: bool | None = None


# --- topics, groups, statistics --------------------------------------------------------------------------------------


@request(RequestCode.UPDATE_AND_CREATE_TOPIC)
class CreateTopicRequestHeader(TopicRequestHeader):
    """Request to create or change a topic."""

    topic: str
    default_topic: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int
    topic_filter_type: str
    order: bool
    topic_sys_flag: int | None = None
    attributes: str | None = None
    force: bool | None = None


@request(RequestCode.DELETE_TOPIC_IN_BROKER)
class DeleteTopicRequestHeader(TopicRequestHeader):
    """Request to remove a topic from a broker."""

    topic: str


@request(RequestCode.GET_TOPIC_CONFIG)
class GetTopicConfigRequestHeader(TopicRequestHeader):
    """Request for the configuration of a topic."""

    topic: str


@members
class GetAllTopicConfigResponseHeader(ResponseHeader):
    """Number of topics of the broker; the body holds their configurations."""

    total_topic_num: int | None = None


@request(RequestCode.GET_ALL_TOPIC_CONFIG, GetAllTopicConfigResponseHeader)
class GetAllTopicConfigRequestHeader(RequestHeader):
    """Request for the configurations of all topics."""

    topic_seq: int | None = None
    max_topic_num: int | None = None
    data_version: str | None = None


@request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP)
class UpdateSubscriptionGroupRequestHeader(RequestHeader):
    """Request to create or change the group in the body."""


@request(RequestCode.DELETE_SUBSCRIPTIONGROUP)
class DeleteSubscriptionGroupRequestHeader(RequestHeader):
    """Request to remove a group, with its offsets if `clean_offset` is true."""

    group_name: str
    clean_offset: bool | None = None


@request(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG)
class GetSubscriptionGroupConfigRequestHeader(RequestHeader):
    """Request for the configuration of a group."""

    group: str


@members
class GetAllSubscriptionGroupResponseHeader(ResponseHeader):
    """Number of groups of the broker; the body holds their configurations."""

    total_group_num: int | None = None


@request(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, GetAllSubscriptionGroupResponseHeader)
class GetAllSubscriptionGroupRequestHeader(RequestHeader):
    """Request for the configurations of all groups."""

    group_seq: int | None = None
    max_group_num: int | None = None
    data_version: str | None = None


@request(RequestCode.GET_TOPIC_STATS_INFO)
class GetTopicStatsInfoRequestHeader(TopicRequestHeader):
    """Request for the minimum and maximum offsets of all queues of a topic."""

    topic: str


@request(RequestCode.GET_CONSUME_STATS)
class GetConsumeStatsRequestHeader(TopicRequestHeader):
    """Request for the committed and the maximum offset of each queue that a group consumes."""

    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None


@request(RequestCode.GET_CONSUMER_CONNECTION_LIST)
class GetConsumerConnectionListRequestHeader(RequestHeader):
    """Request for the clients that consume in a group."""

    consumer_group: str


@request(RequestCode.GET_PRODUCER_CONNECTION_LIST)
class GetProducerConnectionListRequestHeader(RequestHeader):
    """Request for the clients that produce in a group."""

    producer_group: str


@request(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO)
class QueryTopicConsumeByWhoRequestHeader(TopicRequestHeader):
    """Request for the groups that consume a topic."""

    topic: str


@request(RequestCode.QUERY_TOPICS_BY_CONSUMER)
class QueryTopicsByConsumerRequestHeader(RequestHeader):
    """Request for the topics that a group consumes."""

    group: str


@request(RequestCode.QUERY_CONSUME_TIME_SPAN)
class QueryConsumeTimeSpanRequestHeader(TopicRequestHeader):
    """Request for the store times of each queue's first and last message, and of the last one that a group consumed."""

    topic: str
    group: str


@members
class GetBrokerConfigResponseHeader(ResponseHeader):
    """Version of the broker's configuration; the body holds the configuration."""

    version: str | None = None


@request(RequestCode.GET_BROKER_CONFIG, GetBrokerConfigResponseHeader)
class GetBrokerConfigRequestHeader(RequestHeader):
    """Request for the broker's configuration."""


@request(RequestCode.UPDATE_BROKER_CONFIG)
class UpdateBrokerConfigRequestHeader(RequestHeader):
    """Request to change the broker's configuration; the settings are in the body."""


@request(RequestCode.GET_BROKER_RUNTIME_INFO)
class GetBrokerRuntimeInfoRequestHeader(RequestHeader):
    """Request for the broker's runtime statistics."""


@request(RequestCode.GET_ALL_DELAY_OFFSET)
class GetAllDelayOffsetRequestHeader(RequestHeader):
    """Request for the broker's progress in its delay queues."""


# --- to the wire and back --------------------------------------------------------------------------------------------


def to_fields(header: Header) -> dict[str, str]:
    """Return the fields of a header as texts by wire name; fields that are None are left out."""
    result = {}
    for name, field in _codec(type(header)).fields.items():
        value = getattr(header, field.attribute)
        if value is not None:
            result[name] = field.write(value)
    return result


def from_fields(cls: type[H], fields: Mapping[str, str] | None) -> H:
    """Return a header of class `cls`, given its fields as texts by wire name.

    Ignore unknown fields; raise `MalformedFrame` for missing or illegal ones.
    """
    codec = _codec(cls)
    values = {}
    for name, text in (fields or {}).items():
        field = codec.fields.get(name)
        if field and (text or field.is_text):
            try:
                values[field.attribute] = field.read(text)
            except ValueError as cause:
                raise MalformedFrame(f"{cls.__name__}.{name} is {text!r:.60}: {cause}") from cause
    if missing := codec.required - values.keys():
        raise MalformedFrame(f"{cls.__name__} without {', '.join(wire_name(cls, name) for name in sorted(missing))}")
    return cls(**values)


class _Field(NamedTuple):
    """One header field, with its conversions from and to text; an empty text counts as absent unless `is_text`."""

    attribute: str
    is_text: bool
    read: Callable[[str], Any]
    write: Callable[[Any], str]


class _Codec(NamedTuple):
    """The fields of a header class by wire name, and the names of its required attributes."""

    fields: dict[str, _Field]
    required: frozenset[str]


_CODECS: dict[type[Header], _Codec] = {}


def _codec(cls: type[Header]) -> _Codec:
    """Return the codec of a header class; it is made at the first call and kept."""
    return _CODECS.get(cls) or _CODECS.setdefault(cls, _compile(cls))


def _compile(cls: type[Any]) -> _Codec:
    types = {name: _plain(annotation) for name, annotation in get_type_hints(cls).items()}
    by_name = {
        wire_name(cls, field.name): _Field(field.name, types[field.name] is str, *_TEXT_FORMS[types[field.name]])
        for field in fields(cls)
    }
    return _Codec(by_name, frozenset(field.name for field in fields(cls) if field.default is MISSING))


def _plain(annotation: Any) -> type:
    """Return the type of an annotation without `| None`."""
    plain: type = (*get_args(annotation), annotation)[0]
    return plain


def _read_integer(text: str) -> int:
    """Return a 64-bit integer, given its text in Java's decimal form; raise `ValueError` for any other text."""
    if not (text.isascii() and text.lstrip("+-").isdigit() and len(text) <= _LONGEST_INTEGER):
        raise ValueError("not an integer")
    value = int(text)
    if not -(2**63) <= value < 2**63:
        raise ValueError("not a 64-bit integer")
    return value


def _read_boolean(text: str) -> bool:
    """Return whether a text is `true`, in capital or small letters; Java also reads any other text as false."""
    return text.lower() == "true"


def _write_boolean(value: bool) -> str:
    return "true" if value else "false"


_LONGEST_INTEGER = len(str(-(2**63)))
_TEXT_FORMS: dict[type, tuple[Callable[[str], Any], Callable[[Any], str]]] = {
    str: (str, str),
    int: (_read_integer, str),
    bool: (_read_boolean, _write_boolean),
}
