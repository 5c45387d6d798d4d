"""Make record batches from the responses to many pulls.

The decoder copies responses into its own memory until they fill a record batch. It copies each response as soon as it
comes: then the response is still in the processor's cache, and the receive buffer is free for the next one. A later
copy costs three times as much, and bytes received meanwhile need more buffers, which are not in the cache either.

`bulk` decodes the plain records of a full batch with operations on whole arrays; `irregular` decodes the others one by
one. Their rows are merged in the order of the records. A broker may send records at offsets that are not wanted, around
an inner batch or beyond the wanted end; these are left out.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ..model import Block, QueueRange
from .bulk import PlainColumns, Records, Responses, decode_plain, find_records
from .columns import COLUMNS, Column, ColumnType, Content
from .coverage import Recheck, Suspects, check_queues, find_positions
from .irregular import IrregularReader, Portion
from .shapes import ShapeFinder
from .spans import Bytes, Integers, Spans, pack_numbers

__all__ = ["BatchSize", "ColumnDecoder", "Decoded", "Gathered", "RecordBatch", "arrow_schema"]

RecordBatch = pa.RecordBatch
"""Arrow's record batch; other packages pass it on without looking inside."""


class BatchSize(NamedTuple):
    """Largest size of a record batch; a single response with more messages makes a larger batch.

    A response of half of `byte_count` or more is split into its records. Each split record that has half of
    `byte_count` or more makes a batch of its own.
    """

    messages: int = 10_000
    byte_count: int = 8 * 2**20


@dataclass(frozen=True, slots=True)
class Decoded:
    """A record batch, how many of its records were irregular, and how many messages were left out as unreadable."""

    batch: pa.RecordBatch
    irregular_count: int
    """Number of records that were decoded one by one."""
    dropped: int
    """Number of messages that were left out because they cannot be read."""


class ColumnDecoder:
    """Decodes blocks into record batches with a fixed list of columns.

    Columns named in `nullable` may hold null even if the table of columns says otherwise. `recheck` pulls incomplete
    responses again; without it, an incomplete response raises `AnswerMismatch`.
    """

    def __init__(
        self,
        columns: Sequence[str],
        content: Content | None = None,
        nullable: Collection[str] = (),
        recheck: Recheck | None = None,
    ) -> None:
        _keep_freed_memory()
        self.content = content or Content()
        self.schema = arrow_schema(columns, self.content.properties_as_json, nullable)
        self._columns = [COLUMNS[name] for name in columns]
        self._shapes = ShapeFinder()
        self._irregular_reader = IrregularReader(self.content, self._columns, self._shapes)
        self._gathered = Gathered()
        self._suspects = Suspects(recheck)

    def decode_all(self, blocks: Iterable[Block], size: BatchSize | None = None) -> Iterator[Decoded]:
        """Yield record batches of at most `size`. A block is copied before the next one is requested from `blocks`."""
        gathered = self._gathered
        gathered.clear()
        most_messages, most_bytes = size = size or BatchSize()
        messages = byte_count = 0
        for block in self._with_large_split(blocks, most_bytes):
            more_bytes, more_messages = len(block[0]), block[2] or 1
            if more_bytes * 2 >= most_bytes:
                more_bytes = most_bytes  # the block fills a batch alone
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
            records, suspects = self._find_records(gathered)
            if suspects:
                yield from self._second().decode_all(self._suspects.read_again(gathered.blocks, suspects), size)
            else:
                yield from self._decode(records, size)
        finally:
            gathered.clear()

    def _second(self) -> ColumnDecoder:
        """Return a decoder for responses that were pulled again.

        It raises `AnswerMismatch` where this decoder would pull a response again.
        """
        second = copy.copy(self)
        second._gathered, second._suspects = Gathered(), self._suspects.without_recheck()
        return second

    def _find_records(self, gathered: Gathered) -> tuple[Records, list[int]]:
        """Return the records of all responses with their positions, and the indices of the responses to pull again."""
        records = find_records(gathered.data, gathered.spans, gathered.responses)
        check_queues(records, self.content.stored_topic)
        placed = find_positions(records)
        records.positions, records.are_all_wanted = placed.positions, placed.are_all_wanted
        return records, self._suspects.find(records, placed)

    def _with_large_split(self, blocks: Iterable[Block], most_bytes: int) -> Iterator[Block]:
        """Yield the blocks in order; split a block of half of `most_bytes` or more into one block for each record."""
        for block in blocks:
            if len(block[0]) * 2 < most_bytes:
                yield block
            else:
                yield from self._split(block, most_bytes)

    def _split(self, block: Block, most_bytes: int) -> Iterator[Block]:
        """Yield each record of a response as a block of its own, which states the record's position."""
        whole = Gathered()
        whole.put(block)
        records, suspects = self._find_records(whole)
        if suspects:
            yield from self._second()._with_large_split(self._suspects.read_again([block], suspects), most_bytes)
            return
        ends = pairwise([*records.starts.tolist(), len(block.data)])
        ahead = (records.stored_offsets != records.positions).tolist()
        for (start, end), position, is_ahead in zip(ends, records.positions.tolist(), ahead, strict=True):
            covered = (position, 1, position + 1) if is_ahead else (position, 0, 0)
            yield Block(block.data[start:end], block.wanted, 1, *covered)

    def _decode(self, records: Records, size: BatchSize) -> Iterator[Decoded]:
        """Yield the rows of the records in one record batch; in several if those of irregular records exceed `size`."""
        plain = decode_plain(records, self._columns, self.content, self._shapes)
        if not len(plain.irregular):
            yield Decoded(pa.RecordBatch.from_arrays(plain.arrays, schema=self.schema), 0, 0)
            return
        begin = 0
        for portion in self._irregular_reader.portions(records, plain.irregular, *size):
            end = int(np.searchsorted(plain.places, portion.end))
            merged = self._merge(plain, begin, end, portion)
            yield Decoded(merged, portion.irregular_count, portion.dropped)
            begin = end

    def _merge(self, plain: PlainColumns, begin: int, end: int, portion: Portion) -> pa.RecordBatch:
        """Return a record batch of the plain rows `[begin, end)` and the rows of `portion`, in record order."""
        places = np.concatenate((plain.places[begin:end], portion.records, portion.array_records))
        order = pack_numbers(np.argsort(places, kind="stable"))
        merged = []
        for number, column in enumerate(self._columns):
            single = pa.array([column.read(row) for row in portion.rows], self.schema.field(column.name).type)
            arrays = [plain.arrays[number][begin:end], single, *(more.arrays[number] for more in portion.arrays)]
            merged.append(pa.concat_arrays(arrays).take(order))
        return pa.RecordBatch.from_arrays(merged, schema=self.schema)


# --- memory ----------------------------------------------------------------------------------------------------------

_FIRST_BYTES = 64 * 1024
_LARGE_BLOCK_BYTES = 16 * 2**20
"""Twice the usual bytes of a batch, and below the 32 MiB up to which glibc adapts its threshold."""


class Gathered:
    """The responses of one batch, one after another in memory that is reused for the next batch."""

    def __init__(self) -> None:
        self._memory = _memory_of(_FIRST_BYTES)
        self._ends = [0]
        self._described: list[tuple[QueueRange, int, int, int, int]] = []
        """The fields of each block, without its data."""

    def __bool__(self) -> bool:
        return bool(self._described)

    @property
    def data(self) -> Bytes:
        """The bytes of all responses."""
        return np.frombuffer(self._memory[: self._ends[-1]], np.uint8)

    @property
    def spans(self) -> Spans:
        """Start and end of each response in `data`."""
        ends: Integers = np.array(self._ends)
        return Spans(ends[:-1], ends[1:])

    @property
    def responses(self) -> Responses:
        """The wanted and the covered offsets of the responses."""
        ranges, message_counts, firsts, covered, nexts = zip(*self._described, strict=True)
        queues, starts, ends, _ = zip(*ranges, strict=True)
        return Responses(ranges, message_counts, firsts, covered, nexts, queues, starts, ends)

    @property
    def blocks(self) -> list[Block]:
        """The blocks that were put in; their data are views of the memory of this object."""
        return [
            Block(self._memory[start:end], *described)
            for (start, end), described in zip(pairwise(self._ends), self._described, strict=True)
        ]

    def put(self, block: Block) -> None:
        """Append a copy of a block.

        Skip an empty block, unless offsets are noted for which it should hold messages: that is an error to report.
        """
        data, start = block[0], self._ends[-1]
        end = start + len(data)
        if end == start and not block.covered:
            return
        if end > len(self._memory):
            self._grow(end)
        self._memory[start:end] = data
        self._ends.append(end)
        self._described.append(block[1:])

    def clear(self) -> None:
        """Remove all blocks; keep the memory for the next batch."""
        self._ends, self._described = [0], []

    def _grow(self, wanted: int) -> None:
        larger = _memory_of(max(wanted, 2 * len(self._memory)))
        kept = self._ends[-1]
        larger[:kept] = self._memory[:kept]
        self._memory = larger


def _memory_of(byte_count: int) -> memoryview:
    return np.empty(byte_count, np.uint8).data


@cache
def _keep_freed_memory() -> None:
    """Let this process keep the memory that it frees, instead of returning it to the operating system.

    Decoding a batch frees all memory but that of its columns. The C library would return it to the operating system,
    and the next batch would get it back page by page, which takes up to 2 µs a message, more than decoding. But after a
    large block was freed, glibc keeps free memory of up to twice its size. So this function allocates a large block and
    frees it at once; nothing is written to it, so it takes no real memory. One call is enough. Other C libraries ignore
    it.
    """
    bytearray(_LARGE_BLOCK_BYTES)


# --- schema ----------------------------------------------------------------------------------------------------------

_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
_ARROW_TYPES: dict[ColumnType, pa.DataType] = {
    ColumnType.STRING: pa.string(),
    ColumnType.INT: pa.int32(),
    ColumnType.BIGINT: pa.int64(),
    ColumnType.BINARY: pa.binary(),
    ColumnType.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    ColumnType.MAP: pa.map_(pa.string(), pa.string()),
    ColumnType.HEADERS: pa.list_(pa.field("element", _HEADER)),
}


def arrow_schema(columns: Sequence[str], properties_as_json: bool = False, nullable: Collection[str] = ()) -> pa.Schema:
    """Return the Arrow schema of the columns; those named in `nullable` are nullable even if `COLUMNS` says otherwise.

    It must equal the schema that Spark derives from its own one (names, nullability, time zone); otherwise Spark
    refuses the first record batch.
    """
    return pa.schema([_arrow_field(COLUMNS[name], properties_as_json, name in nullable) for name in columns])


def _arrow_field(column: Column, properties_as_json: bool, nullable: bool) -> pa.Field:
    as_text = properties_as_json and column.type is ColumnType.MAP
    type_ = pa.string() if as_text else _ARROW_TYPES[column.type]
    return pa.field(column.name, type_, column.nullable or nullable)
