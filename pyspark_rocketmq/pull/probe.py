"""Tell from the outcome of a probe whether the message at its offset is still there.

A probe is a pull of one message without the filter. If the message at its offset is gone, the outcome shows the lowest
offset at which the next message may be.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from ..cluster.routes import BrokerEndpoint
from ..errors import DecodeError
from ..wire.codes import SysFlag
from ..wire.record import decode_record, message_count_of
from ..wire.scan import record_starts
from .port import PullOutcome, PullRequest, PullStatus

__all__ = ["Probe", "StoredOffsets", "find_stored", "has_found_further", "is_readable", "lowest_readable"]

_OFFSETS = struct.Struct(">20xqqi")


class Probe(PullRequest):
    """A pull of one message without the filter, to see whether the message at the requested offset is there."""

    endpoint: BrokerEndpoint
    """The broker process whose responses the probe confirms."""


class StoredOffsets(NamedTuple):
    """The queue offset in a record, its offset in the commit log and its system flag."""

    queue_offset: int
    physical_offset: int
    sys_flag: int


def find_stored(outcome: PullOutcome) -> StoredOffsets | None:
    """Return the offsets stored in the record that a probe found; None if it did not find exactly one record."""
    if outcome.status is not PullStatus.FOUND or not _is_one_record(outcome.body):
        return None
    return StoredOffsets(*_OFFSETS.unpack_from(outcome.body))


def is_readable(offset: int, outcome: PullOutcome) -> bool:
    """Return whether a probe of `offset` found the message there, or the first record of a log file in its place.

    Some brokers return such a *file head* for a deleted message; `cluster.file_heads` tells the two apart. The queue
    offset in the record is not compared, because producers can make brokers store a wrong one.
    """
    stored = find_stored(outcome)
    if stored is None:
        return False
    if stored.sys_flag & SysFlag.INNER_BATCH:
        return _first_of_batch(outcome, stored.queue_offset) <= offset < outcome.next_offset
    return outcome.next_offset == offset + 1


def has_found_further(offset: int, outcome: PullOutcome) -> bool:
    """Return whether a probe of `offset`, whose message is gone, found a later message.

    If it found none, the next offset of the outcome only shows where the broker stopped searching.
    """
    return outcome.status is PullStatus.FOUND and outcome.next_offset > offset + 1


def lowest_readable(offset: int, outcome: PullOutcome) -> int:
    """Return the lowest offset at which a message may still be, for a probe that did not find the message of `offset`.

    The result is exact only if the probe found a later message.
    """
    if has_found_further(offset, outcome):
        return outcome.next_offset - 1
    return max(outcome.next_offset, offset + 1)


def _is_one_record(body: memoryview) -> bool:
    try:
        return len(record_starts(body)) == 1
    except DecodeError:
        return False


def _first_of_batch(outcome: PullOutcome, stated: int) -> int:
    """Return the first offset of an inner batch: the outcome's next offset minus the batch's message count.

    If the batch cannot be unpacked, return `stated`, the queue offset in the record.
    """
    try:
        return outcome.next_offset - message_count_of(decode_record(outcome.body)[0])
    except DecodeError:
        return stated
