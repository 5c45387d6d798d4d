"""Define, encode and decode the JSON bodies of requests and responses.

There is one frozen class for each body, named as in RocketMQ. `decode_body` and `encode_body` use the annotations of
the class, which are examined once. Unknown members are ignored; members that are None are not written. Wire names are
the attribute names in camelCase; `wire_names` holds the exceptions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, fields
from functools import cache
from reprlib import repr as shorten
from types import UnionType
from typing import Any, ClassVar, TypeVar, cast, get_args, get_origin, get_type_hints

from ..errors import LimitExceeded, LocalProtocolError, MalformedFrame
from ..model import MessageQueue
from . import fastjson
from .properties import java_hash
from .value_classes import Members, members, wire_name

B = TypeVar("B", bound="Body")

MOST_LEVELS = 64
"""Limit of nested objects and arrays in a value whose shape no class defines; brokers nest three."""


class Body(Members):
    """Base class of all bodies, and of the objects inside them."""

    __slots__ = ()


# --- route and cluster -----------------------------------------------------------------------------------------------


@members
class BrokerData(Body):
    """Addresses of the broker processes of one broker, by number; number 0 is the master."""

    cluster: str | None = None
    broker_name: str
    broker_addrs: dict[int, str] = field(default_factory=dict)
    zone_name: str | None = None
    enable_acting_master: bool | None = None


@members
class QueueData(Body):
    """Number of queues of a topic at one broker, and their permissions."""

    broker_name: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int
    topic_sys_flag: int = 0


@members
class TopicQueueMappingInfo(Body):
    """Map from the logical queue ids of a static topic to the queue ids of one broker."""

    topic: str | None = None
    scope: str | None = None
    total_queues: int = 0
    bname: str | None = None
    epoch: int = 0
    dirty: bool = False
    curr_id_map: dict[int, int] = field(default_factory=dict)


@members
class TopicRouteData(Body):
    """Route of a topic: its queues and brokers."""

    order_topic_conf: str | None = None
    queue_datas: tuple[QueueData, ...] = ()
    broker_datas: tuple[BrokerData, ...] = ()
    filter_server_table: dict[str, tuple[str, ...]] = field(default_factory=dict)
    topic_queue_mapping_by_broker: dict[str, TopicQueueMappingInfo] | None = None


@members
class ClusterInfo(Body):
    """All brokers, and the clusters to which they belong."""

    broker_addr_table: dict[str, BrokerData] = field(default_factory=dict)
    cluster_addr_table: dict[str, tuple[str, ...]] = field(default_factory=dict)


@members
class TopicList(Body):
    """Names of topics."""

    broker_addr: str | None = None
    topic_list: tuple[str, ...] = ()


@members
class KVTable(Body):
    """Table of texts by name."""

    table: dict[str, str] = field(default_factory=dict)


@members
class DataVersion(Body):
    """Version of a table that brokers copy from each other."""

    counter: int = 0
    state_version: int | None = None
    timestamp: int = 0


# --- clients and groups ----------------------------------------------------------------------------------------------


@members
class SubscriptionData(Body):
    """A group's subscription to one topic."""

    class_filter_mode: bool = False
    topic: str
    sub_string: str
    tags_set: tuple[str, ...] = ()
    code_set: tuple[int, ...] = ()
    sub_version: int = 0
    expression_type: str = "TAG"


@members
class ConsumerData(Body):
    """One group in which a client consumes."""

    group_name: str
    consume_type: str
    message_model: str
    consume_from_where: str
    subscription_data_set: tuple[SubscriptionData, ...] = ()
    unit_mode: bool = False


@members
class ProducerData(Body):
    """One group in which a client produces."""

    group_name: str


@members
class HeartbeatData(Body):
    """Heartbeat of a client: its id and its groups."""

    wire_names: ClassVar = {"client_id": "clientID"}

    client_id: str
    producer_data_set: tuple[ProducerData, ...] = ()
    consumer_data_set: tuple[ConsumerData, ...] = ()
    heartbeat_fingerprint: int = 0
    without_sub: bool = False


@members
class GetConsumerListByGroupResponseBody(Body):
    """Client ids of a group's members."""

    consumer_id_list: tuple[str, ...] = ()


@members
class LockBatchRequestBody(Body):
    """Queues that a client asks to lock or to unlock."""

    consumer_group: str
    client_id: str
    only_this_broker: bool = False
    mq_set: tuple[MessageQueue, ...] = ()


@members
class LockBatchResponseBody(Body):
    """Queues whose locks the requesting client now holds."""

    wire_names: ClassVar = {"lock_ok_mq_set": "lockOKMQSet"}

    lock_ok_mq_set: tuple[MessageQueue, ...] = ()


@members
class CheckClientRequestBody(Body):
    """Subscription that the broker is asked to check."""

    client_id: str
    group: str
    namespace: str | None = None
    subscription_data: SubscriptionData


@members
class Connection(Body):
    """One client that is connected to a broker."""

    client_id: str
    client_addr: str | None = None
    language: str | None = None
    version: int = 0


@members
class ConsumerConnection(Body):
    """Members of a group and their subscriptions."""

    connection_set: tuple[Connection, ...] = ()
    subscription_table: dict[str, SubscriptionData] = field(default_factory=dict)
    consume_type: str | None = None
    message_model: str | None = None
    consume_from_where: str | None = None


@members
class ProducerConnection(Body):
    """Clients that produce in a group."""

    connection_set: tuple[Connection, ...] = ()


@members
class ResetOffsetBody(Body):
    """Offsets by queue, to which a group is reset."""

    offset_table: dict[MessageQueue, int] = field(default_factory=dict)


@members
class ProcessQueueInfo(Body):
    """State of one queue in a consumer that pulls."""

    wire_names: ClassVar = {"cached_msg_size_in_mib": "cachedMsgSizeInMiB"}

    commit_offset: int = 0
    cached_msg_min_offset: int = 0
    cached_msg_max_offset: int = 0
    cached_msg_count: int = 0
    cached_msg_size_in_mib: int = 0
    transaction_msg_min_offset: int = 0
    transaction_msg_max_offset: int = 0
    transaction_msg_count: int = 0
    locked: bool = False
    try_unlock_times: int = 0
    last_lock_timestamp: int = 0
    droped: bool = False
    last_pull_timestamp: int = 0
    last_consume_timestamp: int = 0


@members
class PopProcessQueueInfo(Body):
    """State of one queue in a consumer that pops."""

    wait_ack_count: int = 0
    droped: bool = False
    last_pop_timestamp: int = 0


@members
class ConsumeStatus(Body):
    """Rates and durations of pulling and consuming one topic, in one consumer."""

    wire_names: ClassVar = {
        "pull_rt": "pullRT",
        "pull_tps": "pullTPS",
        "consume_rt": "consumeRT",
        "consume_ok_tps": "consumeOKTPS",
        "consume_failed_tps": "consumeFailedTPS",
    }

    pull_rt: float = 0.0
    pull_tps: float = 0.0
    consume_rt: float = 0.0
    consume_ok_tps: float = 0.0
    consume_failed_tps: float = 0.0
    consume_failed_msgs: int = 0


@members
class ConsumerRunningInfo(Body):
    """State of one consumer."""

    properties: dict[str, str] = field(default_factory=dict)
    subscription_set: tuple[SubscriptionData, ...] = ()
    mq_table: dict[MessageQueue, ProcessQueueInfo] = field(default_factory=dict)
    mq_pop_table: dict[MessageQueue, PopProcessQueueInfo] | None = None
    status_table: dict[str, ConsumeStatus] = field(default_factory=dict)
    user_consumer_info: dict[str, str] | None = None
    jstack: str | None = None


@members
class ConsumeMessageDirectlyResult(Body):
    """Result of consuming one message at an operator's request."""

    order: bool = False
    auto_commit: bool = True
    consume_result: str | None = None
    remark: str | None = None
    spent_time_mills: int = 0


@members
class GroupList(Body):
    """Names of groups."""

    group_list: tuple[str, ...] = ()


@members
class QueryAssignmentRequestBody(Body):
    """A client's question which queues of a topic the broker assigns to it as a member of a group."""

    topic: str
    consumer_group: str
    client_id: str
    strategy_name: str | None = None
    message_model: str


@members
class MessageQueueAssignment(Body):
    """One assigned queue, and whether it is pulled or popped."""

    message_queue: MessageQueue | None = None
    mode: str = "PULL"
    attachments: dict[str, str] | None = None


@members
class QueryAssignmentResponseBody(Body):
    """Queues that the broker assigned to the client."""

    message_queue_assignments: tuple[MessageQueueAssignment, ...] = ()


@members
class SetMessageRequestModeRequestBody(Body):
    """The mode to set for a group and a topic: whether messages are pulled or popped."""

    topic: str
    consumer_group: str
    mode: str
    pop_share_queue_num: int = 0


# --- topics, groups, statistics --------------------------------------------------------------------------------------


@members
class TopicConfig(Body):
    """Configuration of a topic at one broker."""

    topic_name: str
    read_queue_nums: int = 16
    write_queue_nums: int = 16
    perm: int = 6
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: int = 0
    order: bool = False
    attributes: dict[str, str] | None = None


@members
class CreateTopicListRequestBody(Body):
    """Topics to create or change."""

    topic_config_list: tuple[TopicConfig, ...] = ()


@members
class TopicConfigSerializeWrapper(Body):
    """Configurations of all topics of a broker."""

    topic_config_table: dict[str, TopicConfig] = field(default_factory=dict)
    data_version: DataVersion | None = None


@members
class GroupRetryPolicy(Body):
    """Delays of a group's retries."""

    type: str = "CUSTOMIZED"
    exponential_retry_policy: dict[str, Any] | None = None
    customized_retry_policy: dict[str, Any] | None = None


@members
class SubscriptionGroupConfig(Body):
    """Configuration of a group at one broker; None leaves a setting to the broker.

    Brokers before 5.0 do not know some of the settings.
    """

    group_name: str
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool | None = None
    retry_queue_nums: int = 1
    retry_max_times: int = 16
    group_retry_policy: GroupRetryPolicy | None = None
    broker_id: int = 0
    which_broker_when_consume_slowly: int = 1
    notify_consumer_ids_changed_enable: bool = True
    group_sys_flag: int | None = None
    consume_timeout_minute: int | None = None
    attributes: dict[str, str] | None = None


@members
class SubscriptionGroupWrapper(Body):
    """Configurations of all groups of a broker."""

    subscription_group_table: dict[str, SubscriptionGroupConfig] = field(default_factory=dict)
    forbidden_table: dict[str, dict[str, int]] | None = None
    data_version: DataVersion | None = None


@members
class TopicOffset(Body):
    """Minimum and maximum offset of one queue.

    Both are required, because a queue without a maximum would look empty.
    """

    min_offset: int
    max_offset: int
    last_update_timestamp: int = 0


@members
class TopicStatsTable(Body):
    """Minimum and maximum offset of all queues of a topic at one broker."""

    offset_table: dict[MessageQueue, TopicOffset] = field(default_factory=dict)
    topic_put_tps: float | None = None


@members
class OffsetWrapper(Body):
    """A group's committed offset in one queue, and the queue's maximum offset."""

    broker_offset: int = 0
    consumer_offset: int = 0
    pull_offset: int | None = None
    last_timestamp: int = 0


@members
class ConsumeStats(Body):
    """A group's committed offset in each queue of one broker, and the queue's maximum offset."""

    offset_table: dict[MessageQueue, OffsetWrapper] = field(default_factory=dict)
    consume_tps: float = 0.0


@members
class QueueTimeSpan(Body):
    """Store times of one queue's first and last message, and of the last message that a group consumed."""

    message_queue: MessageQueue
    min_time_stamp: int = 0
    max_time_stamp: int = 0
    consume_time_stamp: int = 0
    delay_time: int = 0
    min_time_stamp_str: str | None = None
    max_time_stamp_str: str | None = None
    consume_time_stamp_str: str | None = None


@members
class QueryConsumeTimeSpanBody(Body):
    """Store times of each queue's first and last message, and of the last message that a group consumed."""

    consume_time_span_set: tuple[QueueTimeSpan, ...] = ()


# --- subscriptions ---------------------------------------------------------------------------------------------------

SUBSCRIBE_ALL = "*"
_JAVA_BLANKS = "".join(map(chr, range(33)))


def build_subscription(
    topic: str, expression: str = SUBSCRIBE_ALL, *, expression_type: str = "TAG", sub_version: int = 0
) -> SubscriptionData:
    """Return the subscription to a topic with a filter expression.

    With type TAG, the expression is `*` (or empty) for all messages, or tags separated by `||`. Brokers interpret
    expressions of other types. Raise `LocalProtocolError` for bars without a tag, and for an empty expression of
    another type.
    """
    tags: tuple[str, ...] = ()
    if expression_type == "TAG":
        expression = expression or SUBSCRIBE_ALL
        tags = () if expression == SUBSCRIBE_ALL else _parse_tags(expression)
    elif not expression:
        raise LocalProtocolError(f"an empty {expression_type} expression", advice="give a condition, or type TAG and *")
    return SubscriptionData(
        topic=topic,
        sub_string=expression,
        tags_set=tags,
        code_set=tuple(dict.fromkeys(map(java_hash, tags))),
        sub_version=sub_version,
        expression_type=expression_type,
    )


def _parse_tags(expression: str) -> tuple[str, ...]:
    parts = expression.split("||")
    if not any(parts):
        raise LocalProtocolError(f"the subscription '{expression}' names no tag", advice="give tags as 'A || B', or *")
    return tuple(dict.fromkeys(tag for part in parts if (tag := part.strip(_JAVA_BLANKS))))


# --- to the wire and back --------------------------------------------------------------------------------------------


def decode_body(cls: type[B], data: bytes | memoryview | str) -> B:
    """Return the body of class `cls` in these bytes.

    Raise `MalformedFrame` if it is illegal, `LimitExceeded` if it is too large; both name the class.
    """
    try:
        decoded: B = _reader(cast(Any, cls))(fastjson.parse(data))
    except LimitExceeded as error:
        error.what = f"{cls.__name__}: {error.what}"
        raise
    except (MalformedFrame, ValueError, TypeError, KeyError, AttributeError) as cause:
        raise MalformedFrame(f"unreadable {cls.__name__}: {getattr(cause, 'what', cause)}") from cause
    return decoded


def encode_body(body: Body, *, bare_integer_keys: bool = False) -> bytes:
    """Return the JSON text of a body, with members in alphabetical order as Java writes them.

    `bare_integer_keys` writes integer keys without quotes.
    """
    return fastjson.write(_members(body), bare_integer_keys=bare_integer_keys)


def _members(value: Any) -> Any:
    """Return the value with all bodies in it replaced by maps of their members."""
    if isinstance(value, Body):
        return {name: _members(item) for name, item in _written(value) if item is not None}
    if isinstance(value, dict):
        return {key: _members(item) for key, item in value.items()}
    if isinstance(value, tuple) and not isinstance(value, MessageQueue):
        return [_members(item) for item in value]
    return value


def _written(body: Body) -> list[tuple[str, Any]]:
    return [(name, getattr(body, attribute)) for name, attribute in _wire_order(cast(Any, type(body)))]


@cache
def _wire_order(cls: Any) -> list[tuple[str, str]]:
    return sorted((wire_name(cls, member.name), member.name) for member in fields(cls))


Reader = Callable[[Any], Any]


@cache
def _reader(annotation: Any) -> Reader:
    """Return a function that converts parsed JSON to a value of the annotated type."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is UnionType:
        return _reader(inner[0])
    if origin is tuple:
        return _tuple_reader(_reader(inner[0]))
    if origin is dict:
        return _dict_reader(_KEY_READERS[inner[0]], _reader(inner[1]))
    return _SCALAR_READERS.get(annotation) or _body_reader(annotation)


def _tuple_reader(read_item: Reader) -> Reader:
    return lambda values: tuple(map(read_item, _checked(values, list)))


def _dict_reader(read_key: Reader, read_item: Reader) -> Reader:
    return lambda values: {read_key(key): read_item(item) for key, item in _checked(values, dict).items()}


def _body_reader(cls: Any) -> Reader:
    """Return a function that converts parsed JSON to a body; a member that is null or absent gets its default."""
    hints = get_type_hints(cls)
    members = {name: (attribute, _reader(hints[attribute])) for name, attribute in _wire_order(cls)}

    def read(values: Any) -> Any:
        given = {}
        for name, value in _checked(values, dict).items():
            if value is not None and (member := members.get(name)):
                given[member[0]] = _read_member(name, member[1], value)
        return cls(**given)

    return read


def _read_member(name: str, read: Reader, value: Any) -> Any:
    try:
        return read(value)
    except OverflowError as cause:
        raise ValueError(f"{name}: {cause}") from cause


def _read_long(value: Any) -> int:
    """Return a JSON value as an integer; raise `OverflowError` above 64 bits, which Java peers could not read."""
    number: int = _checked(value, int)
    if not -(2**63) <= number < 2**63:
        raise OverflowError(f"{value!r:.60} is no 64-bit integer")
    return number


def _read_double(value: Any) -> float:
    """Return a JSON value as a double; raise `OverflowError` for an integer that is too large for one."""
    return float(_checked(value, float | int))


def _read_any(value: Any, levels: int = MOST_LEVELS) -> Any:
    """Return any JSON value unchanged; raise `ValueError` if it is nested too deeply to be written as JSON again."""
    if not levels:
        raise ValueError(f"nested deeper than {MOST_LEVELS} levels")
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _read_any(inner, levels - 1)
    return value


def _checked(value: Any, kind: type | UnionType) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise TypeError(f"{shorten(value)} is not {kind}")
    return value


def _scalar_reader(kind: type | UnionType) -> Reader:
    return lambda value: _checked(value, kind)


_KEY_READERS: dict[Any, Reader] = {str: str, int: lambda key: _read_long(int(key)), MessageQueue: fastjson.parse_queue}
_SCALAR_READERS: dict[Any, Reader] = {
    Any: _read_any,
    str: _scalar_reader(str),
    int: _read_long,
    bool: _scalar_reader(bool),
    float: _read_double,
    MessageQueue: fastjson.queue_of,
}
