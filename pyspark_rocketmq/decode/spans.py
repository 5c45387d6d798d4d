"""How does one cut many slices out of a buffer at once?

A *span* is a pair of positions in a byte buffer. Arrow's binary arrays already are spans over a buffer, with
the end of each being the start of the next; written as s₀ e₀ s₁ e₁ …, every second slot is a span of ours.
`take` of those slots copies each slice once and makes a well-formed array.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["Bytes", "Integers", "Spans", "cut_spans", "gather_windows"]

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]


class Spans(NamedTuple):
    """Slices `[start, end)` of a buffer; a start below zero means that there is none."""

    starts: Integers
    ends: Integers

    def where(self, rows: npt.NDArray[np.bool_] | Integers) -> Spans:
        """Some of the spans."""
        return Spans(self.starts[rows], self.ends[rows])


def cut_spans(data: Bytes, spans: Spans, type_: pa.DataType | None = None) -> pa.Array:
    """A binary (or string) array holding each span's bytes, null where there is no span.

    The caller vouches for the spans lying inside the buffer and, for strings, for the text being UTF-8.
    """
    count = len(spans.starts)
    offsets = np.zeros(2 * count + 2, np.int32)
    absent = spans.starts < 0
    offsets[1:-1:2], offsets[2:-1:2] = np.maximum(spans.starts, 0), np.maximum(spans.ends, 0)
    offsets[-1] = len(data)
    slots = pa.array(np.arange(1, 2 * count, 2), mask=absent if absent.any() else None)
    interleaved = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(type_ or pa.binary(), 2 * count + 1, interleaved).take(slots)


def gather_windows(data: Bytes, starts: Integers, width: int) -> Bytes:
    """The `width` bytes from each start, a row each."""
    return np.lib.stride_tricks.sliding_window_view(data, width)[starts]
