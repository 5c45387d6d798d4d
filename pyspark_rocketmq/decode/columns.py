"""How do the answers of many pulls become one record batch?

Answers are gathered until a batch is full; then plain records are decoded in bulk and odd ones row by row, and the two
are merged back into the order in which they came. Offsets outside an answer's range, which a broker may send
around an inner batch or beyond the wanted end, are left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import DecodeError
from ..model import Block, QueueRange
from ..wire.record import decode_record
from ..wire.scan import record_starts
from .bulk import READS_PROPERTIES, Bulk, bulk_column
from .gathered import Gathered
from .memory import keep_freed_memory
from .rows import Content, Mode, Row, read_rows, row_value
from .schema import arrow_schema
from .shaped import ShapeFinder
from .spans import Integers
from .starts import Starts, maybe_find_starts

__all__ = ["BatchSize", "ColumnDecoder", "Decoded", "RecordBatch"]

RecordBatch = pa.RecordBatch
"""What decoding makes; opaque to every other room."""

_BODY_COLUMNS = frozenset(("body", "value"))


class BatchSize(NamedTuple):
    """What a record batch is made of at most, unless a single answer has more. One of half the bytes stands alone."""

    messages: int = 10_000
    byte_count: int = 8 * 2**20


@dataclass(frozen=True, slots=True)
class Decoded:
    """A record batch, and how it came about."""

    batch: pa.RecordBatch
    handed_over: int
    """Records that were read one by one."""
    dropped: int
    """Messages left out because they cannot be read."""


class ColumnDecoder:
    """Decodes blocks into a fixed choice of columns, some of them `nullable` because Spark was told so."""

    def __init__(self, columns: Sequence[str], content: Content | None = None, nullable: Collection[str] = ()) -> None:
        keep_freed_memory()
        self.columns = tuple(columns)
        self.content = content or Content()
        self.schema = arrow_schema(self.columns, self.content.properties_as_json, nullable)
        self._reads_properties = bool(self.content.tags) or not READS_PROPERTIES.isdisjoint(self.columns)
        self._reads_bodies = not _BODY_COLUMNS.isdisjoint(self.columns)
        self._shape_finder = ShapeFinder()
        self._gathered = Gathered()

    def decode_all(self, blocks: Iterable[Block], size: BatchSize | None = None) -> Iterator[Decoded]:
        """Record batches of a size. What a block looks into is not needed any more when the next one is asked for."""
        most_messages, most_bytes = size or BatchSize()
        self._gathered.clear()
        messages = byte_count = 0
        for block in blocks:
            data, _, more_messages = block
            more_bytes = len(data)
            if more_bytes * 2 >= most_bytes:
                more_bytes = most_bytes  # nothing has room beside it
            messages, byte_count = messages + more_messages, byte_count + more_bytes
            if self._gathered.ranges and (messages > most_messages or byte_count > most_bytes):
                yield self._decode_gathered()
                messages, byte_count = more_messages, more_bytes
            self._gathered.put(block)
        if self._gathered.ranges:
            yield self._decode_gathered()

    def decode(self, blocks: Iterable[Block]) -> Decoded:
        """One record batch of all messages wanted, in the order of the blocks."""
        self._gathered.clear()
        for block in blocks:
            self._gathered.put(block)
        return self._decode_gathered()

    def _decode_gathered(self) -> Decoded:
        try:
            return self._decode(self._gathered)
        finally:
            self._gathered.clear()

    def _decode(self, gathered: Gathered) -> Decoded:
        ranges = gathered.ranges
        if not ranges:
            return Decoded(pa.RecordBatch.from_pylist([], schema=self.schema), 0, 0)
        bulk = _find_records(gathered, self._shape_finder)
        odd = self._odd(bulk)
        plain = bulk.only(~odd)
        wanted = self._is_wanted(plain, ranges)
        arrays = self._bulk_arrays(plain.only(wanted))
        if not odd.any():
            return Decoded(pa.RecordBatch.from_arrays(arrays, schema=self.schema), 0, 0)
        rows = list(self._odd_rows(bulk, np.flatnonzero(odd), ranges))
        kept = [(index, row) for index, row in rows if self._is_whole(row)]
        arrays = self._merge(arrays, np.flatnonzero(~odd)[wanted], kept)
        return Decoded(
            pa.RecordBatch.from_arrays(arrays, schema=self.schema), int(np.count_nonzero(odd)), len(rows) - len(kept)
        )

    def _odd(self, bulk: Bulk) -> npt.NDArray[np.bool_]:
        plain = bulk.plain()
        if self._reads_properties and len(careful := bulk.only(plain).unreadable_properties()):
            plain[np.flatnonzero(plain)[careful]] = False
        return ~plain

    def _is_wanted(self, bulk: Bulk, ranges: Sequence[QueueRange]) -> npt.NDArray[np.bool_]:
        starts = np.array([each.start for each in ranges])[bulk.answers]
        ends = np.array([each.end for each in ranges])[bulk.answers]
        wanted = (bulk.queue_offsets >= starts) & (bulk.queue_offsets < ends)
        if self.content.tags:
            filtered = np.array([self.content.filters(each.queue.topic) for each in ranges])
            has_tag = pc.is_in(bulk.entries.values_of("TAGS"), pa.array(sorted(self.content.tags))).to_numpy(False)
            wanted &= has_tag | ~filtered[bulk.answers]
        return wanted

    def _bulk_arrays(self, bulk: Bulk) -> list[pa.Array]:
        return [bulk_column(name, bulk, self.content) for name in self.columns]

    def _odd_rows(self, bulk: Bulk, indexes: Integers, ranges: Sequence[QueueRange]) -> Iterator[tuple[int, Row]]:
        """The wanted messages of odd records, each with the index of its record."""
        view = bulk.data.data
        for index in indexes.tolist():
            queue, start, end = ranges[bulk.answers[index]]
            at = int(bulk.starts[index])
            try:
                record, _ = decode_record(view, at)
            except DecodeError as error:
                offset = int(bulk.queue_offsets[index])
                error.locate(topic=queue.topic, broker=queue.broker_name, queue_id=queue.queue_id, offset=offset)
                raise
            for row in read_rows(record, queue, self.content):
                if start <= row.record.queue_offset < end and row.passes_tags():
                    yield index, row

    def _is_whole(self, row: Row) -> bool:
        """Whether the row stays; asked only of what the columns show."""
        if self.content.mode is not Mode.DROPMALFORMED:
            return True
        return not (
            (self._reads_properties and row.all_properties is None) or (self._reads_bodies and row.body is None)
        )

    def _merge(self, arrays: list[pa.Array], plain: Integers, rows: list[tuple[int, Row]]) -> list[pa.Array]:
        """Bulk arrays and rows in the order of their records."""
        order = pa.array(np.argsort(np.concatenate((plain, [index for index, _ in rows])), kind="stable"))
        merged = []
        for name, array in zip(self.columns, arrays, strict=True):
            odd = pa.array([row_value(name, row) for _, row in rows], self.schema.field(name).type)
            merged.append(pa.concat_arrays([array, odd]).take(order))
        return merged


def _find_records(gathered: Gathered, finder: ShapeFinder) -> Bulk:
    """All records of the answers."""
    starts, counts = maybe_find_starts(gathered.data, gathered.answers) or _walk_each(gathered)
    answers = np.repeat(np.arange(len(counts)), counts)
    return Bulk(gathered.data, starts, answers, [each.queue for each in gathered.ranges], finder)


def _walk_each(gathered: Gathered) -> Starts:
    """The same from answer to answer, where a damaged one is to be told by name."""
    bodies, (bases, ends) = gathered.data.data, gathered.answers
    starts = [
        start + np.array(_located_starts(bodies[start:end], wanted))
        for start, end, wanted in zip(bases, ends, gathered.ranges, strict=True)
    ]
    return Starts(np.concatenate(starts), np.array(list(map(len, starts))))


def _located_starts(body: memoryview, wanted: QueueRange) -> Sequence[int]:
    try:
        return record_starts(body)
    except DecodeError as error:
        queue, offset, _ = wanted
        error.locate(topic=queue.topic, broker=queue.broker_name, queue_id=queue.queue_id, offset=offset)
        raise
