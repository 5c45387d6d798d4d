"""What do the records hold that are not plain, as much of it at a time as a record batch holds?

Each is read by itself. Packed, a body takes as little as a thousandth of its size, so the rows of one batch of records
may be many batches: they come in portions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ..model import QueueRange
from ..wire.scan import mismatch
from .bulk import Bulk
from .rows import Content, Mode, Row, read_rows
from .spans import Integers

__all__ = ["OddReader", "Portion"]


@dataclass(slots=True)
class Portion:
    """The rows of some odd records that follow each other."""

    end: int
    """Whatever comes before this record, odd or plain, has no part in a later portion."""
    rows: list[Row] = field(default_factory=list)
    records: list[int] = field(default_factory=list)
    """For each row the index of its record."""
    handed_over: int = 0
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class OddReader:
    """Reads them one by one, only as closely as the columns need."""

    content: Content
    reads_properties: bool
    reads_bodies: bool

    def portions(self, bulk: Bulk, odd: Integers, ranges: Sequence[QueueRange], most_bytes: int) -> Iterator[Portion]:
        """One behind the other, each of one record more than fits at most, until all records are told of."""
        portion, byte_count = Portion(0), 0
        for index in odd.tolist():
            portion.handed_over += 1
            portion.end = index + 1
            for row in self._wanted_rows(bulk, index, ranges[bulk.answers[index]]):
                if self._is_whole(row):
                    portion.rows.append(row)
                    portion.records.append(index)
                    byte_count += self._size(row)
                else:
                    portion.dropped += 1
            if byte_count > most_bytes:
                yield portion
                portion, byte_count = Portion(0), 0
        portion.end = len(bulk.starts)
        yield portion

    def _wanted_rows(self, bulk: Bulk, index: int, wanted: QueueRange) -> Iterator[Row]:
        record = bulk.record(index)
        if (topic := self.content.stored_topic(wanted.queue.topic)) and record.topic != topic:
            what = f"holds a message of {record.topic}, queue {record.queue_id}"
            raise mismatch(wanted.queue, int(bulk.positions[index]), what)
        for row in read_rows(record, wanted.queue, self.content, int(bulk.positions[index])):
            if wanted.start <= row.position < wanted.end and row.passes_tags():
                yield row

    def _is_whole(self, row: Row) -> bool:
        """Whether the row stays; asked only of what the columns show."""
        if self.content.mode is not Mode.DROPMALFORMED:
            return True
        return not ((self.reads_properties and row.all_properties is None) or (self.reads_bodies and row.body is None))

    def _size(self, row: Row) -> int:
        body = row.body if self.reads_bodies else row.record.body
        return len(body or b"")
