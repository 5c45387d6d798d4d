"""Encode and decode several messages in one body, that of a SEND_BATCH_MESSAGE request or of an inner batch.

    totalSize 4 | magic 4 | bodyCRC 4 | flag 4 | bodyLength 4 | body | propertiesLength 2 | properties

Entries follow each other without gaps. Magic and CRC are written as 0 and ignored when read: the broker computes
its own. Topic, sysFlag and times are in the request's header, or in the record of the inner batch.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ..errors import DecodeError, LocalProtocolError
from .frame import read_sized, write_sized

__all__ = ["BatchEntry", "decode_batch", "encode_batch", "entry_starts", "iterate_batch"]

_HEAD = struct.Struct(">i8xi")  # total size, magic and CRC, flag
_SIZE = struct.Struct(">i")
_LEAST_BYTES = 22
"""Size of an entry with empty body and properties."""
_BODY_WIDTH, _PROPERTIES_WIDTH = 4, 2


class BatchEntry(NamedTuple):
    """One message of a batch."""

    body: bytes
    properties_text: bytes = b""
    flag: int = 0


def encode_batch(entries: Iterable[BatchEntry]) -> bytes:
    """Return the body that holds these messages; raise `LocalProtocolError` if a field does not fit."""
    try:
        return b"".join(map(_encode_entry, entries))
    except struct.error as cause:
        raise LocalProtocolError(f"a flag that is no 32-bit integer: {cause}", advice="send a smaller one") from cause


def _encode_entry(entry: BatchEntry) -> bytes:
    body = write_sized(entry.body, _BODY_WIDTH, "a body")
    properties = write_sized(entry.properties_text, _PROPERTIES_WIDTH, "properties")
    return b"".join((_HEAD.pack(_HEAD.size + len(body) + len(properties), entry.flag), body, properties))


def decode_batch(data: bytes | memoryview) -> list[BatchEntry]:
    """Return the messages in a body; raise `DecodeError` unless they fill it exactly."""
    return list(iterate_batch(data))


def entry_starts(data: bytes, most: int) -> list[int]:
    """Return the position in `data`, the body of a batch, at which each message begins; read only the messages' sizes.

    Return an empty list if the sizes do not add up to that of `data`, or if there are more than `most` messages.
    """
    starts, at, end = list[int](), 0, len(data)
    while at < end and len(starts) <= most:
        starts.append(at)
        size = _SIZE.unpack_from(data, at)[0] if at + _LEAST_BYTES <= end else 0
        if size < _LEAST_BYTES:
            return []
        at += size
    return starts if at == end and len(starts) <= most else []


def iterate_batch(data: bytes | memoryview) -> Iterator[BatchEntry]:
    """Yield the messages in the body of a batch; raise `DecodeError` at the first that is damaged or incomplete."""
    view, number, at = memoryview(data), 0, 0
    while at < len(view):
        try:
            entry, at = _decode_entry(view, at)
        except (struct.error, ValueError) as cause:
            raise DecodeError(f"batch entry {number} at byte {at} of {len(view)}: {cause}") from cause
        yield entry
        number += 1


def _decode_entry(view: memoryview, start: int) -> tuple[BatchEntry, int]:
    size, flag = _HEAD.unpack_from(view, start)
    body, at = read_sized(view, start + _HEAD.size, _BODY_WIDTH)
    properties, end = read_sized(view, at, _PROPERTIES_WIDTH)
    if end - start != size:
        raise ValueError(f"its fields take {end - start} bytes, its total size says {size}")
    return BatchEntry(bytes(body), bytes(properties), flag), end
