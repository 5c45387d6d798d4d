"""Join, hash and measure texts of many rows at once.

Texts are Arrow arrays of type `LARGE`, whose 64-bit offsets cannot overflow. To be hashed, a text is cut into *words*
of eight bytes: it is padded with zeros, and a last word holds its length, so that no two texts have the same words.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

__all__ = [
    "EMPTY",
    "LARGE",
    "Hashes",
    "Mask",
    "as_texts",
    "buffer_of",
    "constant",
    "fixed_texts",
    "hash_texts",
    "java_hashes",
    "join",
    "mix",
    "offsets_of",
    "sizes_of",
    "texts_of_rows",
    "to_arrow",
]

Hashes = npt.NDArray[np.uint64]
Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

LARGE = pa.large_binary()
EMPTY = pa.scalar(b"", LARGE)
_WORD = 8
_PADDINGS = pa.array([b"\0" * size for size in range(_WORD)], LARGE)
_WORDS_AT_ONCE = 2**15
"""Words that are hashed together: few enough for the processor's cache."""
_ROUNDS = ((np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)), (np.uint64(27), np.uint64(0x94D049BB133111EB)))
_LAST_SHIFT = np.uint64(31)
_GOLDEN = 0x9E3779B97F4A7C15


# --- texts -----------------------------------------------------------------------------------------------------------


def constant(text: bytes) -> pa.Scalar:
    """Return a text as an Arrow scalar, which `join` adds to every row."""
    return pa.scalar(text, LARGE)


def as_texts(values: pa.Array) -> pa.Array:
    """Return texts or bytes as an Arrow array of bytes with 64-bit offsets; nulls stay null."""
    return values.cast(LARGE)


def join(*parts: pa.Array | pa.Scalar) -> pa.Array:
    """Return one text for each row: the row's parts, joined without separators; null if one of them is null."""
    return pc.binary_join_element_wise(*parts, EMPTY)


def fixed_texts(rows: npt.NDArray[Any]) -> pa.Array:
    """Return the bytes of each row of an array as a text; all rows have the same size."""
    width = rows.dtype.itemsize * (rows.shape[1] if rows.ndim > 1 else 1)
    offsets = np.arange(len(rows) + 1, dtype=np.int64) * width
    data = pa.py_buffer(np.ascontiguousarray(rows))
    return pa.Array.from_buffers(LARGE, len(rows), [None, pa.py_buffer(offsets), data])


def texts_of_rows(starts: Integers, texts: pa.Array) -> pa.Array:
    """Return one text for each row: for row i the texts `[starts[i], starts[i + 1])`, joined without separators."""
    offsets = offsets_of(texts)[starts]
    return pa.Array.from_buffers(LARGE, len(offsets) - 1, [None, pa.py_buffer(offsets), buffer_of(texts)])


def to_arrow(values: npt.NDArray[Any]) -> pa.Array:
    """Return numbers or truth values as an Arrow array; unlike `pa.array`, do not import pandas if it is installed."""
    data = np.packbits(values, bitorder="little") if values.dtype == bool else np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(data)])


def sizes_of(texts: pa.Array) -> Integers:
    """Return the number of bytes of each text; 0 for null."""
    if len(texts) and not texts.null_count:
        return np.diff(offsets_of(texts))
    sizes: Integers = pc.fill_null(pc.binary_length(texts), 0).to_numpy(zero_copy_only=False)
    return sizes


def offsets_of(texts: pa.Array) -> Integers:
    """Return where each text begins in the array's buffer, and where the last one ends."""
    buffer = texts.buffers()[1]
    return np.frombuffer(buffer, np.int64, len(texts) + 1, texts.offset * 8)


def buffer_of(texts: pa.Array) -> pa.Buffer:
    """Return the buffer that holds the bytes of all texts; `offsets_of` returns where each text begins in it."""
    return texts.buffers()[2] or pa.py_buffer(b"")


# --- hashes ----------------------------------------------------------------------------------------------------------


def mix(values: Hashes) -> Hashes:
    """Return the 64-bit numbers scrambled one to one, by the finalizer of SplitMix64."""
    mixed = values.copy()
    _mix_in_place(mixed, np.empty_like(mixed))
    return mixed


def _mix_in_place(values: Hashes, spare: Hashes) -> None:
    """Scramble numbers as `mix` does. `spare` is memory of the same size, because fresh memory costs more than this."""
    for shift, factor in _ROUNDS:
        np.right_shift(values, shift, out=spare)
        np.bitwise_xor(values, spare, out=values)
        np.multiply(values, factor, out=values)
    np.right_shift(values, _LAST_SHIFT, out=spare)
    np.bitwise_xor(values, spare, out=values)


def hash_texts(texts: pa.Array, stream: int) -> Hashes:
    """Return a 64-bit hash of each text; hashes of different `stream` numbers are independent. A null counts as empty.

    A text is cut into words of eight bytes. Each word is scrambled and multiplied by an odd weight that depends on its
    position and on the stream; the sum of the products is scrambled again.
    """
    texts = pc.fill_null(texts, EMPTY)
    words, starts = _words(texts)
    counts = np.diff(starts)
    longest = int(counts.max(initial=1))
    weights = _weights(stream, 1 << (longest - 1).bit_length())
    hashes = np.empty(len(texts), np.uint64)
    memory = np.empty((2, max(longest, min(len(words), _WORDS_AT_ONCE))), np.uint64)
    for first, last in _portions(starts):
        begin, end = starts[first], starts[last]
        mixed, spare = memory[:, : end - begin]
        mixed[:] = words[begin:end]
        _mix_in_place(mixed, spare)
        positions = np.arange(begin, end)
        positions -= np.repeat(starts[first:last], counts[first:last])
        np.take(weights, positions, out=spare, mode="clip")
        np.multiply(mixed, spare, out=mixed)
        np.add.reduceat(mixed, starts[first:last] - begin, out=hashes[first:last])
    _mix_in_place(hashes, np.empty_like(hashes))
    return hashes


def _words(texts: pa.Array) -> tuple[Hashes, Integers]:
    """Return the 8-byte words of all texts in one array, and the index in it at which the words of each text begin.

    One more index at the end is the number of all words.
    """
    sizes = sizes_of(texts)
    padding = _PADDINGS.take(to_arrow(-sizes % _WORD))
    padded = join(texts, padding, fixed_texts(sizes.astype("<i8")))
    offsets = offsets_of(padded)
    words = np.frombuffer(buffer_of(padded), "<u8", int(offsets[-1] - offsets[0]) // _WORD, int(offsets[0]))
    return words, (offsets - offsets[0]) // _WORD


def _portions(starts: Integers) -> Iterator[tuple[int, int]]:
    """Yield ranges (first, end) of texts that have at most `_WORDS_AT_ONCE` 8-byte words together.

    A text with more words is a range of its own. `starts` holds the index of each text's first word, and at the end the
    number of all words.
    """
    first, count = 0, len(starts) - 1
    while first < count:
        last = int(np.searchsorted(starts, starts[first] + _WORDS_AT_ONCE, "right")) - 1
        last = max(last, first + 1)
        yield first, last
        first = last


@lru_cache(maxsize=16)
def _weights(stream: int, count: int) -> Hashes:
    """Return `count` odd numbers by which `hash_texts` multiplies the words of a text.

    Each `stream` has its own numbers, which are the same in every process and release.
    """
    seed = np.uint64((stream + 1) * _GOLDEN & 2**64 - 1)
    numbers = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(_GOLDEN)
    return mix(mix(numbers) ^ seed) | np.uint64(1)


def java_hashes(texts: pa.Array) -> Integers:
    """Return Java's `String.hashCode` of each text; texts must be UTF-8 and not null."""
    offsets = offsets_of(texts)
    data = memoryview(buffer_of(texts))[offsets[0] : offsets[-1]]
    units = np.frombuffer(str(data, "utf-8").encode("utf-16-be"), ">u2").astype(np.uint32)
    ends = _units_before(np.frombuffer(data, np.uint8), offsets - offsets[0])
    counts = np.diff(ends)
    powers = _powers_of_31(1 << int(counts.max(initial=1)).bit_length())
    products = units * powers[np.repeat(ends[1:], counts) - 1 - np.arange(len(units))]
    # The sum of a row is the difference of running sums, which also holds for empty rows.
    sums = np.zeros(len(units) + 1, np.uint32)
    np.cumsum(products, dtype=np.uint32, out=sums[1:])
    return np.diff(sums[ends]).view(np.int32).astype(np.int64)


def _units_before(data: npt.NDArray[np.uint8], offsets: Integers) -> Integers:
    """Return how many UTF-16 units stand before each of the byte `offsets` in the UTF-8 text `data`.

    A character of four bytes takes two units, any other character one.
    """
    units = ((data & 0xC0) != 0x80).astype(np.int64) + (data >= 0xF0)
    sums = np.zeros(len(data) + 1, np.int64)
    np.cumsum(units, out=sums[1:])
    return sums[offsets]


@lru_cache(maxsize=4)
def _powers_of_31(count: int) -> npt.NDArray[np.uint32]:
    powers = np.full(count, 31, np.uint32)
    powers[0] = 1
    return np.multiply.accumulate(powers, dtype=np.uint32)
