"""Which header fields does each request carry, and which does its answer?

One frozen class per header, named as RocketMQ names it. A request class knows its code (`code`) and the
header of its answer (`response`, None if the answer has no header of its own). On the wire a header is a map of
text: `to_fields` writes it, `from_fields` reads it. Wire names are the attribute names in camelCase; the few
exceptions stand in `wire_names`. Fields without a default are required.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from typing import Any, ClassVar, NamedTuple, TypeVar, dataclass_transform, get_args, get_type_hints

from ..errors import MalformedFrame
from .codes import RequestCode
from .members import Members, members, wire_name

H = TypeVar("H", bound="Header")
R = TypeVar("R", bound="RequestHeader")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def request(code: RequestCode, response: type[ResponseHeader] | None = None) -> Callable[[type[R]], type[R]]:
    """Make a class the header of the requests with this code."""

    def make(cls: type[R]) -> type[R]:
        made = members(cls)
        made.code, made.response = code, response
        return made

    return make


class Header(Members):
    """Base of all headers."""

    __slots__ = ()


class ResponseHeader(Header):
    """Base of the headers of answers."""

    __slots__ = ()


@members
class RequestHeader(Header):
    """Base of the headers of requests, with the fields any of them may carry."""

    code: ClassVar[RequestCode]
    response: ClassVar[type[ResponseHeader] | None] = None

    bname: str | None = None
    """Name of the broker the request is meant for."""
    ns: str | None = None
    """Namespace (version 2)."""
    nsd: bool | None = None
    """Whether `ns` is in force."""
    oway: bool | None = None


@members
class TopicRequestHeader(RequestHeader):
    """Base of the requests about one topic, which may be static."""

    lo: bool | None = None
    """False: queue numbers and offsets are physical, not those of a static topic."""


# --- name server -----------------------------------------------------------------------------------------------------


@request(RequestCode.GET_ROUTEINFO_BY_TOPIC)
class GetRouteInfoRequestHeader(TopicRequestHeader):
    """Where are the queues of a topic?"""

    topic: str
    accept_standard_json_only: bool | None = None


@request(RequestCode.GET_BROKER_CLUSTER_INFO)
class GetBrokerClusterInfoRequestHeader(RequestHeader):
    """Which brokers are there?"""


@request(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
class GetAllTopicListRequestHeader(RequestHeader):
    """Which topics are there?"""


@request(RequestCode.GET_TOPICS_BY_CLUSTER)
class GetTopicsByClusterRequestHeader(RequestHeader):
    """Which topics does one cluster have?"""

    cluster: str


@request(RequestCode.PUT_KV_CONFIG)
class PutKVConfigRequestHeader(RequestHeader):
    """Store a value at the name server."""

    namespace: str
    key: str
    value: str


@members
class GetKVConfigResponseHeader(ResponseHeader):
    """A value stored at the name server."""

    value: str | None = None


@request(RequestCode.GET_KV_CONFIG, GetKVConfigResponseHeader)
class GetKVConfigRequestHeader(RequestHeader):
    """Ask for a value stored at the name server."""

    namespace: str
    key: str


@request(RequestCode.DELETE_KV_CONFIG)
class DeleteKVConfigRequestHeader(RequestHeader):
    """Remove a value stored at the name server."""

    namespace: str
    key: str


@request(RequestCode.GET_KVLIST_BY_NAMESPACE)
class GetKVListByNamespaceRequestHeader(RequestHeader):
    """Ask for all values of one namespace."""

    namespace: str


@request(RequestCode.DELETE_TOPIC_IN_NAMESRV)
class DeleteTopicFromNamesrvRequestHeader(TopicRequestHeader):
    """Make the name server forget a topic."""

    topic: str
    cluster_name: str | None = None


# --- clients and groups ----------------------------------------------------------------------------------------------


@members
class HeartbeatResponseHeader(ResponseHeader):
    """What the broker makes of a heartbeat (5.1.3 and later)."""

    wire_names: ClassVar = {"is_support_heart_beat_v2": "IS_SUPPORT_HEART_BEAT_V2", "is_sub_change": "IS_SUB_CHANGE"}

    is_support_heart_beat_v2: bool | None = None
    is_sub_change: bool | None = None


@request(RequestCode.HEART_BEAT, HeartbeatResponseHeader)
class HeartbeatRequestHeader(RequestHeader):
    """A client is alive; the body says which groups it belongs to."""


@request(RequestCode.UNREGISTER_CLIENT)
class UnregisterClientRequestHeader(RequestHeader):
    """A client leaves a group."""

    wire_names: ClassVar = {"client_id": "clientID"}

    client_id: str
    producer_group: str | None = None
    consumer_group: str | None = None


@request(RequestCode.GET_CONSUMER_LIST_BY_GROUP)
class GetConsumerListByGroupRequestHeader(RequestHeader):
    """Which members does a group have?"""

    consumer_group: str


@request(RequestCode.CHECK_CLIENT_CONFIG)
class CheckClientConfigRequestHeader(RequestHeader):
    """Is this subscription acceptable? It is in the body."""


@request(RequestCode.LOCK_BATCH_MQ)
class LockBatchMqRequestHeader(RequestHeader):
    """Lock the queues named in the body."""


@request(RequestCode.UNLOCK_BATCH_MQ)
class UnlockBatchMqRequestHeader(RequestHeader):
    """Give up the locks of the queues named in the body."""


@request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED)
class NotifyConsumerIdsChangedRequestHeader(RequestHeader):
    """The broker tells a member that its group has changed."""

    consumer_group: str


@members
class ResetOffsetHeader(TopicRequestHeader):
    """Base of the two requests that move a group's offsets."""

    topic: str
    group: str
    timestamp: int
    is_force: bool
    queue_id: int | None = None
    offset: int | None = None


@request(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET)
class ResetOffsetRequestHeader(ResetOffsetHeader):
    """Ask the broker to move a group's offsets."""


@request(RequestCode.RESET_CONSUMER_CLIENT_OFFSET)
class ResetConsumerClientOffsetRequestHeader(ResetOffsetHeader):
    """The broker tells a member to move to the offsets in the body."""


@request(RequestCode.GET_CONSUMER_RUNNING_INFO)
class GetConsumerRunningInfoRequestHeader(RequestHeader):
    """How is a member doing? The broker passes this on to the member."""

    consumer_group: str
    client_id: str
    jstack_enable: bool | None = None


@request(RequestCode.CONSUME_MESSAGE_DIRECTLY)
class ConsumeMessageDirectlyResultRequestHeader(TopicRequestHeader):
    """Have a member consume one message now. The broker passes this on to the member, with the message as body."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: int | None = None
    group_sys_flag: int | None = None


@request(RequestCode.QUERY_ASSIGNMENT)
class QueryAssignmentRequestHeader(RequestHeader):
    """Which queues does the broker assign to the client in the body?"""


# --- offsets ---------------------------------------------------------------------------------------------------------


@members
class QueueRequestHeader(TopicRequestHeader):
    """Base of the requests about one queue."""

    topic: str
    queue_id: int


@members
class OffsetResponseHeader(ResponseHeader):
    """One offset: the answer to 14, 29, 30 and 31."""

    offset: int


@request(RequestCode.GET_MAX_OFFSET, OffsetResponseHeader)
class GetMaxOffsetRequestHeader(QueueRequestHeader):
    """Which offset will the next message get?"""

    committed: bool | None = None


@request(RequestCode.GET_MIN_OFFSET, OffsetResponseHeader)
class GetMinOffsetRequestHeader(QueueRequestHeader):
    """Which is the first offset still there?"""


@request(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, OffsetResponseHeader)
class SearchOffsetRequestHeader(QueueRequestHeader):
    """Which offset belongs to a store time?"""

    timestamp: int
    boundary_type: str | None = None


@members
class GetEarliestMsgStoretimeResponseHeader(ResponseHeader):
    """Store time of the first message, -1 if unknown."""

    timestamp: int


@request(RequestCode.GET_EARLIEST_MSG_STORETIME, GetEarliestMsgStoretimeResponseHeader)
class GetEarliestMsgStoretimeRequestHeader(QueueRequestHeader):
    """When was the first message of a queue stored?"""


@request(RequestCode.QUERY_CONSUMER_OFFSET, OffsetResponseHeader)
class QueryConsumerOffsetRequestHeader(QueueRequestHeader):
    """Where does a group stand?"""

    consumer_group: str
    set_zero_if_not_found: bool | None = None


@request(RequestCode.UPDATE_CONSUMER_OFFSET)
class UpdateConsumerOffsetRequestHeader(QueueRequestHeader):
    """Store where a group stands."""

    consumer_group: str
    commit_offset: int


# --- pulling ---------------------------------------------------------------------------------------------------------


@members
class PullMessageResponseHeader(ResponseHeader):
    """What a pull came to; whole on the codes 0, 19, 20 and 21 only."""

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
    """Base of the two requests that pull."""

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
    """Give me messages of a queue."""


# --- sending ---------------------------------------------------------------------------------------------------------


@members
class SendMessageResponseHeader(ResponseHeader):
    """Where a message was stored; whole on the codes 0, 10, 11 and 12 only."""

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
    """Base of the requests that send."""

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
    """Base of the requests that send with one-letter names."""

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
    """Store a message."""


@request(RequestCode.SEND_MESSAGE_V2, SendMessageResponseHeader)
class SendMessageRequestHeaderV2(SendHeaderV2):
    """Store a message."""


@request(RequestCode.SEND_BATCH_MESSAGE, SendMessageResponseHeader)
class SendBatchMessageRequestHeader(SendHeaderV2):
    """Store the messages in the body; `batch` must be true."""


@request(RequestCode.SEND_REPLY_MESSAGE, SendMessageResponseHeader)
class SendReplyMessageRequestHeader(SendHeader):
    """Answer a request message; the broker pushes the answer to the requester."""


@request(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT)
class ReplyMessageRequestHeader(SendHeader):
    """The broker brings the answer to the client that asked."""

    born_host: str
    store_host: str
    store_timestamp: int


@request(RequestCode.CONSUMER_SEND_MSG_BACK)
class ConsumerSendMsgBackRequestHeader(RequestHeader):
    """Deliver a message to this group again, later."""

    offset: int
    group: str
    delay_level: int
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool | None = None
    max_reconsume_times: int | None = None


@request(RequestCode.END_TRANSACTION)
class EndTransactionRequestHeader(TopicRequestHeader):
    """Commit a half message (8), roll it back (12) or leave it open (0)."""

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
    """The broker asks what became of the half message in the body."""

    topic: str | None = None
    tran_state_table_offset: int
    commit_log_offset: int
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None


@members
class RecallMessageResponseHeader(ResponseHeader):
    """Unique id of the message taken back."""

    msg_id: str


@request(RequestCode.RECALL_MESSAGE, RecallMessageResponseHeader)
class RecallMessageRequestHeader(TopicRequestHeader):
    """Take a timed message back."""

    producer_group: str | None = None
    topic: str
    recall_handle: str


# --- looking messages up ---------------------------------------------------------------------------------------------


@request(RequestCode.VIEW_MESSAGE_BY_ID)
class ViewMessageRequestHeader(RequestHeader):
    """Give me the message at an offset of the commit log."""

    offset: int
    topic: str | None = None


@members
class QueryMessageResponseHeader(ResponseHeader):
    """How far the index had come."""

    index_last_update_timestamp: int
    index_last_update_phyoffset: int


@request(RequestCode.QUERY_MESSAGE, QueryMessageResponseHeader)
class QueryMessageRequestHeader(TopicRequestHeader):
    """Which messages have this key?"""

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
    """Make or change a topic."""

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
    """Remove a topic from a broker."""

    topic: str


@request(RequestCode.GET_TOPIC_CONFIG)
class GetTopicConfigRequestHeader(TopicRequestHeader):
    """How is a topic configured?"""

    topic: str


@members
class GetAllTopicConfigResponseHeader(ResponseHeader):
    """How many topics there are in all."""

    total_topic_num: int | None = None


@request(RequestCode.GET_ALL_TOPIC_CONFIG, GetAllTopicConfigResponseHeader)
class GetAllTopicConfigRequestHeader(RequestHeader):
    """How is every topic configured?"""

    topic_seq: int | None = None
    max_topic_num: int | None = None
    data_version: str | None = None


@request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP)
class UpdateSubscriptionGroupRequestHeader(RequestHeader):
    """Make or change the group in the body."""


@request(RequestCode.DELETE_SUBSCRIPTIONGROUP)
class DeleteSubscriptionGroupRequestHeader(RequestHeader):
    """Remove a group, with its offsets if so wanted."""

    group_name: str
    clean_offset: bool | None = None


@request(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG)
class GetSubscriptionGroupConfigRequestHeader(RequestHeader):
    """How is a group configured?"""

    group: str


@members
class GetAllSubscriptionGroupResponseHeader(ResponseHeader):
    """How many groups there are in all."""

    total_group_num: int | None = None


@request(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, GetAllSubscriptionGroupResponseHeader)
class GetAllSubscriptionGroupRequestHeader(RequestHeader):
    """How is every group configured?"""

    group_seq: int | None = None
    max_group_num: int | None = None
    data_version: str | None = None


@request(RequestCode.GET_TOPIC_STATS_INFO)
class GetTopicStatsInfoRequestHeader(TopicRequestHeader):
    """What are the bounds of all queues of a topic?"""

    topic: str


@request(RequestCode.GET_CONSUME_STATS)
class GetConsumeStatsRequestHeader(TopicRequestHeader):
    """How far is a group in each queue?"""

    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None


@request(RequestCode.GET_CONSUMER_CONNECTION_LIST)
class GetConsumerConnectionListRequestHeader(RequestHeader):
    """Which clients consume for a group?"""

    consumer_group: str


@request(RequestCode.GET_PRODUCER_CONNECTION_LIST)
class GetProducerConnectionListRequestHeader(RequestHeader):
    """Which clients produce for a group?"""

    producer_group: str


@request(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO)
class QueryTopicConsumeByWhoRequestHeader(TopicRequestHeader):
    """Which groups consume a topic?"""

    topic: str


@request(RequestCode.QUERY_TOPICS_BY_CONSUMER)
class QueryTopicsByConsumerRequestHeader(RequestHeader):
    """Which topics does a group consume?"""

    group: str


@request(RequestCode.QUERY_CONSUME_TIME_SPAN)
class QueryConsumeTimeSpanRequestHeader(TopicRequestHeader):
    """Between which store times does a group stand?"""

    topic: str
    group: str


@members
class GetBrokerConfigResponseHeader(ResponseHeader):
    """The configuration is in the body."""

    version: str | None = None


@request(RequestCode.GET_BROKER_CONFIG, GetBrokerConfigResponseHeader)
class GetBrokerConfigRequestHeader(RequestHeader):
    """Ask for the broker's configuration."""


@request(RequestCode.UPDATE_BROKER_CONFIG)
class UpdateBrokerConfigRequestHeader(RequestHeader):
    """Change the broker's configuration; the settings are in the body."""


@request(RequestCode.GET_BROKER_RUNTIME_INFO)
class GetBrokerRuntimeInfoRequestHeader(RequestHeader):
    """Ask for the broker's running figures."""


@request(RequestCode.GET_ALL_DELAY_OFFSET)
class GetAllDelayOffsetRequestHeader(RequestHeader):
    """Ask for the broker's progress in its delay queues."""


# --- to the wire and back --------------------------------------------------------------------------------------------


def to_fields(header: Header) -> dict[str, str]:
    """The header as the text fields of a command; what is None is left out."""
    result = {}
    for name, field in _codec(type(header)).fields.items():
        value = getattr(header, field.attribute)
        if value is not None:
            result[name] = field.write(value)
    return result


def from_fields(cls: type[H], fields: Mapping[str, str] | None) -> H:
    """Read a header from a command's text fields; fields the class does not know are ignored."""
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
    """How one field is read and written; numbers and booleans that are empty text count as absent."""

    attribute: str
    is_text: bool
    read: Callable[[str], Any]
    write: Callable[[Any], str]


class _Codec(NamedTuple):
    """The fields of a header class by their wire names, and the attributes that must be given."""

    fields: dict[str, _Field]
    required: frozenset[str]


_CODECS: dict[type[Header], _Codec] = {}


def _codec(cls: type[Header]) -> _Codec:
    """Compiled at first use."""
    return _CODECS.get(cls) or _CODECS.setdefault(cls, _compile(cls))


def _compile(cls: type[Any]) -> _Codec:
    types = {name: _plain(annotation) for name, annotation in get_type_hints(cls).items()}
    by_name = {
        wire_name(cls, field.name): _Field(field.name, types[field.name] is str, *_TEXT_FORMS[types[field.name]])
        for field in fields(cls)
    }
    return _Codec(by_name, frozenset(field.name for field in fields(cls) if field.default is MISSING))


def _plain(annotation: Any) -> type:
    """`int` of `int | None`."""
    plain: type = (*get_args(annotation), annotation)[0]
    return plain


def _read_integer(text: str) -> int:
    """A 64-bit integer in Java's decimal form, which knows no spaces and no underscores."""
    if not (text.isascii() and text.lstrip("+-").isdigit() and len(text) <= _LONGEST_INTEGER):
        raise ValueError("not an integer")
    value = int(text)
    if not -(2**63) <= value < 2**63:
        raise ValueError("not a 64-bit integer")
    return value


def _read_boolean(text: str) -> bool:
    """Java's rule: only `true`, in any case, is true."""
    return text.lower() == "true"


def _write_boolean(value: bool) -> str:
    return "true" if value else "false"


_LONGEST_INTEGER = len(str(-(2**63)))
_TEXT_FORMS: dict[type, tuple[Callable[[str], Any], Callable[[Any], str]]] = {
    str: (str, str),
    int: (_read_integer, str),
    bool: (_read_boolean, _write_boolean),
}
