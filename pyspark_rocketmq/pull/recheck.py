"""Read a range again when its response holds fewer messages than it must, or impossible offsets.

The decoder counts the messages of many responses at once. A response with too few messages (a short response) is read
again from the master, whichever process sent it, because a replica may be behind. Messages that the master lacks, too,
are a loss, which is reported to the loss policy. If the records of a filtered response hold impossible offsets, the
same range is read without the filter, to find the true offset (the position) of each record.
"""

from __future__ import annotations

import logging
import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import count, pairwise

from ..cluster.broker import Brokers
from ..errors import NoBrokerAvailable, located
from ..model import Block, MessageQueue, QueueRange, is_light
from ..net.pool import ConnectionPool
from ..wire.record import decode_record, message_count_of
from ..wire.scan import mismatch, record_starts
from .loop import read_ranges
from .loss_policy import IgnoreLosses, LossPolicy
from .settings import PullSettings, Subscription
from .witness import confirm_front

__all__ = ["Recheck"]

_OFFSETS = struct.Struct(">20xqq")  # A record's queue offset and its offset in the commit log.
_NO_POSITIONS = (
    "%s: %d messages of the short response from offset %d are left out, too: the offsets in them (%s …) do not tell "
    "their positions"
)
_log = logging.getLogger(__name__)


class Recheck:
    """Reads ranges again without a filter, from masters if all their brokers have one."""

    def __init__(self, brokers: Brokers, pool: ConnectionPool, policy: LossPolicy, settings: PullSettings) -> None:
        self._brokers = brokers
        self._pool = pool
        self._policy = policy
        self._from_any = replace(settings, subscription=Subscription())
        self._settings = replace(self._from_any, follow_suggestions=False)
        self._open_until: dict[MessageQueue, int] = {}
        """{queue: offset up to which all messages at an open front are gone}.

        If the next response begins at this offset, messages missing at its start are no loss, either.
        """
        self._confirmed_from: dict[MessageQueue, int] = {}
        """For queues of compacted topics, the lowest offset from which on a probe has confirmed the responses."""
        self._unplaced: set[MessageQueue] = set()
        """Queues for which the warning `_NO_POSITIONS` has been logged; it is logged once per queue."""

    def whole(self, block: Block) -> Iterator[Block]:
        """Yield the block itself if it holds as many messages as it must, else what `read_again` yields for it."""
        if block.covered and _Records(block).message_count != block.covered:
            yield from self.read_again(block)
        else:
            yield block

    def read_again(self, block: Block) -> Iterator[Block]:
        """Read the wanted range of a short block (with too few messages) again from the master; yield the new blocks.

        Messages that are missing there, too, are reported to the policy. A short block is not read again if its broker
        has no master: its missing messages are reported, its records are yielded. Nor is it read again in a compacted
        topic: it is yielded itself, after a probe has confirmed that retention has not deleted its first messages. A
        block whose messages are not counted (`covered` is 0) is always read again, if need be from a replica.
        """
        if block.covered and self._is_compacted(block.wanted.queue):
            self._confirm_front(block)
            yield block._replace(covered=0, next_offset=0)
            return
        is_final = block.covered and not self._has_master(block.wanted.queue)
        for fresh in [block] if is_final else self._read([block.wanted], self._policy):
            records = _Records(fresh)
            if records.message_count > (fresh.covered or math.inf):
                what = f"holds {records.message_count} messages for {fresh.covered} offsets"
                raise mismatch(fresh.wanted.queue, fresh.first, what)
            if records.message_count < fresh.covered:
                self._report_missing(fresh, records)
                yield from records.apart()
            else:
                yield fresh

    def place(self, block: Block) -> Iterator[Block]:
        """Yield each wanted record of a filtered block as a block whose `first` is the record's true queue offset.

        The block's range is read again without the filter, and the records of both readings are matched by their offset
        in the commit log. If the second reading lacks a wanted record, report the range to the policy as a loss.
        """
        records = _Records(block)
        if any(following <= each for each, following in pairwise(records.physical_offsets)):
            raise mismatch(block.wanted.queue, block.first, "holds messages out of order or twice")
        positions = self._positions(block, frozenset(records.physical_offsets))
        if _lacks_some(block, [physical in positions for physical in records.physical_offsets]):
            self._policy.lacks_messages(*block.wanted[:3])
        last = -1
        for physical, data in zip(records.physical_offsets, records.each(), strict=True):
            if (position := positions.get(physical)) is None:
                continue  # The record lies outside of the wanted offsets.
            if position <= last:
                what = f"holds the message at {position} behind the one at {last}"
                raise mismatch(block.wanted.queue, block.first, what)
            last = position
            yield block._replace(data=data, message_count=1, first=position, covered=1, next_offset=position + 1)

    def shifted_at(self, offsets: Mapping[MessageQueue, int]) -> set[MessageQueue]:
        """Return the queues of {queue: offset} in which the record stored at this offset states another queue offset.

        Queues of compacted topics are not examined.
        """
        compacted = self._brokers.compacted.found
        ranges = [
            QueueRange(queue, offset, offset + 1)
            for queue, offset in offsets.items()
            if (queue.topic, queue.broker_name) not in compacted
        ]
        found = (
            (each, _Records(each)) for each in self._read(ranges, IgnoreLosses()) if each.next_offset == each.wanted.end
        )
        return {each.wanted.queue for each, records in found if set(records.offsets) - {each.first}}

    def _is_compacted(self, queue: MessageQueue) -> bool:
        return bool(self._brokers.compacted.is_compacted(queue.topic, queue.broker_name))

    def _confirm_front(self, block: Block) -> None:
        """Probe the start of a block's range at its master, until the range is confirmed, or reported as a loss.

        If the range has an open front (it begins at its first readable message), probe the offset in the block's first
        record instead, or nothing if the block is empty.

        Do nothing if this method was called before for the same queue with the same or a lower start: that probe has
        confirmed this block, too, since it was sent after this block's response. For only counted responses come here,
        and once the topic is known to be compacted, which is before the first probe, no response is counted any more.
        """
        queue, start, end, is_open = block.wanted
        if start < self._confirmed_from.get(queue, math.inf):
            self._confirmed_from[queue] = start
            for first in _Records(block).offsets[:1] if is_open else [start]:
                confirm_front(QueueRange(queue, first, end), self._brokers, self._policy, self._settings)

    def _read(self, ranges: list[QueueRange], policy: LossPolicy) -> Iterator[Block]:
        """Yield the blocks of ranges without a filter, from masters if all brokers have one, else from any process."""
        is_from_masters = all(self._has_master(queue) for queue in {each.queue for each in ranges})
        settings = self._settings if is_from_masters else self._from_any
        return read_ranges(ranges, self._brokers, self._pool, policy, settings)

    def _has_master(self, queue: MessageQueue) -> bool:
        try:
            self._brokers.routes.route(queue.topic).broker(queue.broker_name).master()
        except NoBrokerAvailable:
            return False
        return True

    def _positions(self, block: Block, physical_offsets: frozenset[int]) -> dict[int, int]:
        """Read the range of a block again; return {offset in the commit log: true queue offset} of records found there.

        Only the records at `physical_offsets` are included.
        """
        return {
            physical: position
            for fresh in self.read_again(block._replace(covered=0))
            for physical, position in _Records(fresh).positions()
            if physical in physical_offsets
        }

    def _report_missing(self, block: Block, records: _Records) -> None:
        """Report the missing messages of a block to the policy; at the open front of a range, only log them."""
        queue, start, end, is_open = block.wanted
        if not records.tell_positions():
            self._policy.lacks_messages(queue, start, end)
            if queue not in self._unplaced:
                self._unplaced.add(queue)
                _log.warning(_NO_POSITIONS, queue, records.message_count, block.first, records.offsets[0])
        elif gaps := records.gaps():
            gone = QueueRange(queue, gaps[0].start, gaps[-1].end)
            if len(gaps) == 1 and gone.start == start and (is_open or self._open_until.get(queue) == start):
                self._open_until[queue] = gone.end
                _log.info("%s: messages from %d to %d are gone at the front of the range", *gone[:3])
            else:
                self._policy.lacks_messages(*gone[:3], sum(gap.offset_count for gap in gaps))


def _lacks_some(block: Block, are_placed: Sequence[bool]) -> bool:
    """Return whether a wanted record of a filtered block was not found when the block's range was read again.

    `are_placed` tells for each record of the block whether it was found. If the response covers offsets before or after
    the wanted range, records at its start or end may lie outside of this range: there, records not found do not count.
    """
    first, end = 0, len(are_placed)
    while block.first < block.wanted.start and first < end and not are_placed[first]:
        first += 1
    while block.next_offset > block.wanted.end and end > first and not are_placed[end - 1]:
        end -= 1
    return not all(are_placed[first:end])


class _Records:
    """The records of one block, decoded one by one."""

    def __init__(self, block: Block) -> None:
        self._block = block
        self._starts = record_starts(block.data)

    @cached_property
    def offsets(self) -> list[int]:
        """The queue offset that each record holds."""
        return [_OFFSETS.unpack_from(self._block.data, at)[0] for at in self._starts]

    @cached_property
    def physical_offsets(self) -> list[int]:
        """The offset of each record in the commit log."""
        return [_OFFSETS.unpack_from(self._block.data, at)[1] for at in self._starts]

    @cached_property
    def message_counts(self) -> list[int]:
        """The number of offsets that each record takes; more than 1 if it holds a batch of messages."""
        queue, first = self._block.wanted.queue, self._block.first
        with located({"topic": queue.topic, "broker": queue.broker_name, "queue_id": queue.queue_id, "offset": first}):
            return [message_count_of(decode_record(self._block.data, at)[0]) for at in self._starts]

    @cached_property
    def message_count(self) -> int:
        """The number of messages within the offsets that the response covers."""
        low, high = self._block.first, self._block.next_offset
        if self.message_counts.count(1) == len(self._starts):
            return len(self._starts)
        spans = zip(self.offsets, self.message_counts, strict=True)
        return sum(max(0, min(high, base + count) - max(low, base)) for base, count in spans)

    def each(self) -> Iterator[memoryview]:
        """Return an iterator over the bytes of each record."""
        data = self._block.data
        return (data[start:end] for start, end in pairwise([*self._starts, len(data)]))

    def apart(self) -> Iterator[Block]:
        """Yield each record as a block of its own, whose position is the queue offset that the record holds.

        Yield nothing if the records' offsets cannot be true, as `tell_positions` decides.
        """
        if self.tell_positions():
            for data in self.each():
                yield self._block._replace(data=data, message_count=1, covered=0, next_offset=0)

    def positions(self) -> Iterator[tuple[int, int]]:
        """Return pairs (offset in the commit log, true queue offset) of the records."""
        is_counted = self._block.covered == len(self._starts) > 0
        return zip(self.physical_offsets, count(self._block.first) if is_counted else self.offsets, strict=False)

    def tell_positions(self) -> bool:
        """Return whether the queue offsets in the records can be true: they ascend, within the covered offsets.

        They are never true for a light topic, whose records hold offsets of another queue.
        """
        if is_light(self._block.wanted.queue):
            return not self._starts
        low, high = self._block.first, self._block.next_offset
        ends = [offset + more for offset, more in zip(self.offsets, self.message_counts, strict=True)]
        ascend = all(end <= following for end, following in zip(ends, self.offsets[1:], strict=False))
        return ascend and not (ends and (ends[0] <= low or self.offsets[-1] >= high))

    def gaps(self) -> list[QueueRange]:
        """Return the ranges of wanted offsets for which the block holds no message."""
        queue, at, end, _ = self._block.wanted
        found = []
        for base, more in zip([*self.offsets, end], [*self.message_counts, 0], strict=True):
            if (base := min(base, end)) > at:
                found.append(QueueRange(queue, at, base))
            at = max(at, base + more)
        return found
