"""Encode and decode messages as brokers store them.

    totalSize 4 | magic 4 | bodyCRC 4 | queueId 4 | flag 4 | queueOffset 8 | physicalOffset 8 | sysFlag 4
    bornTimestamp 8 | bornHost 8 or 20 | storeTimestamp 8 | storeHost 8 or 20
    reconsumeTimes 4 | preparedTransactionOffset 8
    bodyLength 4, body | topicLength 1 (V1) or 2 (V2), topic | propertiesLength 2, properties

The commit log, the body of a response to a pull, and the bodies of look-ups by id or key consist of such records, one
after another. This module is the slow reference decoder; faster decoders must give the same results.

A record whose sizes do not add up is an error, never the end of the records: bytes after it cannot be trusted.
A compressed body, the property text and the CRC are examined only on request. So the error about an unreadable body can
name its message, and that message can be skipped.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import islice

from ..errors import DecodeError, LocalProtocolError, located
from ..model import Address
from .batch import BatchEntry, iterate_batch
from .codes import SysFlag, TransactionState, transaction_state
from .compression import MAX_UNPACKED_BYTES, compression_of, decompress
from .frame import read_sized, write_sized
from .host import decode_host, encode_host, is_ipv6
from .message_id import encode_offset_message_id
from .properties import decode_properties

__all__ = [
    "MAGIC_V1",
    "MAGIC_V2",
    "MOST_INNER_MESSAGES",
    "Record",
    "decode_record",
    "decode_records",
    "encode_record",
    "is_at_file_start",
    "message_count_of",
    "stated_count",
    "stored_crc",
    "stored_crcs",
    "unwrap_inner_batch",
]

MAGIC_V1 = 0xDAA320A7
MAGIC_V2 = 0xDAA320AB
"""Magic number of the second layout, for topics of more than 127 bytes."""

_HEAD = struct.Struct(">iIiiiqqiq")  # total size to born timestamp
_STORE_TIMESTAMP = struct.Struct(">q")
_RETRIES = struct.Struct(">iq")  # reconsume times, prepared transaction offset
_BODY_WIDTH, _PROPERTIES_WIDTH = 4, 2
_TOPIC_WIDTH = {MAGIC_V1: 1, MAGIC_V2: 2}
_LONGEST_V1_TOPIC = 127

_FILE_STEP = 2**16
"""A number that divides the usual sizes of a commit log's files; where other sizes are set, file starts are missed."""

MOST_INNER_MESSAGES = 2**15 - 1
"""Largest number of messages in an inner batch: brokers store it as a signed 16-bit number."""

_INNER_COUNT = re.compile(rb"(?:^|\x02)INNER_NUM\x01([0-9]{1,9})(?:\x02|$)")
_CRC_BITS = 0x7FFFFFFF
_BROKEN = "the rest of this response cannot be trusted; check the broker's store around this message"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One stored message, with its fields as they are stored."""

    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    born_timestamp: int
    born_host: Address
    store_timestamp: int
    store_host: Address
    body: bytes
    properties_text: bytes = b""
    flag: int = 0
    sys_flag: int = 0
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    magic: int = MAGIC_V1
    body_crc: int = 0
    """CRC that was read; `encode_record` ignores it and computes the CRC."""
    total_size: int = 0
    """Size that was read; `encode_record` ignores it and computes the size."""

    @property
    def transaction_state(self) -> TransactionState:
        """State of the message in a transaction, from its sysFlag."""
        return transaction_state(self.sys_flag)

    @property
    def is_inner_batch(self) -> bool:
        """Whether the body holds several messages, which `unwrap_inner_batch` returns."""
        both = SysFlag.NEED_UNWRAP | SysFlag.INNER_BATCH
        return self.sys_flag & both == both

    @property
    def offset_message_id(self) -> str:
        """Message id given by the broker: store host and commit-log offset."""
        return encode_offset_message_id(self.store_host, self.physical_offset)

    @property
    def properties(self) -> dict[str, str]:
        """Values of all properties by name, RocketMQ's own included; raises `DecodeError` if they are not UTF-8."""
        with self._located():
            return decode_properties(self.properties_text)

    def unpacked_body(self, limit: int = MAX_UNPACKED_BYTES) -> bytes:
        """Return the decompressed body; raise `DecodeError` if it is damaged or has more than `limit` bytes."""
        with self._located():
            compression = compression_of(self.sys_flag)
            return self.body if compression is None else decompress(self.body, compression, limit)

    def check_crc(self) -> None:
        """Raise `DecodeError` if the CRC of the stored (perhaps compressed) body differs from the stored CRC."""
        if self.body_crc != (actual := stored_crc(self.body)):
            with self._located():
                raise DecodeError(
                    f"at commit-log offset {self.physical_offset} the body's CRC is {actual:#010x}, "
                    f"stored was {self.body_crc:#010x}",
                    advice="compare the message at a replica, and check the broker's disk and the network",
                )

    def _located(self) -> AbstractContextManager[None]:
        """Return a context manager that adds topic, queue and offset to errors raised inside it."""
        return located({"topic": self.topic, "queue_id": self.queue_id, "offset": self.queue_offset})


def is_at_file_start(physical_offset: int) -> bool:
    """Return whether a record at this offset of the commit log may begin a file of the log, except for the first file.

    The sizes of the files are usually multiples of 64 KiB, and so are the offsets at which files begin.
    """
    return physical_offset > 0 and physical_offset % _FILE_STEP == 0


def stored_crc(body: bytes) -> int:
    """Return the CRC that brokers store for a body: CRC-32 without its highest bit."""
    return zlib.crc32(body) & _CRC_BITS


def stored_crcs(data: memoryview, starts: Iterable[int], ends: Iterable[int]) -> list[int]:
    """Return the CRC that brokers store for each body `data[start:end]`: CRC-32 without its highest bit."""
    crc32 = zlib.crc32
    return [crc32(data[start:end]) & _CRC_BITS for start, end in zip(starts, ends, strict=True)]


# --- reading ---------------------------------------------------------------------------------------------------------


def decode_records(body: bytes | memoryview) -> list[Record]:
    """Return all records of a response; raise `DecodeError` unless the records fill the body exactly."""
    records, at = [], 0
    while at < len(body):
        record, at = decode_record(body, at)
        records.append(record)
    return records


def decode_record(body: bytes | memoryview, at: int = 0) -> tuple[Record, int]:
    """Return the record that begins at byte `at`, and the position of its end; raise `DecodeError` if it is damaged."""
    try:
        record = _decode(memoryview(body)[at:])
    except (struct.error, ValueError) as cause:
        raise DecodeError(f"damaged record at byte {at} of {len(body)}: {cause}", advice=_BROKEN) from cause
    return record, at + record.total_size


def _decode(view: memoryview) -> Record:
    """Return the record at the start of a view; raise `ValueError` or `struct.error` if it is damaged."""
    size, magic, crc, queue_id, flag, queue_offset, physical_offset, sys_flag, born = _HEAD.unpack_from(view)
    if magic not in _TOPIC_WIDTH:
        raise ValueError(f"unknown magic {magic:#010x}")
    if not 0 < size <= len(view):
        raise ValueError(f"it says {size} bytes, {len(view)} are there")
    view = view[:size]
    born_host, at = _read_host(view, _HEAD.size, sys_flag & SysFlag.BORN_HOST_V6)
    (stored,) = _STORE_TIMESTAMP.unpack_from(view, at)
    store_host, at = _read_host(view, at + _STORE_TIMESTAMP.size, sys_flag & SysFlag.STORE_HOST_V6)
    reconsume_times, prepared_offset = _RETRIES.unpack_from(view, at)
    body, at = read_sized(view, at + _RETRIES.size, _BODY_WIDTH)
    topic, at = read_sized(view, at, _TOPIC_WIDTH[magic])
    properties, at = read_sized(view, at, _PROPERTIES_WIDTH)
    if at != size:
        raise ValueError(f"its fields take {at} bytes, its total size says {size}")
    return Record(
        total_size=size,
        magic=magic,
        body_crc=crc,
        queue_id=queue_id,
        flag=flag,
        queue_offset=queue_offset,
        physical_offset=physical_offset,
        sys_flag=sys_flag,
        born_timestamp=born,
        born_host=born_host,
        store_timestamp=stored,
        store_host=store_host,
        reconsume_times=reconsume_times,
        prepared_transaction_offset=prepared_offset,
        body=bytes(body),
        topic=str(topic, "utf-8"),
        properties_text=bytes(properties),
    )


def _read_host(view: memoryview, at: int, is_v6: int) -> tuple[Address, int]:
    end = at + (20 if is_v6 else 8)
    return decode_host(view[at:end]), end


def unwrap_inner_batch(record: Record, limit: int = MAX_UNPACKED_BYTES) -> list[Record]:
    """Return the messages of an inner batch; for any other record, return the record itself.

    As in the Java client, each message has its own offset, flag, body and properties; it has the other fields of the
    batch. Bodies are decompressed, so the bit for compressed bodies is cleared in sysFlag. A pull that asks for an
    offset inside the batch gets the whole batch, so offsets may be lower than the one asked for.
    """
    if not record.is_inner_batch:
        return [record]
    entries = _entries_of(record, limit)
    return [
        replace(
            record,
            queue_offset=record.queue_offset + index,
            flag=entry.flag,
            sys_flag=record.sys_flag & ~SysFlag.COMPRESSED,
            body=entry.body,
            body_crc=stored_crc(entry.body),
            properties_text=entry.properties_text,
        )
        for index, entry in enumerate(entries)
    ]


def _entries_of(record: Record, limit: int) -> list[BatchEntry]:
    """Return the messages in an inner batch; raise `DecodeError` if it is damaged, or no broker can have stored it."""
    body, stated = record.unpacked_body(limit), stated_count(record)
    with record._located():
        _refuse_more(stated)
        entries = list(islice(iterate_batch(body), MOST_INNER_MESSAGES + 1))
        if not entries:
            raise DecodeError("an inner batch without messages")
        _refuse_more(len(entries))
        if len(entries) != (stated or len(entries)):
            raise DecodeError(f"an inner batch of {stated} messages holds {len(entries)}")
    return entries


def _refuse_more(count: int) -> None:
    if count > MOST_INNER_MESSAGES:
        what = f"an inner batch of more than {MOST_INNER_MESSAGES} messages, which brokers cannot number"
        raise DecodeError(what, advice="check the broker's store around this message")


def message_count_of(record: Record) -> int:
    """Return the number of messages in a record, each of which has an offset: 1, except for an inner batch.

    If the property INNER_NUM of an inner batch does not state the number, the batch is unpacked to count its messages.
    Raise `DecodeError` if the number is larger than brokers can store.
    """
    if not record.is_inner_batch:
        return 1
    stated = stated_count(record)
    with record._located():
        _refuse_more(stated)
    return stated or len(_entries_of(record, MAX_UNPACKED_BYTES))


def stated_count(record: Record) -> int:
    """Return the number of messages that the property INNER_NUM of an inner batch states; 0 without this property."""
    stated = _INNER_COUNT.search(record.properties_text)
    return int(stated[1]) if stated else 0


# --- writing ---------------------------------------------------------------------------------------------------------


def encode_record(record: Record) -> bytes:
    """Return the bytes of a record, with computed sizes and CRC, and magic V2 if the topic is too long for V1."""
    try:
        return _encode(record)
    except (struct.error, UnicodeEncodeError) as cause:
        raise LocalProtocolError(f"a record that cannot be stored: {cause}", advice="check its fields") from cause


def _encode(record: Record) -> bytes:
    topic = record.topic.encode()
    magic = MAGIC_V2 if len(topic) > _LONGEST_V1_TOPIC else record.magic
    tail = b"".join(
        (
            _encode_host(record.born_host, record.sys_flag & SysFlag.BORN_HOST_V6),
            _STORE_TIMESTAMP.pack(record.store_timestamp),
            _encode_host(record.store_host, record.sys_flag & SysFlag.STORE_HOST_V6),
            _RETRIES.pack(record.reconsume_times, record.prepared_transaction_offset),
            write_sized(record.body, _BODY_WIDTH, "a body"),
            write_sized(topic, _TOPIC_WIDTH[magic], "a topic"),
            write_sized(record.properties_text, _PROPERTIES_WIDTH, "properties"),
        )
    )
    return _encode_head(record, magic, _HEAD.size + len(tail)) + tail


def _encode_head(record: Record, magic: int, total_size: int) -> bytes:
    return _HEAD.pack(
        total_size,
        magic,
        stored_crc(record.body),
        record.queue_id,
        record.flag,
        record.queue_offset,
        record.physical_offset,
        record.sys_flag,
        record.born_timestamp,
    )


def _encode_host(host: Address, is_v6: int) -> bytes:
    if is_ipv6(host) != bool(is_v6):
        raise LocalProtocolError(f"sysFlag and host {host} disagree about IPv6", advice="set or clear its sysFlag bit")
    return encode_host(host)
