"""Find the messages of a large inner batch as arrays, so that `bulk` decodes them like plain records.

A message of an inner batch has its own flag, body and properties, which lie in the unpacked body of the batch. Its
other fields are those of the batch, whose fixed header is repeated for each message. An inner batch with anything
unusual (IPv6 hosts, sizes that do not add up, a wrong CRC) is left to `rows`, which also raises the errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from ..errors import DecodeError
from ..wire.batch import entry_starts
from ..wire.codes import SysFlag
from ..wire.record import MOST_INNER_MESSAGES, Record, stated_count, stored_crcs
from .bulk import Records, Rows
from .columns import Content
from .spans import Bytes, Integers, Spans, unsigned_at

__all__ = ["InnerRecords", "maybe_unwrap"]

_FEWEST = 32
"""Least number of messages that are decoded as arrays; fewer are decoded faster one by one."""
_FLAG_AT, _BODY_SIZE_AT, _BODY_AT = 12, 16, 20
_PROPERTIES_WIDTH = 2
_LARGEST_SHORT = 0x7FFF
_IPV6 = SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6


class InnerRecords(Records):
    """The messages of an inner batch; `data` is the unpacked body."""

    is_inner = True

    def plain(self) -> Rows:
        """Return a mask that chooses all messages, because `maybe_unwrap` has verified that all are plain."""
        return np.ones(len(self.starts), np.bool_)

    @cached_property
    def bodies(self) -> Spans:
        """Start and end of each message's body in the buffer."""
        starts = self.starts + _BODY_AT
        return Spans(starts, starts + self.field("body_size"))

    @cached_property
    def property_spans(self) -> Spans:
        """Start and end of each message's property text in the buffer."""
        starts = self.bodies.ends + _PROPERTIES_WIDTH
        return Spans(starts, starts + unsigned_at(self.data, _PROPERTIES_WIDTH)[self.bodies.ends])

    @property
    def byte_count(self) -> int:
        """Number of bytes in the bodies and properties of all messages."""
        return int((self.property_spans.ends - self.bodies.starts).sum())

    def portions(self, most_rows: int, most_bytes: int) -> Iterator[InnerRecords]:
        """Yield the messages in portions; each ends after `most_rows` or with the message that exceeds `most_bytes`."""
        begin = 0
        while begin < len(self.starts):
            beyond = int(np.searchsorted(self.starts, self.starts[begin] + most_bytes, side="right"))
            end = max(begin + 1, min(begin + most_rows, beyond))
            chosen = np.zeros(len(self.starts), np.bool_)
            chosen[begin:end] = True
            yield self.only(chosen)
            begin = end


def maybe_unwrap(records: Records, row: int, record: Record, content: Content) -> InnerRecords | None:
    """Return the messages of the inner batch `record`, which is at index `row` of `records`.

    Return None if they have to be decoded one by one, or if `record` is no inner batch.
    """
    if not record.is_inner_batch or record.sys_flag & _IPV6:
        return None
    if 0 < (stated := stated_count(record)) < _FEWEST:
        return None
    try:
        if content.check_crc:
            record.check_crc()
        body = record.unpacked_body(content.max_body_bytes)
    except DecodeError:
        return None
    starts = np.array(entry_starts(body, MOST_INNER_MESSAGES), np.int64)
    if len(starts) < _FEWEST or len(starts) != (stated or len(starts)):
        return None
    found = _describe(records, row, np.frombuffer(body, np.uint8), starts)
    return found if _fill_entries(found) else None


def _describe(records: Records, row: int, data: Bytes, starts: Integers) -> InnerRecords:
    """Return the messages of an inner batch, given its unpacked body `data` and the positions where messages start.

    The batch is the record at index `row`. Each message gets a copy of its fixed header, with the message's own flag,
    body size and queue offset.
    """
    numbers = np.arange(len(starts))
    head = np.repeat(records.head[row : row + 1], len(starts))
    head["flag"] = unsigned_at(data, 4)[starts + _FLAG_AT].astype(np.int32)
    head["body_size"] = unsigned_at(data, 4)[starts + _BODY_SIZE_AT].astype(np.int32)
    head["queue_offset"] += numbers
    head["sys_flag"] &= ~np.int32(SysFlag.COMPRESSED)
    responses = records.responses.only(int(records.response_of[row]))
    return InnerRecords(data, starts, np.array([len(starts)]), responses, records.positions[row] + numbers, head)


def _fill_entries(found: InnerRecords) -> bool:
    """Verify that each message consists of exactly its body and its properties; return False if one does not.

    Otherwise write the CRC of each body into `found.head` and return True.
    """
    ends, (starts, body_ends) = np.append(found.starts[1:], len(found.data)), found.bodies
    if (body_ends < starts).any() or (body_ends > ends - _PROPERTIES_WIDTH).any():
        return False
    property_starts, property_ends = found.property_spans
    if (property_ends != ends).any() or (property_ends - property_starts > _LARGEST_SHORT).any():
        return False
    found.head["body_crc"] = stored_crcs(found.data.data, starts.tolist(), body_ends.tolist())
    return True
