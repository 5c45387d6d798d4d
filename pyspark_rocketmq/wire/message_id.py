"""Make and decode the two ids of a message.

The *offset message id* states where a broker stores the message: store host and commit-log offset. The *unique id*
is made by the producer and stored as property UNIQ_KEY. Both are texts of 32 (IPv4) or 56 (IPv6) upper-case hexadecimal
digits; a text does not show which of the two ids it is. Their parts, with sizes in bytes:

    offset message id    host 4 | 16, port 4, commit-log offset 8
    unique id            host 4 | 16, process 2, instance 4, milliseconds since the month began 4, counter 2
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import datetime, tzinfo
from ipaddress import ip_address
from itertools import count
from typing import NamedTuple

from ..errors import DecodeError
from ..model import Address
from .host import decode_host, encode_host

__all__ = [
    "OffsetMessageId",
    "UniqueId",
    "UniqueIdMaker",
    "decode_offset_message_id",
    "decode_unique_id",
    "encode_offset_message_id",
]

_OFFSET = struct.Struct(">q")
_UNIQUE_TAIL = struct.Struct(">HIIH")  # process, instance, milliseconds, counter
_ID_BYTES = (16, 28)


class OffsetMessageId(NamedTuple):
    """The parts of an offset message id: the broker that stores the message, and the offset in its commit log."""

    store_host: Address
    physical_offset: int


class UniqueId(NamedTuple):
    """The parts of a unique id: a message's producer (host, process, instance), its time of creation, and a counter."""

    host: str
    process: int
    instance: int
    born_ms: int
    counter: int


def encode_offset_message_id(store_host: Address, physical_offset: int) -> str:
    """Return the offset message id of the message at this commit-log offset of the broker `store_host`."""
    return (encode_host(store_host) + _OFFSET.pack(physical_offset)).hex().upper()


def decode_offset_message_id(text: str) -> OffsetMessageId:
    """Return the parts of an offset message id; raise `DecodeError` if the text is no id."""
    data = _id_bytes(text)
    return OffsetMessageId(decode_host(data[: -_OFFSET.size]), *_OFFSET.unpack_from(data, len(data) - _OFFSET.size))


class UniqueIdMaker:
    """Makes the unique ids for the messages of one producer; threads may share it.

    Each producer of a process needs another number `instance`. Within a month, ids repeat only if more than 65,536 are
    made in one millisecond.
    """

    def __init__(
        self, host: str, process: int, instance: int, now_ms: Callable[[], int], zone: tzinfo | None = None
    ) -> None:
        self._ip = ip_address(host).packed
        self._process = process & 0xFFFF
        self._instance = instance & 0xFFFFFFFF
        self._now_ms = now_ms
        self._zone = zone
        self._counter = count()

    def make(self) -> str:
        """Return a new unique id."""
        now_ms = self._now_ms()
        elapsed_ms = now_ms - _month_start_ms(now_ms, self._zone)
        tail = _UNIQUE_TAIL.pack(self._process, self._instance, elapsed_ms, next(self._counter) & 0xFFFF)
        return (self._ip + tail).hex().upper()


def decode_unique_id(text: str, now_ms: int, zone: tzinfo | None = None) -> UniqueId:
    """Return the parts of a unique id; raise `DecodeError` if the text is no id.

    An id does not state its month: the latest month is assumed in which its time is not later than `now_ms`.
    """
    data = _id_bytes(text)
    ip_end = len(data) - _UNIQUE_TAIL.size
    process, instance, elapsed_ms, counter = _UNIQUE_TAIL.unpack_from(data, ip_end)
    month_ms = _month_start_ms(now_ms, zone)
    if month_ms + elapsed_ms > now_ms:
        month_ms = _month_start_ms(month_ms - 1, zone)
    return UniqueId(str(ip_address(data[:ip_end])), process, instance, month_ms + elapsed_ms, counter)


def _month_start_ms(now_ms: int, zone: tzinfo | None) -> int:
    """Return the time at which the month of `now_ms` began in `zone` (None: local time), as Java's calendar does."""
    now = datetime.fromtimestamp(now_ms / 1000, zone)
    return int(now.replace(day=1, hour=0, minute=0, second=0, microsecond=0).timestamp()) * 1000


def _id_bytes(text: str) -> bytes:
    try:
        data = bytes.fromhex(text)
    except ValueError:
        data = b""
    if len(data) not in _ID_BYTES or len(text) != 2 * len(data):
        raise DecodeError(f"{text!r:.80} is no message id", advice="an id has 32 or 56 hexadecimal digits")
    return data
