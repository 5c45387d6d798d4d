"""Decode irregular records one by one, in portions of the size of a record batch.

A body may be a thousand times larger after decompression, so one batch of records may fill many record batches. The
messages of a large inner batch are decoded together, by `inner` and `bulk`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

from ..wire.record import Record
from ..wire.scan import mismatch
from .bulk import Records, decode_plain
from .columns import Column, Content, Mode, Part
from .inner import maybe_unwrap
from .rows import Row, read_rows
from .shapes import ShapeFinder
from .spans import Integers

__all__ = ["IrregularReader", "Portion", "RowArrays"]

_FEWEST_TOGETHER = 8
"""Least number of rows in a portion for which messages are decoded together; fewer are decoded faster one by one."""


class RowArrays(NamedTuple):
    """Some messages of an inner batch, as one array for each requested column."""

    arrays: list[pa.Array]
    byte_count: int

    @property
    def row_count(self) -> int:
        """Number of messages."""
        return len(self.arrays[0])


@dataclass(slots=True)
class Portion:
    """Rows of consecutive irregular records, about as many as a record batch may have."""

    end: int
    """Index of the first record of the next portion.

    Plain records before it belong to this portion or an earlier one.
    """
    rows: list[Row] = field(default_factory=list)
    arrays: list[RowArrays] = field(default_factory=list)
    records: list[int] = field(default_factory=list)
    """Index of the record of each row in `rows`."""
    array_records: list[int] = field(default_factory=list)
    """Index of the record of each row in `arrays`."""
    irregular_count: int = 0
    dropped: int = 0
    byte_count: int = 0

    @property
    def row_count(self) -> int:
        """Number of rows."""
        return len(self.records) + len(self.array_records)

    def has_room(self, more: RowArrays, most_rows: int, most_bytes: int) -> bool:
        """Return whether the rows `more` can be added within the limits; an empty portion takes any number."""
        is_within = self.row_count + more.row_count <= most_rows and self.byte_count + more.byte_count <= most_bytes
        return is_within or not self.row_count

    def add_row(self, row: Row, record: int, byte_count: int) -> None:
        """Append a row of the record at index `record`; `byte_count` is the size of the row's body and properties."""
        self.rows.append(row)
        self.records.append(record)
        self.byte_count += byte_count

    def add_arrays(self, more: RowArrays, record: int) -> None:
        """Append several rows that were decoded together from the record at index `record`."""
        self.arrays.append(more)
        self.array_records += [record] * more.row_count
        self.byte_count += more.byte_count


class IrregularReader:
    """Decodes irregular records; it reads properties and bodies only if a requested column needs them."""

    def __init__(self, content: Content, columns: Sequence[Column], shapes: ShapeFinder) -> None:
        parts = {column.part for column in columns}
        self._content = content
        self._columns = columns
        self._shapes = shapes
        self._reads_properties = bool(content.tags) or Part.PROPERTIES in parts
        self._reads_bodies = Part.BODY in parts

    def portions(self, records: Records, irregular: Integers, most_rows: int, most_bytes: int) -> Iterator[Portion]:
        """Yield the rows of the records at the indices `irregular`, in portions.

        A portion ends when it has `most_rows` rows or more than `most_bytes`, or before messages that were decoded
        together and would exceed these limits; this may be in the middle of an inner batch. The last portion may be
        empty; its `end` is the number of all records, so plain records after the last irregular one belong to it.
        """
        portion = Portion(0)
        for index in irregular.tolist():
            portion.irregular_count += 1
            portion.end = index + 1
            for piece in self._pieces(records, index, most_rows, most_bytes):
                if isinstance(piece, RowArrays):
                    if not portion.has_room(piece, most_rows, most_bytes):
                        yield portion
                        portion = Portion(index + 1)
                    portion.add_arrays(piece, index)
                elif self._is_kept(piece):
                    portion.add_row(piece, index, self._size(piece))
                else:
                    portion.dropped += 1
                if portion.byte_count > most_bytes or portion.row_count >= most_rows:
                    yield portion
                    portion = Portion(index + 1)
        portion.end = len(records.starts)
        yield portion

    def _pieces(self, records: Records, index: int, most_rows: int, most_bytes: int) -> Iterator[Row | RowArrays]:
        """Yield the messages of a record that are within the wanted offsets and have a wanted tag.

        Raise `AnswerMismatch` if the record names another topic.
        """
        record, wanted = records.record(index), records.responses.ranges[records.response_of[index]]
        position = int(records.positions[index])
        if (topic := self._content.stored_topic(wanted.queue.topic)) and record.topic != topic:
            what = f"holds a message of {record.topic}, queue {record.queue_id}"
            raise mismatch(wanted.queue, position, what)
        if together := self._decode_together(records, index, record, most_rows, most_bytes):
            yield from together
            return
        for row in read_rows(record, wanted.queue, self._content, position):
            if wanted.start <= row.position < wanted.end and row.passes_tags():
                yield row

    def _decode_together(
        self, records: Records, index: int, record: Record, most_rows: int, most_bytes: int
    ) -> list[RowArrays]:
        """Return the wanted messages of a large inner batch, decoded together by operations on arrays.

        Return an empty list if the record is no large inner batch, if one of its messages has to be decoded by itself,
        or if `most_rows` is too small for arrays to be faster.
        """
        if most_rows < _FEWEST_TOGETHER:
            return []
        inner = maybe_unwrap(records, index, record, self._content)
        if inner is None:
            return []
        found = []
        for part in inner.portions(most_rows, most_bytes):
            decoded = decode_plain(part, self._columns, self._content, self._shapes)
            if len(decoded.irregular):
                return []
            found.append(RowArrays(decoded.arrays, part.byte_count))
        return found

    def _is_kept(self, row: Row) -> bool:
        """Return whether the row goes into the result. In mode DROPMALFORMED, a row with an unreadable part does not.

        Only the parts (body, properties) that a requested column needs are examined.
        """
        if self._content.mode is not Mode.DROPMALFORMED:
            return True
        lacks_properties = self._reads_properties and row.all_properties is None
        return not (lacks_properties or (self._reads_bodies and row.body is None))

    def _size(self, row: Row) -> int:
        body = row.body if self._reads_bodies else row.record.body
        return len(body or b"") + len(row.record.properties_text)
