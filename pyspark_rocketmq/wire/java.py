"""Which of Java's own habits does the protocol show?"""

from __future__ import annotations

import struct

__all__ = ["java_hash"]


def java_hash(text: str) -> int:
    """`String.hashCode`, by which brokers store and filter tags: signed, 32 bits, over UTF-16 code units."""
    value = 0
    for (unit,) in struct.iter_unpack(">H", text.encode("utf-16-be", "surrogatepass")):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (value >> 31 << 32)
