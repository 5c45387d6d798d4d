"""How do the answers of many pulls become one record batch?

Answers are gathered until a batch is full; then plain records are decoded in bulk and odd ones row by row, and the two
are merged back into the order in which they came. Offsets outside an answer's range, which a broker may send
around an inner batch or beyond the wanted end, are left out.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..model import Block
from .bulk import READS_PROPERTIES, Bulk, bulk_column
from .claims import check_origins, place
from .gathered import Answers, Gathered
from .memory import keep_freed_memory
from .mending import Mender, Recheck
from .odd import OddReader, Portion
from .rows import Content, row_value
from .schema import arrow_schema
from .shaped import ShapeFinder
from .spans import Integers, pack_numbers
from .starts import find_starts, walk_each

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


class _Found(NamedTuple):
    """The records of some answers."""

    bulk: Bulk
    answers: Answers
    are_all_wanted: bool
    suspects: list[int]


class ColumnDecoder:
    """Decodes blocks into a fixed choice of columns, some of them `nullable` because Spark was told so."""

    def __init__(
        self,
        columns: Sequence[str],
        content: Content | None = None,
        nullable: Collection[str] = (),
        recheck: Recheck | None = None,
    ) -> None:
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
        self._mender = Mender(recheck)

    def decode_all(self, blocks: Iterable[Block], size: BatchSize | None = None) -> Iterator[Decoded]:
        """Record batches of a size. What a block looks into is not needed any more when the next one is asked for."""
        gathered = self._gathered
        gathered.clear()
        most_messages, most_bytes = size = size or BatchSize()
        messages = byte_count = 0
        for block in self._with_large_apart(blocks, most_bytes):
            more_bytes, more_messages = len(block[0]), block[2] or 1
            if more_bytes * 2 >= most_bytes:
                more_bytes = most_bytes  # nothing has room beside it
            messages, byte_count = messages + more_messages, byte_count + more_bytes
            if (messages > most_messages or byte_count > most_bytes) and gathered:
                yield from self._decode_gathered(size)
                messages, byte_count = more_messages, more_bytes
            gathered.put(block)
        if gathered:
            yield from self._decode_gathered(size)

    def _decode_gathered(self, size: BatchSize) -> Iterator[Decoded]:
        gathered = self._gathered
        try:
            found = self._find_records(gathered)
            if found.suspects:
                yield from self._second().decode_all(self._mender.mend(gathered.blocks, found.suspects), size)
            else:
                yield from self._decode(found, size.byte_count)
        finally:
            gathered.clear()

    def _second(self) -> ColumnDecoder:
        """What decodes answers that were read again; it mends nothing, so that no answer is read a third time."""
        second = copy.copy(self)
        second._gathered, second._mender = Gathered(), self._mender.without_recheck()
        return second

    def _find_records(self, gathered: Gathered) -> _Found:
        """All records of the answers, and which answers are to be read again."""
        answers = gathered.answers
        starts, counts = find_starts(gathered.data, gathered.spans, answers.ranges)
        bulk = Bulk(gathered.data, starts, counts, answers.queues, self._shape_finder)
        if not bulk.has_known_magics():
            walk_each(gathered.data, gathered.spans, answers.ranges)  # It raises, and says in which answer.
        check_origins(bulk, answers, self.content)
        placed = place(bulk, answers)
        bulk.positions = placed.positions
        return _Found(bulk, answers, placed.are_all_wanted, self._mender.suspects(bulk, answers, placed))

    def _with_large_apart(self, blocks: Iterable[Block], most_bytes: int) -> Iterator[Block]:
        """The blocks in order, those of half the bytes as one block a record."""
        for block in blocks:
            if len(block[0]) * 2 < most_bytes:
                yield block
            else:
                yield from self._records_apart(block, most_bytes)

    def _records_apart(self, block: Block, most_bytes: int) -> Iterator[Block]:
        """Each record of an answer as a block of its own, which tells where it stands."""
        whole = Gathered()
        whole.put(block)
        bulk, _, _, suspects = self._find_records(whole)
        if suspects:
            yield from self._second()._with_large_apart(self._mender.mend([block], suspects), most_bytes)
            return
        ends = pairwise([*bulk.starts.tolist(), len(block.data)])
        ahead = (bulk.stored_offsets != bulk.positions).tolist()
        for (start, end), position, is_ahead in zip(ends, bulk.positions.tolist(), ahead, strict=True):
            claim = (position, 1, position + 1) if is_ahead else (position, 0, 0)
            yield Block(block.data[start:end], block.wanted, 1, *claim)

    def _decode(self, found: _Found, most_bytes: int) -> Iterator[Decoded]:
        """One record batch, or several if there are packed bodies that are larger when unpacked."""
        bulk, answers, _, _ = found
        is_odd = self._is_odd(bulk)
        plain = bulk.only(~is_odd)
        wanted = self._is_wanted(plain, found)
        arrays = self._bulk_arrays(plain.only(wanted))
        if not is_odd.any():
            yield Decoded(pa.RecordBatch.from_arrays(arrays, schema=self.schema), 0, 0)
            return
        places, begin = np.flatnonzero(~is_odd)[wanted], 0
        for portion in self._odd_reader.portions(bulk, np.flatnonzero(is_odd), answers.ranges, most_bytes):
            end = int(np.searchsorted(places, portion.end))
            merged = self._merge([array[begin:end] for array in arrays], places[begin:end], portion)
            yield Decoded(merged, portion.handed_over, portion.dropped)
            begin = end

    def _is_odd(self, bulk: Bulk) -> npt.NDArray[np.bool_]:
        plain = bulk.plain()
        if self._reads_properties and len(careful := bulk.only(plain).unreadable_properties()):
            plain[np.flatnonzero(plain)[careful]] = False
        return ~plain

    def _is_wanted(self, bulk: Bulk, found: _Found) -> npt.NDArray[np.bool_]:
        if found.are_all_wanted:
            wanted = np.ones(len(bulk.positions), np.bool_)
        else:
            starts = np.array(found.answers.starts)[bulk.answers]
            ends = np.array(found.answers.ends)[bulk.answers]
            wanted = (bulk.positions >= starts) & (bulk.positions < ends)
        if self.content.tags:
            filtered = np.array([self.content.filters(queue.topic) for queue in found.answers.queues])
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
