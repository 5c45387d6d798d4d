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

from ..model import Block, QueueRange
from .bulk import READS_PROPERTIES, Bulk, bulk_column
from .gathered import Gathered
from .memory import keep_freed_memory
from .odd import OddReader, Portion
from .rows import Content, row_value
from .schema import arrow_schema
from .shaped import ShapeFinder
from .spans import Integers, pack_numbers
from .starts import each_record, find_starts

__all__ = ["BatchSize", "ColumnDecoder", "Decoded", "RecordBatch"]

RecordBatch = pa.RecordBatch
"""What decoding makes; opaque to every other room."""

_BODY_COLUMNS = frozenset(("body", "value"))


class BatchSize(NamedTuple):
    """What a record batch is made of at most, unless one answer has more messages.

    An answer of half the bytes is taken record by record, and a record of half the bytes makes a batch of its own.
    """

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
        self._odd_reader = OddReader(
            self.content, self._reads_properties, reads_bodies=not _BODY_COLUMNS.isdisjoint(self.columns)
        )
        self._shape_finder = ShapeFinder()
        self._gathered = Gathered()

    def decode_all(self, blocks: Iterable[Block], size: BatchSize | None = None) -> Iterator[Decoded]:
        """Record batches of a size. What a block looks into is not needed any more when the next one is asked for."""
        most_messages, most_bytes = size or BatchSize()
        gathered = self._gathered
        gathered.clear()
        messages = byte_count = 0
        for data, wanted, more_messages, *_ in _with_large_apart(blocks, most_bytes):
            more_bytes = len(data)
            if more_bytes * 2 >= most_bytes:
                more_bytes = most_bytes  # nothing has room beside it
            messages, byte_count = messages + more_messages, byte_count + more_bytes
            if gathered.ranges and (messages > most_messages or byte_count > most_bytes):
                yield from self._decode_gathered(most_bytes)
                messages, byte_count = more_messages, more_bytes
            gathered.put(data, wanted)
        if gathered.ranges:
            yield from self._decode_gathered(most_bytes)

    def _decode_gathered(self, most_bytes: int) -> Iterator[Decoded]:
        try:
            yield from self._decode(self._gathered, most_bytes)
        finally:
            self._gathered.clear()

    def _decode(self, gathered: Gathered, most_bytes: int) -> Iterator[Decoded]:
        """One record batch, or several if there are packed bodies that are larger when unpacked."""
        ranges = gathered.ranges
        bulk = _find_records(gathered, self._shape_finder)
        is_odd = self._is_odd(bulk)
        plain = bulk.only(~is_odd)
        wanted = self._is_wanted(plain, ranges)
        arrays = self._bulk_arrays(plain.only(wanted))
        if not is_odd.any():
            yield Decoded(pa.RecordBatch.from_arrays(arrays, schema=self.schema), 0, 0)
            return
        places, begin = np.flatnonzero(~is_odd)[wanted], 0
        for portion in self._odd_reader.portions(bulk, np.flatnonzero(is_odd), ranges, most_bytes):
            end = int(np.searchsorted(places, portion.end))
            merged = self._merge([array[begin:end] for array in arrays], places[begin:end], portion)
            yield Decoded(merged, portion.handed_over, portion.dropped)
            begin = end

    def _is_odd(self, bulk: Bulk) -> npt.NDArray[np.bool_]:
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

    def _merge(self, arrays: list[pa.Array], places: Integers, portion: Portion) -> pa.RecordBatch:
        """Bulk arrays of the records at these places, and rows, in the order of their records."""
        order = pack_numbers(np.argsort(np.concatenate((places, portion.records)), kind="stable"))
        merged = []
        for name, array in zip(self.columns, arrays, strict=True):
            odd = pa.array([row_value(name, row) for row in portion.rows], self.schema.field(name).type)
            merged.append(pa.concat_arrays([array, odd]).take(order))
        return pa.RecordBatch.from_arrays(merged, schema=self.schema)


def _with_large_apart(blocks: Iterable[Block], most_bytes: int) -> Iterator[Block]:
    """The blocks in order, those of half the bytes as one block a record."""
    for block in blocks:
        if len(block.data) * 2 < most_bytes:
            yield block
        else:
            yield from each_record(block)


def _find_records(gathered: Gathered, finder: ShapeFinder) -> Bulk:
    """All records of the answers."""
    starts, counts = find_starts(gathered.data, gathered.answers, gathered.ranges)
    answers = np.repeat(np.arange(len(counts)), counts)
    return Bulk(gathered.data, starts, answers, [each.queue for each in gathered.ranges], finder)
