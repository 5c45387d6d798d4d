"""Find where each record of a response begins, the offset in the first record, and the size of all message bodies.

A scan reads only the size and magic of each record and steps to the next one. If all records have the same size, as
messages of one kind often have, no scan is needed: one `unpack` reads size and magic of all records, which must be
equal.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache

from ..errors import AnswerMismatch, DecodeError
from ..model import MessageQueue
from .codes import SysFlag
from .record import MAGIC_V1, MAGIC_V2, decode_record

__all__ = ["MIN_RECORD_BYTES", "body_bytes", "first_queue_offset", "mismatch", "record_starts"]

MIN_RECORD_BYTES = 91
"""Size of the smallest record: IPv4 hosts, and empty body, topic and properties."""

_HEAD = struct.Struct(">iI")  # total size, magic
_QUEUE_OFFSET = struct.Struct(">20xq")
_SYS_FLAG = struct.Struct(">36xi")
_BODY_LENGTH = struct.Struct(">i")
_BODY_AT, _MORE_OF_IPV6 = 84, 12
"""The position of the body's length in a record with IPv4 hosts, and the bytes by which an IPv6 host moves it."""
_MAGICS = (MAGIC_V1, MAGIC_V2)
_MOST_UNPACKED = 1024
"""Largest number of records that one `unpack` reads: as many as a pull may ask for; a struct for more is large."""


def record_starts(body: bytes | memoryview) -> Sequence[int]:
    """Return the position in the response at which each record begins.

    Raise `DecodeError` unless each record has a known magic and the records fill the response exactly.
    """
    return _starts_of_one_size(body) or _walk(body)


def first_queue_offset(body: bytes | memoryview) -> int:
    """Return the queue offset that the first record of a response states; raise `DecodeError` for an incomplete one."""
    try:
        offset: int = _QUEUE_OFFSET.unpack_from(body)[0]
    except struct.error:
        return decode_record(body)[0].queue_offset
    return offset


def body_bytes(response: bytes | memoryview) -> int:
    """Return the sum of the sizes of all message bodies in a response, as stored (not decompressed).

    If the records are damaged, return the size of the whole response; the decoder will raise the error.
    """
    try:
        return sum(_body_bytes_at(response, at) for at in record_starts(response))
    except (DecodeError, struct.error):
        return len(response)


def _body_bytes_at(response: bytes | memoryview, at: int) -> int:
    (sys_flag,) = _SYS_FLAG.unpack_from(response, at)
    hosts_v6 = bool(sys_flag & SysFlag.BORN_HOST_V6) + bool(sys_flag & SysFlag.STORE_HOST_V6)
    length: int = _BODY_LENGTH.unpack_from(response, at + _BODY_AT + hosts_v6 * _MORE_OF_IPV6)[0]
    return min(max(0, length), len(response))


def _starts_of_one_size(body: bytes | memoryview) -> Sequence[int]:
    """Return the position at which each record begins, if all have the size and magic of the first one.

    Return an empty sequence if they do not.
    """
    total = len(body)
    if total < MIN_RECORD_BYTES:
        return ()
    size, magic = _HEAD.unpack_from(body)
    if size < MIN_RECORD_BYTES or total % size or magic not in _MAGICS:
        return ()
    if total == size:
        return (0,)
    if total > size * _MOST_UNPACKED:
        return ()
    heads = _every_head(size, total // size).unpack(body)
    return range(0, total, size) if heads.count(heads[0]) == len(heads) else ()


@lru_cache(maxsize=256)
def _every_head(size: int, count: int) -> struct.Struct:
    """Return the struct that reads size and magic (as one number) of each of `count` records of `size` bytes."""
    return struct.Struct(">" + f"Q{size - _HEAD.size}x" * count)


def _walk(body: bytes | memoryview) -> list[int]:
    v1, v2, least, read = MAGIC_V1, MAGIC_V2, MIN_RECORD_BYTES, _HEAD.unpack_from
    starts: list[int] = []
    at, end = 0, len(body)
    try:
        while at < end:
            size, magic = read(body, at)
            if (magic != v1 and magic != v2) or size < least:
                break
            starts.append(at)
            at += size
    except struct.error:
        pass
    if at != end:
        # The reference decoder raises the error about the record at which this scan stopped.
        decode_record(body, at if at < end else starts[-1])
    return starts


def mismatch(queue: MessageQueue, first: int, what: str) -> AnswerMismatch:
    """Return the error about a wrong response to a pull from offset `first`; `what` says what is wrong with it."""
    return AnswerMismatch(
        f"the response to a pull from {first} {what}",
        advice="check the broker's store, and any proxy between the broker and this reader",
        topic=queue.topic,
        broker=queue.broker_name,
        queue_id=queue.queue_id,
        offset=first,
    )
