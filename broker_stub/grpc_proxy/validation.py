"""Check names and values in gRPC calls; raise StatusError for illegal ones."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from pyspark_rocketmq.errors import LocalProtocolError
from pyspark_rocketmq.grpc_v2.enums import Code, FilterType, MessageType
from pyspark_rocketmq.grpc_v2.times import from_duration, from_timestamp
from pyspark_rocketmq.grpc_v2.translation import HIDDEN_NAMES, read_properties, type_of
from pyspark_rocketmq.wire.bodies import SubscriptionData, TopicConfig, build_subscription

from ..filters import SQL92, TAG, make_filter, maybe_compile
from ..queue_scan import MessageFilter
from ..sql92 import MOST_FILTER_CHARACTERS
from ..topic_table import SYSTEM_PREFIX, SYSTEM_TOPICS
from .calls import StatusError

MAX_USER_PROPERTIES = 128
MAX_PROPERTIES_BYTES = 16 * 1024
MAX_MESSAGE_GROUP_BYTES = 63
MAX_DELAY_MS = 24 * 3600 * 1000
MAX_RECOVERY_MS = 3600 * 1000
_LONGEST_TOPIC, _LONGEST_GROUP = 127, 120
_LEGAL_NAME = re.compile(r"[%|a-zA-Z0-9_-]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")

_TYPE_ATTRIBUTE = "message.type"
_MIXED = (MessageType.NORMAL, MessageType.FIFO, MessageType.DELAY, MessageType.TRANSACTION)


def check_topic(resource: Any) -> str:
    """Return the topic's name; raise StatusError if it is illegal or a system topic."""
    name = str(resource.name)
    if not _is_legal(name, _LONGEST_TOPIC) or name in SYSTEM_TOPICS or name.startswith(SYSTEM_PREFIX):
        raise StatusError(Code.ILLEGAL_TOPIC, f"topic {name!r:.150} is blank, malformed, too long or a system topic")
    return name


def check_group(resource: Any) -> str:
    """Return the consumer group's name; raise StatusError if it is illegal."""
    name = str(resource.name)
    if not _is_legal(name, _LONGEST_GROUP):
        raise StatusError(Code.ILLEGAL_CONSUMER_GROUP, f"group {name!r:.150} is blank, malformed or too long")
    return name


def _is_legal(name: str, longest: int) -> bool:
    return len(name) <= longest and _LEGAL_NAME.fullmatch(name) is not None


# --- filters ---------------------------------------------------------------------------------------------------------


def read_subscription(topic: str, expression: Any, version: int = 0) -> SubscriptionData:
    """Return the subscription that corresponds to a gRPC filter expression; an empty expression matches everything."""
    kind, length = SQL92 if expression.type == FilterType.SQL else TAG, len(expression.expression)
    if length > MOST_FILTER_CHARACTERS:
        what = f"a filter of {length} characters, the limit is {MOST_FILTER_CHARACTERS}"
        raise StatusError(Code.ILLEGAL_FILTER_EXPRESSION, what)
    try:
        subscription = build_subscription(topic, expression.expression, expression_type=kind, sub_version=version)
    except LocalProtocolError as cause:
        raise StatusError(Code.ILLEGAL_FILTER_EXPRESSION, cause.what) from cause
    if kind == SQL92 and maybe_compile(subscription.sub_string, kind) is None:
        raise StatusError(Code.ILLEGAL_FILTER_EXPRESSION, f"no SQL92: {subscription.sub_string!r:.150}")
    return subscription


def filter_of(subscription: SubscriptionData) -> MessageFilter | None:
    """Return the filter of a subscription; None if it matches everything."""
    return make_filter(subscription, maybe_compile(subscription.sub_string, subscription.expression_type))


# --- sent messages ---------------------------------------------------------------------------------------------------


def accepted_types(config: TopicConfig, *, like_apache: bool) -> tuple[MessageType, ...]:
    """Return the message types that a topic accepts.

    A topic without a type accepts all types; at Apache's proxy it accepts NORMAL only.
    """
    name = (config.attributes or {}).get(_TYPE_ATTRIBUTE)
    if name is None:
        return (MessageType.NORMAL,) if like_apache else _MIXED
    if name == "MIXED":
        return _MIXED
    return (MessageType.__members__.get(name, MessageType.UNSPECIFIED),)


def check_message(message: Any, types: Iterable[MessageType], max_body_bytes: int, now_ms: int) -> None:
    """Raise StatusError if a message's type, size, properties or times are not acceptable."""
    _check_body(message.body, max_body_bytes)
    _check_user_properties(message.user_properties)
    _check_system_properties(message.system_properties)
    _check_size(message)
    _check_times(message.system_properties, now_ms)
    if type_of(read_properties(message)) not in types:
        raise StatusError(Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, "the topic does not take messages of this type")


def _check_body(body: bytes, max_bytes: int) -> None:
    if not body:
        raise StatusError(Code.MESSAGE_BODY_EMPTY, "the message has no body")
    if len(body) > max_bytes:
        raise StatusError(Code.MESSAGE_BODY_TOO_LARGE, f"the body has {len(body)} bytes, the limit is {max_bytes}")


def _check_user_properties(properties: Any) -> None:
    if len(properties) > MAX_USER_PROPERTIES:
        raise StatusError(Code.MESSAGE_PROPERTIES_TOO_LARGE, f"more than {MAX_USER_PROPERTIES} properties")
    for name, value in properties.items():
        if name in HIDDEN_NAMES or _CONTROL.search(name + value):
            raise StatusError(Code.ILLEGAL_MESSAGE_PROPERTY_KEY, f"property {name!r:.80} is reserved or not plain text")


def _check_system_properties(system: Any) -> None:
    if not system.message_id.strip():
        raise StatusError(Code.ILLEGAL_MESSAGE_ID, "the message has no id")
    if system.HasField("tag") and (not system.tag.strip() or "|" in system.tag or _CONTROL.search(system.tag)):
        raise StatusError(Code.ILLEGAL_MESSAGE_TAG, "the tag is blank, contains a bar or is not plain text")
    if any(not key.strip() or _CONTROL.search(key) for key in system.keys):
        raise StatusError(Code.ILLEGAL_MESSAGE_KEY, "a key is blank or not plain text")
    if system.HasField("message_group"):
        group = system.message_group
        if not group.strip() or len(group.encode()) > MAX_MESSAGE_GROUP_BYTES or _CONTROL.search(group):
            raise StatusError(Code.ILLEGAL_MESSAGE_GROUP, "the message group is blank, too long or not plain text")


def _check_size(message: Any) -> None:
    system = message.system_properties
    texts = [system.tag, *system.keys, *message.user_properties.keys(), *message.user_properties.values()]
    if sum(len(text.encode()) for text in texts) > MAX_PROPERTIES_BYTES:
        raise StatusError(Code.MESSAGE_PROPERTIES_TOO_LARGE, f"more than {MAX_PROPERTIES_BYTES} bytes of properties")


def _check_times(system: Any, now_ms: int) -> None:
    if system.HasField("delivery_timestamp") and from_timestamp(system.delivery_timestamp) - now_ms > MAX_DELAY_MS:
        raise StatusError(Code.ILLEGAL_DELIVERY_TIME, f"delayed by more than {MAX_DELAY_MS} ms")
    if system.HasField("orphaned_transaction_recovery_duration"):
        if from_duration(system.orphaned_transaction_recovery_duration) > MAX_RECOVERY_MS:
            raise StatusError(Code.BAD_REQUEST, f"the recovery duration exceeds {MAX_RECOVERY_MS} ms")
