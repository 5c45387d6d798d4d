"""Where does each record of an answer begin, which offset does it hold, and how long is it?

One walk over the size fields; nothing else is decoded. Reading cannot avoid this loop over single messages, so it
is written for speed.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from .record import MAGIC_V1, MAGIC_V2, decode_record

__all__ = ["MIN_RECORD_BYTES", "Scan", "scan"]

MIN_RECORD_BYTES = 91
"""IPv4 hosts; body, topic and properties empty."""

_WALK = struct.Struct(">iI12xq")  # total size, magic, queue offset


class Scan(NamedTuple):
    """Equally long lists with one entry for each record."""

    starts: list[int]
    queue_offsets: list[int]
    sizes: list[int]


def scan(body: bytes | memoryview) -> Scan:
    """Walk an answer; its records must fill it exactly and have a known magic."""
    v1, v2, least, read = MAGIC_V1, MAGIC_V2, MIN_RECORD_BYTES, _WALK.unpack_from
    starts: list[int] = []
    offsets: list[int] = []
    sizes: list[int] = []
    at, end = 0, len(body)
    try:
        while at < end:
            size, magic, offset = read(body, at)
            if (magic != v1 and magic != v2) or size < least:
                break
            starts.append(at)
            offsets.append(offset)
            sizes.append(size)
            at += size
    except struct.error:
        pass
    if at != end:
        # Whatever ended the walk early is no record to the readable decoder either; it raises and says why.
        decode_record(body, at if at < end else starts[-1])
    return Scan(starts, offsets, sizes)
