"""Decode irregular records one by one, in portions of the size of a record batch.

A body may be a thousand times larger after decompression, so one batch of records may fill many record batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ..wire.scan import mismatch
from .bulk import Records
from .columns import Content, Mode
from .rows import Row, read_rows
from .spans import Integers

__all__ = ["IrregularReader", "Portion"]


@dataclass(slots=True)
class Portion:
    """The rows of some consecutive irregular records."""

    end: int
    """Index of the first record of the next portion.

    Plain records before it belong to this portion or an earlier one.
    """
    rows: list[Row] = field(default_factory=list)
    records: list[int] = field(default_factory=list)
    """Index of the record of each row."""
    irregular_count: int = 0
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class IrregularReader:
    """Decodes irregular records; it reads properties and bodies only if a requested column needs them."""

    content: Content
    reads_properties: bool
    reads_bodies: bool

    def portions(self, records: Records, irregular: Integers, most_bytes: int) -> Iterator[Portion]:
        """Yield the rows in portions; a portion ends at the first record that brings it above `most_bytes`.

        The last portion may be empty; its `end` is the number of all records.
        """
        portion, byte_count = Portion(0), 0
        for index in irregular.tolist():
            portion.irregular_count += 1
            portion.end = index + 1
            for row in self._wanted_rows(records, index):
                if self._is_kept(row):
                    portion.rows.append(row)
                    portion.records.append(index)
                    byte_count += self._size(row)
                else:
                    portion.dropped += 1
            if byte_count > most_bytes:
                yield portion
                portion, byte_count = Portion(0), 0
        portion.end = len(records.starts)
        yield portion

    def _wanted_rows(self, records: Records, index: int) -> Iterator[Row]:
        """Yield the messages of a record that are within the wanted offsets and have a wanted tag.

        Raise `AnswerMismatch` if the record names another topic.
        """
        record, wanted = records.record(index), records.responses.ranges[records.response_of[index]]
        position = int(records.positions[index])
        if (topic := self.content.stored_topic(wanted.queue.topic)) and record.topic != topic:
            what = f"holds a message of {record.topic}, queue {record.queue_id}"
            raise mismatch(wanted.queue, position, what)
        for row in read_rows(record, wanted.queue, self.content, position):
            if wanted.start <= row.position < wanted.end and row.passes_tags():
                yield row

    def _is_kept(self, row: Row) -> bool:
        """Return False in mode DROPMALFORMED if a part of the message that a requested column needs is unreadable."""
        if self.content.mode is not Mode.DROPMALFORMED:
            return True
        return not ((self.reads_properties and row.all_properties is None) or (self.reads_bodies and row.body is None))

    def _size(self, row: Row) -> int:
        body = row.body if self.reads_bodies else row.record.body
        return len(body or b"")
