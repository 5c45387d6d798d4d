"""Split the property texts of many messages at once.

The texts lie one after another in one buffer: `name \\x01 value \\x02 name \\x01 value \\x02 …`. In regular texts
the two separators alternate from the first byte to the last, so one search for separators in the whole buffer finds all
names and values. A text whose separators do not alternate (a value that contains a separator, a name without a value)
is reported as irregular; its record is decoded by `rows`.

The property names may differ from row to row: each distinct name gets a number. Where rows have the same names,
`shapes` is several times as fast.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .spans import Bytes, Integers, Spans, cut_spans, pack_numbers

__all__ = ["Entries", "PropertyTexts", "Selected", "split_entries"]

_NAME_END, _ENTRY_END = 1, 2


class PropertyTexts:
    """The property texts of a batch, one for each row; a last separator that a broker left out is added."""

    def __init__(self, texts: pa.Array) -> None:
        texts = _terminated(texts)
        _, offsets, data = texts.buffers()
        self.row_count = len(texts)
        self.limits: Integers = np.frombuffer(offsets, np.int32, len(texts) + 1, 4 * texts.offset)
        self.data: Bytes = np.frombuffer(data or b"", np.uint8)[: self.limits[-1]]
        self.separators: Integers = np.flatnonzero(self.data - np.uint8(_NAME_END) < _ENTRY_END)
        """Positions of the separators of both kinds.

        A zero byte is not found, since the difference wraps around to 255.
        """

    def irregular_rows(self) -> Integers:
        """Return the indices of the rows whose separators do not alternate."""
        kinds = self.data[self.separators]
        if len(kinds) % 2 == 0 and (kinds[::2] == _NAME_END).all() and (kinds[1::2] == _ENTRY_END).all():
            return np.zeros(0, np.int64)
        rows = np.searchsorted(self.limits[1:], self.separators, side="right")
        counts = np.bincount(rows, minlength=self.row_count)
        in_row = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        out_of_turn = kinds != np.where(in_row % 2, _ENTRY_END, _NAME_END)
        return np.flatnonzero((np.bincount(rows, out_of_turn, self.row_count) > 0) | (counts % 2 == 1))


def _terminated(texts: pa.Array) -> pa.Array:
    open_ended = pc.and_(pc.not_equal(pc.binary_slice(texts, -1), b"\x02"), pc.greater(pc.binary_length(texts), 0))
    if not pc.any(open_ended).as_py():
        return texts
    return pc.if_else(open_ended, pc.binary_join_element_wise(texts, b"\x02", b""), texts)


class Selected(NamedTuple):
    """Chosen properties of all rows, in order of rows; row i has those at the indices `[limits[i], limits[i + 1])`."""

    limits: pa.Array
    names: pa.Array
    values: pa.Array


class Entries(Protocol):
    """Names and values of the properties of rows whose property texts are regular: their separators alternate.

    If a row has a name twice, the last value counts.
    """

    def values_of(self, name: str) -> pa.Array:
        """Return the value of one property for each row; null where a row lacks it."""

    def select(self, wanted: Callable[[str], bool]) -> Selected:
        """Return the wanted properties of all rows: those for whose names `wanted` returns True.

        A row that has a name twice gets one property: the last value, at the place of the first.
        """


class _EntrySpans(NamedTuple):
    """Start and end of all property names and values in the buffer, and the number of properties in each row."""

    data: Bytes
    names: Spans
    values: Spans
    counts: Integers


def split_entries(texts: PropertyTexts) -> Entries:
    """Return the names and values of property texts, which must all be regular and UTF-8."""
    return SplitEntries(_find_entries(texts))


def _find_entries(texts: PropertyTexts) -> _EntrySpans:
    name_ends, entry_ends = texts.separators[::2], texts.separators[1::2]
    name_starts = np.zeros(len(name_ends), np.int64)
    name_starts[1:] = entry_ends[:-1] + 1
    counts = np.diff(np.searchsorted(name_ends, texts.limits))
    names, values = Spans(name_starts, name_ends), Spans(name_ends + 1, entry_ends)
    filled = (name_ends > name_starts) & (entry_ends > name_ends + 1)
    if not filled.all():
        rows = np.repeat(np.arange(texts.row_count), counts)[filled]
        names, values = names.where(filled), values.where(filled)
        counts = np.bincount(rows, minlength=texts.row_count)
    return _EntrySpans(texts.data, names, values, counts)


class SplitEntries:
    """Names and values of the properties of all rows, where one row may have other properties than the next."""

    def __init__(self, spans: _EntrySpans) -> None:
        self._spans = spans
        self._row_count = len(spans.counts)
        self._rows = np.repeat(np.arange(self._row_count), spans.counts)

    @cached_property
    def _numbered_names(self) -> tuple[list[str], Integers]:
        """The distinct property names; and for each property of all rows, the index of its name among them."""
        encoded = cut_spans(self._spans.data, self._spans.names, pa.string()).dictionary_encode()
        return encoded.dictionary.to_pylist(), np.asarray(encoded.indices)

    def values_of(self, name: str) -> pa.Array:
        """Return the value of one property for each row; null where a row lacks it."""
        starts, ends = np.full(self._row_count, -1, np.int64), np.full(self._row_count, -1, np.int64)
        names, numbers = self._numbered_names
        if name in names:
            found = numbers == names.index(name)
            starts[self._rows[found]], ends[self._rows[found]] = self._spans.values.where(found)
        return cut_spans(self._spans.data, Spans(starts, ends), pa.string())

    def select(self, wanted: Callable[[str], bool]) -> Selected:
        """Return the wanted properties of all rows: those for whose names `wanted` returns True.

        A row that has a name twice gets one property: the last value, at the place of the first.
        """
        names, numbers = self._numbered_names
        is_wanted = np.array([wanted(name) for name in names], np.bool_)
        chosen = np.flatnonzero(is_wanted[numbers]) if names else np.zeros(0, np.int64)
        first, last = self._equal_names(chosen)
        limits = np.searchsorted(self._rows[first], np.arange(self._row_count + 1)).astype(np.int32)
        keys = cut_spans(self._spans.data, self._spans.names.where(first), pa.string())
        return Selected(
            pack_numbers(limits), keys, cut_spans(self._spans.data, self._spans.values.where(last), pa.string())
        )

    def _equal_names(self, chosen: Integers) -> tuple[Integers, Integers]:
        """Find the properties that a row has more than once; return two arrays of indices, of equal length.

        For each row and each name in it, one item of the first array is the name's first property in the row, and the
        same item of the second array its last one: the same property if the row has the name once. Only the properties
        at the indices `chosen` are considered. The first array ascends.
        """
        names, numbers = self._numbered_names
        marks = self._rows[chosen] * len(names) + numbers[chosen]
        order = np.argsort(marks, kind="stable")
        changes = np.flatnonzero(np.diff(marks[order])) + 1
        if len(changes) + 1 >= len(chosen):
            return chosen, chosen
        first, last = order[np.r_[0, changes]], order[np.r_[changes, len(order)] - 1]
        by_place = np.argsort(first)
        return chosen[first[by_place]], chosen[last[by_place]]
