"""Cut many slices out of a buffer at once.

A *span* is the start and the end of a slice of a byte buffer. An Arrow binary array also consists of spans over a
buffer, but each value ends where the next one starts. So the positions s₀ e₀ s₁ e₁ … make an Arrow array in which every
second value is one of our slices; Arrow's `take` copies these values into a proper array.
Slices of equal width need no such array: numpy views the buffer as overlapping windows of that width, and picks some.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..errors import LimitExceeded
from ..wire.properties import is_utf8

__all__ = [
    "Bytes",
    "Integers",
    "Spans",
    "cut_pairs",
    "cut_spans",
    "cut_windows",
    "gather_windows",
    "not_utf8",
    "pack_numbers",
    "pack_rows",
    "pack_texts",
    "peek_windows",
    "repeat_texts",
    "unsigned_at",
]

_MOST_COLUMN_BYTES = 2**31 - 1
"""Largest offset in an array of Arrow, which has 32-bit offsets; a larger one would wrap to another place in memory."""
_OFFSET_BYTES = 4
_MOST_KEPT_BYTES = 8 * 2**20
"""Largest array that `repeat_texts` keeps for later calls."""

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]


class Spans(NamedTuple):
    """Slices `[start, end)` of a buffer; a negative start means that there is no slice."""

    starts: Integers
    ends: Integers

    def where(self, rows: npt.NDArray[np.bool_] | Integers) -> Spans:
        """Return the spans that a mask or an array of indices chooses."""
        return Spans(self.starts[rows], self.ends[rows])


def cut_spans(data: Bytes, spans: Spans, type_: pa.DataType | None = None) -> pa.Array:
    """Return the slices as an Arrow array of type `type_` (default binary); null for a negative start.

    Slices must lie inside the buffer, and be UTF-8 for an array of strings; neither is checked.
    """
    starts, ends = spans
    type_, count = type_ or pa.binary(), len(starts)
    least = starts.min(initial=0)
    if not count or (least < 0 and starts.max() < 0):
        return pa.nulls(count, type_)
    sizes = ends - starts
    if least >= 0 and np.count_nonzero(sizes == sizes[0]) == count:
        return cut_windows(data, starts, int(sizes[0]), type_)
    return _cut_any(data, spans, type_)


def cut_windows(data: Bytes, starts: Integers, width: int, type_: pa.DataType) -> pa.Array:
    """Return slices of `width` bytes from each start, as an Arrow array of type `type_`."""
    count = len(starts)
    _require_room(count * width)
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(width)
    rows = gather_windows(data, starts, width)
    return pa.Array.from_buffers(type_, count, [None, pa.py_buffer(offsets), pa.py_buffer(rows)])


def pack_numbers(values: npt.NDArray[Any], absent: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """Return an Arrow array that shares the memory of `values`; null where `absent` is true.

    `pa.array` does the same, but imports pandas if it is installed, which nearly doubles the imports of a worker.
    """
    validity = None if absent is None else pa.py_buffer(np.packbits(~absent, bitorder="little"))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [validity, pa.py_buffer(values)])


def pack_rows(rows: Bytes | bytes, widths: Sequence[int], count: int) -> pa.Array:
    """Return the texts in `rows` as one Arrow array of strings, row after row.

    `rows` holds `count` rows without separators. All rows are cut alike: `widths` lists the lengths in bytes of the
    texts of one row.
    """
    _require_room(count * sum(widths))
    ends = np.cumsum(widths, dtype=np.int32)
    offsets = np.zeros(count * len(widths) + 1, np.int32)
    offsets[1:] = np.add.outer(np.arange(count, dtype=np.int32) * np.int32(sum(widths)), ends).reshape(-1)
    return pa.Array.from_buffers(pa.string(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(rows)])


def repeat_texts(texts: Sequence[bytes], count: int) -> pa.Array:
    """Return an Arrow array of strings that repeats these texts `count` times: a, b, a, b ...

    Arrays that are returned for equal texts share memory, unless they are large.
    """
    wanted, kept_count = tuple(texts), 1 << max(0, count - 1).bit_length()
    _require_room(count * sum(map(len, texts)))
    if kept_count * sum(len(text) + _OFFSET_BYTES for text in texts) > _MOST_KEPT_BYTES:
        return _repeat(wanted, count)
    return _kept(wanted, kept_count).slice(0, count * len(texts))


def _repeat(texts: tuple[bytes, ...], count: int) -> pa.Array:
    return pack_rows(b"".join(texts) * count, list(map(len, texts)), count)


_kept = lru_cache(maxsize=16)(_repeat)


def pack_texts(texts: Sequence[str]) -> pa.Array:
    """Return these texts as an Arrow array of strings; meant for few texts, because each is encoded by itself."""
    encoded = [text.encode() for text in texts]
    return pack_rows(b"".join(encoded), list(map(len, encoded)), 1)


def _cut_any(data: Bytes, spans: Spans, type_: pa.DataType) -> pa.Array:
    absent = spans.starts < 0
    if not absent.any():
        return cut_pairs(data, np.stack(spans, axis=1), type_)
    return cut_pairs(data, np.maximum(np.stack(spans, axis=1), 0), type_, absent)


def cut_pairs(
    data: Bytes, edges: npt.NDArray[np.integer[Any]], type_: pa.DataType, absent: npt.NDArray[np.bool_] | None = None
) -> pa.Array:
    """Return slices of the buffer as an Arrow array; `edges` holds the start and the end of each slice in turn.

    A slice is null where `absent` is true.
    """
    _require_room(len(data))
    offsets = np.zeros(edges.size + 2, np.int32)
    offsets[1:-1], offsets[-1] = edges.reshape(-1), len(data)
    slots = np.arange(1, edges.size, 2, dtype=np.int32)
    interleaved = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(type_, edges.size + 1, interleaved).take(pack_numbers(slots, absent))


def _require_room(byte_count: int) -> None:
    """Raise `LimitExceeded` if a column of `byte_count` bytes does not fit into one Arrow array."""
    if byte_count > _MOST_COLUMN_BYTES:
        raise LimitExceeded(
            f"a column of {byte_count} bytes in one record batch, the limit is {_MOST_COLUMN_BYTES}",
            advice="set arrowBatchSize to fewer rows, or read fewer columns",
        )


def gather_windows(data: Bytes, starts: Integers, width: int) -> Bytes:
    """Return a byte array with one row for each start: a copy of the `width` bytes from there on.

    These bytes must lie inside `data`.
    """
    if not width:
        return np.zeros((len(starts), 0), np.uint8)
    # Each window is one item, which numpy copies in one piece; copying it as a row of bytes takes three times as long.
    windows = np.ndarray((max(0, len(data) - width + 1),), f"V{width}", data, strides=(1,))
    return windows[starts].view(np.uint8).reshape(-1, width)


def peek_windows(data: Bytes, starts: Integers, width: int) -> Bytes:
    """Return a byte array with a row for each start: the `width` bytes from there on, zeros after the end of `data`."""
    try:
        return gather_windows(data, starts, width)
    except (IndexError, ValueError):
        return _peek_behind_end(data, starts, width)


def _peek_behind_end(data: Bytes, starts: Integers, width: int) -> Bytes:
    last = max(0, len(data) - width)
    padded = np.pad(data, (0, max(0, width - len(data)))) if len(data) < width else data
    windows = gather_windows(padded, np.minimum(starts, last), width)
    for row in np.flatnonzero(starts > last):
        seen = data[starts[row] :][:width]
        windows[row, : len(seen)], windows[row, len(seen) :] = seen, 0
    return windows


def unsigned_at(data: Bytes, width: int) -> npt.NDArray[np.unsignedinteger[Any]]:
    """Return a view in which item i is the big-endian number in the `width` bytes from position i."""
    return np.ndarray((max(0, len(data) - width + 1),), f">u{width}", data, strides=(1,))


def not_utf8(texts: pa.Array) -> Integers:
    """Return the indices of the texts that are not UTF-8."""
    try:
        texts.cast(pa.string())
    except pa.ArrowInvalid:
        return np.array([row for row, text in enumerate(texts.to_pylist()) if not is_utf8(text)], np.int64)
    return np.zeros(0, np.int64)
