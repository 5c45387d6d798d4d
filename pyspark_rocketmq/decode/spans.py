"""Cut many slices out of a buffer at once.

A *span* is a pair of positions in a byte buffer. Arrow's binary arrays are spans over a buffer, too, in which each
value ends where the next one starts. Written as s₀ e₀ s₁ e₁ …, every second value is one of our spans: `take` of
these values copies each slice once and makes a well-formed array. Slices of one width do without it: every window of
that width is one item of an overlapping array.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

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

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]


class Spans(NamedTuple):
    """Slices `[start, end)` of a buffer; a start below zero means that there is none."""

    starts: Integers
    ends: Integers

    def where(self, rows: npt.NDArray[np.bool_] | Integers) -> Spans:
        """Return some of the spans."""
        return Spans(self.starts[rows], self.ends[rows])


def cut_spans(data: Bytes, spans: Spans, type_: pa.DataType | None = None) -> pa.Array:
    """Return an array of the spans' bytes, of type binary unless another is given; null where there is no span.

    Spans must lie inside the buffer, and be UTF-8 for an array of strings; neither is checked.
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
    """Return an array of the `width` bytes from each start."""
    count = len(starts)
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(width)
    rows = gather_windows(data, starts, width)
    return pa.Array.from_buffers(type_, count, [None, pa.py_buffer(offsets), pa.py_buffer(rows)])


def pack_numbers(values: npt.NDArray[Any], absent: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """Return an array over the numbers as they lie in memory, null where absent.

    `pa.array` does the same, but imports pandas if it is installed, which nearly doubles what a worker imports.
    """
    validity = None if absent is None else pa.py_buffer(np.packbits(~absent, bitorder="little"))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [validity, pa.py_buffer(values)])


def pack_rows(rows: Bytes | bytes, widths: Sequence[int], count: int) -> pa.Array:
    """Return an array of strings from `count` rows, each of texts of these widths one behind the other."""
    ends = np.cumsum(widths, dtype=np.int32)
    offsets = np.zeros(count * len(widths) + 1, np.int32)
    offsets[1:] = np.add.outer(np.arange(count, dtype=np.int32) * np.int32(sum(widths)), ends).reshape(-1)
    return pa.Array.from_buffers(pa.string(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(rows)])


def repeat_texts(texts: Sequence[bytes], count: int) -> pa.Array:
    """Return an array of strings of `count` rows, each of these texts; batches share one array in memory."""
    return _repeated(tuple(texts), 1 << max(0, count - 1).bit_length()).slice(0, count * len(texts))


@lru_cache(maxsize=16)
def _repeated(texts: tuple[bytes, ...], count: int) -> pa.Array:
    return pack_rows(b"".join(texts) * count, list(map(len, texts)), count)


def pack_texts(texts: Sequence[str]) -> pa.Array:
    """Return an array of a few strings."""
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
    """Return an array of the bytes between starts and ends, which alternate in `edges`; null where absent."""
    offsets = np.zeros(edges.size + 2, np.int32)
    offsets[1:-1], offsets[-1] = edges.reshape(-1), len(data)
    slots = np.arange(1, edges.size, 2, dtype=np.int32)
    interleaved = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(type_, edges.size + 1, interleaved).take(pack_numbers(slots, absent))


def gather_windows(data: Bytes, starts: Integers, width: int) -> Bytes:
    """Return the `width` bytes from each start, a row each."""
    if not width:
        return np.zeros((len(starts), 0), np.uint8)
    # A window as one item is copied in one piece; as a row of bytes it would cost three times as much.
    windows = np.ndarray((max(0, len(data) - width + 1),), f"V{width}", data, strides=(1,))
    return windows[starts].view(np.uint8).reshape(-1, width)


def peek_windows(data: Bytes, starts: Integers, width: int) -> Bytes:
    """Return the `width` bytes from each start, a row each; bytes behind the data's end are zero."""
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
    """Return the big-endian numbers of `width` bytes that begin at each place."""
    return np.ndarray((max(0, len(data) - width + 1),), f">u{width}", data, strides=(1,))


def not_utf8(texts: pa.Array) -> Integers:
    """Return the indices of the texts that are not UTF-8."""
    try:
        texts.cast(pa.string())
    except pa.ArrowInvalid:
        return np.array([row for row, text in enumerate(texts.to_pylist()) if not _is_utf8(text)], np.int64)
    return np.zeros(0, np.int64)


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
