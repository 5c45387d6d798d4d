"""Encode and decode the properties of a message as one text.

    name \\x01 value \\x02 name \\x01 value \\x02 …

There are no escapes, so a name or value that contains a separator cannot be stored; `encode_properties` checks the
properties to send. `parse_properties` reads texts of other clients by the rule of brokers 4.9.1 and later.
Some releases write a separator after the last value and some do not. This library writes it, because old brokers append
more properties without adding one.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from ..errors import DecodeError, LocalProtocolError

__all__ = [
    "MAX_BATCH_PROPERTIES_BYTES",
    "MAX_PROPERTIES_BYTES",
    "RESERVED_NAMES",
    "TRANSIENT_PREFIX",
    "decode_properties",
    "encode_properties",
    "is_reserved",
    "is_utf8",
    "java_hash",
    "join_properties",
    "parse_properties",
]

MAX_PROPERTIES_BYTES = 32767
"""Longest property text, limited by the signed 16-bit length field of a stored record."""

MAX_BATCH_PROPERTIES_BYTES = MAX_PROPERTIES_BYTES - 1024
"""Longest property text of a message in a batch.

Brokers up to 5.3.3 append the properties of the batch and some of their own, and do not check the sum. A message with
more than `MAX_PROPERTIES_BYTES` is acknowledged, and cannot be read. After it, a broker of 4.9.7 puts no message of any
topic into its queue.
"""

_NAME_END = "\x01"
_ENTRY_END = "\x02"

TRANSIENT_PREFIX = "__RMQ.TRANSIENT."
"""Prefix of property names that a client uses only for itself; they are not stored."""

RESERVED_NAMES = frozenset(
    """
    TAGS KEYS UNIQ_KEY WAIT DELAY MSG_TYPE MSG_REGION TRACE_ON CLUSTER INSTANCE_ID __SHARDINGKEY
    TIMER_DELIVER_MS TIMER_DELAY_MS TIMER_DELAY_SEC TIMER_OUT_MS TIMER_ENQUEUE_MS TIMER_DEQUEUE_MS
    TIMER_ROLL_TIMES TIMER_DELAY_LEVEL TIMER_DEL_UNIQKEY
    REAL_TOPIC REAL_QID RETRY_TOPIC ORIGIN_MESSAGE_ID RECONSUME_TIME MAX_RECONSUME_TIMES
    DLQ_ORIGIN_TOPIC DLQ_ORIGIN_MESSAGE_ID
    TRAN_MSG PGROUP __transactionId__ TRANSACTION_CHECK_TIMES CHECK_IMMUNITY_TIME_IN_SECONDS
    TRAN_PREPARED_QUEUE_OFFSET
    CORRELATION_ID REPLY_TO_CLIENT TTL ARRIVE_TIME PUSH_REPLY_TIME
    INNER_NUM INNER_BASE INNER_MULTI_DISPATCH INNER_MULTI_QUEUE_OFFSET
    POP_CK POP_CK_OFFSET 1ST_POP_TIME
    MIN_OFFSET MAX_OFFSET CONSUME_START_TIME
    BORN_TIMESTAMP __BORNHOST BUYER_ID TRANSFER_FLAG CORRECTION_FLAG MQ2_FLAG REDIRECT
    EXTEND_UNIQ_INFO DUP_INFO TRACE_CONTEXT __CRC32# PROPERTY_FORWARD_QUEUE_ID
    ORIGIN_GROUP TRANS_OFFSET TIMER_ROLL_LABEL _SYS_MSG_PRIORITY_ __LITE_TOPIC
    """.split()
)
"""Property names of RocketMQ itself, in release 5.5.0; all other names belong to the user."""


def is_reserved(name: str) -> bool:
    """Return whether a property name belongs to RocketMQ and not to the user."""
    return name in RESERVED_NAMES or name.startswith(TRANSIENT_PREFIX)


def is_utf8(text: bytes) -> bool:
    """Return whether bytes are a UTF-8 text, as names and values must be."""
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def parse_properties(text: str) -> dict[str, str]:
    """Return the properties in a property text, by name; the last value counts if a name occurs twice.

    Entries without a name, a separator or a value are dropped.
    """
    properties = {}
    for entry in text.split(_ENTRY_END):
        name, _, value = entry.partition(_NAME_END)
        if name and value:
            properties[name] = value
    return properties


def decode_properties(data: bytes | memoryview) -> dict[str, str]:
    """Return the properties, by name, given their stored bytes; raise `DecodeError` if these are not UTF-8."""
    try:
        return parse_properties(str(data, "utf-8"))
    except UnicodeDecodeError as cause:
        raise DecodeError(f"the properties are no UTF-8 text: {cause}") from cause


def join_properties(properties: Mapping[str, str]) -> str:
    """Return the property text without any checks, as brokers do when they store properties of other clients."""
    return "".join(f"{name}{_NAME_END}{value}{_ENTRY_END}" for name, value in properties.items())


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """Return the bytes of properties to send.

    Raise `LocalProtocolError` if a property could not be read back, or if all together are too long.
    """
    for name, value in properties.items():
        _check_part("name", name, name)
        _check_part("value", name, value)
    try:
        data = join_properties(properties).encode()
    except UnicodeEncodeError as cause:
        raise LocalProtocolError(f"the properties are no UTF-8 text: {cause}", advice="send valid Unicode") from cause
    if len(data) > MAX_PROPERTIES_BYTES:
        raise LocalProtocolError(
            f"properties of {len(data)} bytes, the limit is {MAX_PROPERTIES_BYTES}", advice="move data into the body"
        )
    return data


def _check_part(part: str, name: str, text: str) -> None:
    if not text.strip():
        raise LocalProtocolError(f"blank {part} of property {name!r}", advice="leave the property out")
    if _NAME_END in text or _ENTRY_END in text:
        raise LocalProtocolError(
            f"the {part} of property {name!r:.80} holds control character 1 or 2",
            advice="RocketMQ separates properties by them; encode the text, for example as base64",
        )


def java_hash(text: str) -> int:
    """Return Java's `String.hashCode`: a signed 32-bit number over UTF-16 units.

    Brokers store and filter tags by it.
    """
    value = 0
    for (unit,) in struct.iter_unpack(">H", text.encode("utf-16-be", "surrogatepass")):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (value >> 31 << 32)
