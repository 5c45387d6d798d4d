"""Translate messages of the gRPC API to and from messages as brokers store them.

Brokers store a topic, a body, and properties, which are texts. The gRPC API has typed fields for most properties of
RocketMQ, and a map for the user's properties. Servers hide most of RocketMQ's properties from users; the map also has
those that they do not hide, as with the proxy of Apache RocketMQ.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..model import Address
from .enums import AddressScheme, DigestType, Encoding, MessageType
from .schema import message_class
from .times import from_duration, from_timestamp, to_timestamp

__all__ = [
    "HIDDEN_NAMES",
    "StoredMessage",
    "addresses_of",
    "endpoints_of",
    "is_packed",
    "read_message",
    "read_properties",
    "type_of",
    "write_message",
]

_Message, _Resource, _Endpoints, _Address = map(message_class, ("Message", "Resource", "Endpoints", "Address"))
_Digest, _DeadLetterQueue = map(message_class, ("Digest", "DeadLetterQueue"))

HIDDEN_NAMES = frozenset(
    """
    TRACE_ON MSG_REGION KEYS TAGS WAIT DELAY RETRY_TOPIC REAL_TOPIC REAL_QID TRAN_MSG PGROUP
    MIN_OFFSET MAX_OFFSET BUYER_ID ORIGIN_MESSAGE_ID TRANSFER_FLAG CORRECTION_FLAG MQ2_FLAG RECONSUME_TIME
    UNIQ_KEY MAX_RECONSUME_TIMES CONSUME_START_TIME POP_CK POP_CK_OFFSET 1ST_POP_TIME
    TRAN_PREPARED_QUEUE_OFFSET EXTEND_UNIQ_INFO INSTANCE_ID CORRELATION_ID REPLY_TO_CLIENT TTL
    ARRIVE_TIME PUSH_REPLY_TIME CLUSTER MSG_TYPE INNER_MULTI_QUEUE_OFFSET
    TIMER_DELAY_MS TIMER_DELAY_SEC TIMER_DELIVER_MS TIMER_ENQUEUE_MS TIMER_DEQUEUE_MS TIMER_ROLL_TIMES
    TIMER_OUT_MS TIMER_DEL_UNIQKEY TIMER_DELAY_LEVEL __SHARDINGKEY __BORNHOST BORN_TIMESTAMP
    DLQ_ORIGIN_TOPIC DLQ_ORIGIN_MESSAGE_ID __CRC32# DUP_INFO
    """.split()
)
"""Properties that servers do not show in the map of user properties."""

_DELAYS = ("DELAY", "TIMER_DELIVER_MS", "TIMER_DELAY_SEC")


# --- addresses -------------------------------------------------------------------------------------------------------


def endpoints_of(addresses: Iterable[Address]) -> Any:
    """Return an Endpoints message with these addresses.

    The message's scheme (IPv4 or IPv6) is that of the first address.
    """
    addresses = tuple(addresses)
    is_v6 = any(":" in address.host for address in addresses[:1])
    return _Endpoints(
        scheme=AddressScheme.IPv6 if is_v6 else AddressScheme.IPv4,
        addresses=[_Address(host=address.host, port=address.port) for address in addresses],
    )


def addresses_of(endpoints: Any) -> tuple[Address, ...]:
    """Return the addresses in an Endpoints message."""
    return tuple(Address(address.host, address.port) for address in endpoints.addresses)


# --- sent messages ---------------------------------------------------------------------------------------------------


class _Typed(NamedTuple):
    """A typed field of the API, the property that stores it, and the function that converts its value to text."""

    field: str
    property: str
    write: Callable[[Any], str] = str


_TYPED = (
    _Typed("tag", "TAGS"),
    _Typed("keys", "KEYS", " ".join),
    _Typed("message_id", "UNIQ_KEY"),
    _Typed("message_group", "__SHARDINGKEY"),
    _Typed("delivery_timestamp", "TIMER_DELIVER_MS", lambda time: str(from_timestamp(time))),
    _Typed("born_timestamp", "BORN_TIMESTAMP", lambda time: str(from_timestamp(time))),
    _Typed("born_host", "__BORNHOST"),
    _Typed("delivery_attempt", "RECONSUME_TIME"),
    _Typed("trace_context", "TRACE_CONTEXT"),
    _Typed(
        "orphaned_transaction_recovery_duration",
        "CHECK_IMMUNITY_TIME_IN_SECONDS",
        lambda duration: str(from_duration(duration) // 1000),
    ),
    _Typed("lite_topic", "__LITE_TOPIC"),
    _Typed("priority", "_SYS_MSG_PRIORITY_"),
)


def read_properties(message: Any) -> dict[str, str]:
    """Return the properties that a broker stores for a message that a producer sends."""
    system = message.system_properties
    properties = dict(message.user_properties)
    present = {field.name for field, _ in system.ListFields()}
    for typed in _TYPED:
        if typed.field in present and (text := typed.write(getattr(system, typed.field))):
            properties[typed.property] = text
    if system.message_type == MessageType.TRANSACTION:
        properties["TRAN_MSG"] = "true"
    properties["PGROUP"] = message.topic.name
    return properties


def is_packed(message: Any) -> bool:
    """Return whether the body of a message is compressed; only the body's first bytes show in which format."""
    return bool(message.system_properties.body_encoding == Encoding.GZIP)


# --- delivered messages ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMessage:
    """A message as a broker stores it, limited to fields that the gRPC API can express."""

    topic: str
    queue_id: int
    queue_offset: int
    body: bytes
    is_packed: bool = False
    properties: Mapping[str, str]
    born_timestamp: int
    born_host: str
    store_timestamp: int
    store_host: str
    reconsume_times: int = 0
    message_id: str = ""
    """Message id given by the broker; it is shown if the producer gave none."""


def type_of(properties: Mapping[str, str]) -> MessageType:
    """Return the type of a message (transaction, delay, FIFO or normal), given its properties."""
    if "TRAN_MSG" in properties:
        return MessageType.TRANSACTION
    if any(name in properties for name in _DELAYS):
        return MessageType.DELAY
    return MessageType.FIFO if "__SHARDINGKEY" in properties else MessageType.NORMAL


def write_message(stored: StoredMessage) -> Any:
    """Return a stored message as the API's message for consumers; the caller adds the receipt handle."""
    message = _Message(
        topic=_Resource(name=stored.topic),
        user_properties={name: value for name, value in stored.properties.items() if name not in HIDDEN_NAMES},
        body=stored.body,
    )
    system = message.system_properties
    _write_place(system, stored)
    _write_properties(system, stored.properties)
    system.message_id = stored.properties.get("UNIQ_KEY") or stored.message_id
    system.body_encoding = Encoding.GZIP if stored.is_packed else Encoding.IDENTITY
    checksum = hashlib.md5(stored.body, usedforsecurity=False).hexdigest().upper()
    system.body_digest.CopyFrom(_Digest(type=DigestType.MD5, checksum=checksum))
    return message


def _write_place(system: Any, stored: StoredMessage) -> None:
    """Copy a stored message's queue, offset, delivery attempt, times and hosts to the API's system properties."""
    system.born_timestamp.CopyFrom(to_timestamp(stored.born_timestamp))
    system.born_host = stored.properties.get("__BORNHOST") or stored.born_host
    system.store_timestamp.CopyFrom(to_timestamp(stored.store_timestamp))
    system.store_host = stored.store_host
    system.queue_id, system.queue_offset = stored.queue_id, stored.queue_offset
    system.delivery_attempt = stored.reconsume_times + 1


def _write_properties(system: Any, properties: Mapping[str, str]) -> None:
    system.message_type = type_of(properties)
    system.keys.extend(properties.get("KEYS", "").split())
    for field, name in (("tag", "TAGS"), ("message_group", "__SHARDINGKEY"), ("trace_context", "TRACE_CONTEXT")):
        if properties.get(name):
            setattr(system, field, properties[name])
    if properties.get("TIMER_DELIVER_MS", "").isdecimal():
        system.delivery_timestamp.CopyFrom(to_timestamp(int(properties["TIMER_DELIVER_MS"])))
    if {"DLQ_ORIGIN_TOPIC", "DLQ_ORIGIN_MESSAGE_ID"} <= properties.keys():
        system.dead_letter_queue.CopyFrom(
            _DeadLetterQueue(topic=properties["DLQ_ORIGIN_TOPIC"], message_id=properties["DLQ_ORIGIN_MESSAGE_ID"])
        )


def read_message(message: Any) -> StoredMessage:
    """Convert a message that a consumer received to a stored message, without properties that the API leaves out."""
    system = message.system_properties
    properties = read_properties(message)
    for unstored in ("PGROUP", "RECONSUME_TIME", "BORN_TIMESTAMP", "__BORNHOST"):
        properties.pop(unstored, None)
    return StoredMessage(
        topic=message.topic.name,
        queue_id=system.queue_id,
        queue_offset=system.queue_offset,
        body=message.body,
        is_packed=is_packed(message),
        properties=properties,
        born_timestamp=from_timestamp(system.born_timestamp),
        born_host=system.born_host,
        store_timestamp=from_timestamp(system.store_timestamp),
        store_host=system.store_host,
        reconsume_times=max(0, system.delivery_attempt - 1),
        message_id=system.message_id,
    )
