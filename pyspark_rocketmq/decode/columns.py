"""How do the answers of many pulls become one record batch?

Blocks (one per pull answer) are joined; plain records are decoded in bulk and odd ones row by row, and the two
are merged back into the order in which they came. Offsets outside a block's range, which a broker may send
around an inner batch or beyond the wanted end, are left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import DecodeError
from ..model import Block
from ..wire.record import decode_record
from ..wire.scan import record_starts
from .bulk import READS_PROPERTIES, Bulk, bulk_column
from .memory import keep_freed_memory
from .rows import Content, Mode, Row, read_rows, row_value
from .schema import arrow_schema
from .shaped import ShapeFinder
from .spans import Bytes, Integers, Spans
from .starts import Starts, maybe_find_starts

__all__ = ["ColumnDecoder", "Decoded", "RecordBatch"]

RecordBatch = pa.RecordBatch
"""What decoding makes; opaque to every other room."""

_BODY_COLUMNS = frozenset(("body", "value"))


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

    def decode(self, blocks: Sequence[Block]) -> Decoded:
        """One record batch of all messages wanted, in the order of the blocks."""
        blocks = [block for block in blocks if block.data]
        if not blocks:
            return Decoded(pa.RecordBatch.from_pylist([], schema=self.schema), 0, 0)
        bulk = _join(blocks, self._shape_finder)
        odd = self._odd(bulk)
        plain = bulk.only(~odd)
        wanted = self._is_wanted(plain, blocks)
        arrays = self._bulk_arrays(plain.only(wanted))
        if not odd.any():
            return Decoded(pa.RecordBatch.from_arrays(arrays, schema=self.schema), 0, 0)
        rows = list(self._odd_rows(bulk, np.flatnonzero(odd), blocks))
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

    def _is_wanted(self, bulk: Bulk, blocks: Sequence[Block]) -> npt.NDArray[np.bool_]:
        starts = np.array([block.wanted.start for block in blocks])[bulk.blocks]
        ends = np.array([block.wanted.end for block in blocks])[bulk.blocks]
        wanted = (bulk.queue_offsets >= starts) & (bulk.queue_offsets < ends)
        if self.content.tags:
            filtered = np.array([self.content.filters(block.wanted.queue.topic) for block in blocks])
            has_tag = pc.is_in(bulk.entries.values_of("TAGS"), pa.array(sorted(self.content.tags))).to_numpy(False)
            wanted &= has_tag | ~filtered[bulk.blocks]
        return wanted

    def _bulk_arrays(self, bulk: Bulk) -> list[pa.Array]:
        return [bulk_column(name, bulk, self.content) for name in self.columns]

    def _odd_rows(self, bulk: Bulk, indexes: Integers, blocks: Sequence[Block]) -> Iterator[tuple[int, Row]]:
        """The wanted messages of odd records, each with the index of its record."""
        view = bulk.data.data
        for index in indexes.tolist():
            queue, start, end = blocks[bulk.blocks[index]].wanted
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


def _join(blocks: Sequence[Block], finder: ShapeFinder) -> Bulk:
    """All records of the blocks, none of which is empty, over one buffer."""
    data, bases = _one_buffer([block.data for block in blocks])
    answers = Spans(bases, bases + np.array([len(block.data) for block in blocks]))
    starts, counts = maybe_find_starts(data, answers) or _walk_each(blocks, bases)
    indexes = np.repeat(np.arange(len(blocks)), counts)
    return Bulk(data, starts, indexes, [block.wanted.queue for block in blocks], finder)


def _walk_each(blocks: Sequence[Block], bases: Integers) -> Starts:
    starts = [base + np.array(_starts(block)) for block, base in zip(blocks, bases, strict=True)]
    return Starts(np.concatenate(starts), np.array(list(map(len, starts))))


def _starts(block: Block) -> Sequence[int]:
    try:
        return record_starts(block.data)
    except DecodeError as error:
        queue, offset, _ = block.wanted
        error.locate(topic=queue.topic, broker=queue.broker_name, queue_id=queue.queue_id, offset=offset)
        raise


def _one_buffer(parts: Sequence[memoryview]) -> tuple[Bytes, Integers]:
    """A buffer that holds all parts, and where they begin in it: what they are views of, else a copy."""
    owner = parts[0].obj
    if all(part.obj is owner for part in parts):
        whole = np.frombuffer(memoryview(owner), np.uint8)
        return whole, np.array([pa.py_buffer(part).address for part in parts]) - whole.ctypes.data
    ends = np.cumsum([0, *map(len, parts)])
    return np.frombuffer(b"".join(parts), np.uint8), ends[:-1]
