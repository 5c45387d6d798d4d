"""Find where each record of a response begins, and which offset is written in the first record.

A scan reads only the size and magic of each record and steps to the next one. If all records have the same size, as
messages of one kind often have, no scan is needed: one `unpack` reads size and magic of all records, which must be
equal.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache

from ..errors import AnswerMismatch
from ..model import MessageQueue
from .record import MAGIC_V1, MAGIC_V2, decode_record

__all__ = ["MIN_RECORD_BYTES", "first_queue_offset", "mismatch", "record_starts"]

MIN_RECORD_BYTES = 91
"""Size of the smallest record: IPv4 hosts, and empty body, topic and properties."""

_HEAD = struct.Struct(">iI")  # total size, magic
_QUEUE_OFFSET = struct.Struct(">20xq")
_MAGICS = (MAGIC_V1, MAGIC_V2)
_MOST_UNPACKED = 1024
"""Largest number of records that one `unpack` reads: as many as a pull may ask for; a struct for more is large."""


def record_starts(body: bytes | memoryview) -> Sequence[int]:
    """Return where each record begins.

    Raise `DecodeError` unless all have known magics and fill the response exactly.
    """
    return _starts_of_one_size(body) or _walk(body)


def first_queue_offset(body: bytes | memoryview) -> int:
    """Return the offset that is written in the first record of a response; raise `DecodeError` if there is none."""
    try:
        offset: int = _QUEUE_OFFSET.unpack_from(body)[0]
    except struct.error:
        return decode_record(body)[0].queue_offset
    return offset


def _starts_of_one_size(body: bytes | memoryview) -> Sequence[int]:
    """Return where the records begin if all have the size and magic of the first one; else return an empty sequence."""
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
