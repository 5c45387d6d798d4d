"""Where does each record of an answer begin, and which offset does the first hold?

One walk over the size fields; nothing else is decoded. Reading cannot avoid this loop over single messages, unless
all of them are of one size, as messages of one kind often are: then each record's first eight bytes, size and magic,
are those of the first record, and one reading of all of them shows it.
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
"""IPv4 hosts; body, topic and properties empty."""

_HEAD = struct.Struct(">iI")  # total size, magic
_QUEUE_OFFSET = struct.Struct(">20xq")
_MAGICS = (MAGIC_V1, MAGIC_V2)


def record_starts(body: bytes | memoryview) -> Sequence[int]:
    """Where each record begins; the records must fill the answer exactly and have a known magic."""
    return _starts_of_one_size(body) or _walk(body)


def first_queue_offset(body: bytes | memoryview) -> int:
    """The offset that the first of an answer's records holds."""
    try:
        offset: int = _QUEUE_OFFSET.unpack_from(body)[0]
    except struct.error:
        return decode_record(body)[0].queue_offset
    return offset


def _starts_of_one_size(body: bytes | memoryview) -> Sequence[int]:
    """The starts if all records are as long as the first, and of its magic; else nothing."""
    total = len(body)
    if total < MIN_RECORD_BYTES:
        return ()
    size, magic = _HEAD.unpack_from(body)
    if size < MIN_RECORD_BYTES or total % size or magic not in _MAGICS:
        return ()
    if total == size:
        return (0,)
    heads = _every_head(size, total // size).unpack(body)
    return range(0, total, size) if heads.count(heads[0]) == len(heads) else ()


@lru_cache(maxsize=256)
def _every_head(size: int, count: int) -> struct.Struct:
    """Reads size and magic, as one number, of so many records of one size."""
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
        # Whatever ended the walk early is no record to the readable decoder either; it raises and says why.
        decode_record(body, at if at < end else starts[-1])
    return starts


def mismatch(queue: MessageQueue, first: int, what: str) -> AnswerMismatch:
    """The error about the answer to a pull."""
    return AnswerMismatch(
        f"the answer to a pull from {first} {what}",
        advice="do not trust it: look at the broker's store, and at what stands between the broker and this reader",
        topic=queue.topic,
        broker=queue.broker_name,
        queue_id=queue.queue_id,
        offset=first,
    )
