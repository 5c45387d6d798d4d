"""How are the properties of many messages split at once?

The texts lie one behind the other in one buffer, `name \\x01 value \\x02 name \\x01 value \\x02 …`. On clean
data the two separators alternate from the first byte to the last, so their positions, found for the whole
buffer in one go, *are* the entries. A row whose separators do not alternate (a value with a separator
inside, an entry without a value) is reported as irregular, and its owner reads it the careful way.

Names repeat from message to message: they are numbered once per batch, and every question about a name (is
it reserved, is it TAGS) is asked once per distinct name instead of once per entry.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .spans import Bytes, Integers, Spans, cut_spans

__all__ = ["Entries", "PropertyTexts"]

_NAME_END, _ENTRY_END = 1, 2


class _Separators(NamedTuple):
    name_ends: Integers
    entry_ends: Integers

    def alternate(self) -> bool:
        ones, twos = self
        return len(ones) == len(twos) and bool((ones < twos).all() and (ones[1:] > twos[:-1]).all())


class PropertyTexts:
    """The property texts of a batch, one a row, each ending with a separator (added where a broker left it out)."""

    def __init__(self, texts: pa.Array) -> None:
        texts = _terminated(texts)
        _, offsets, data = texts.buffers()
        self.row_count = len(texts)
        self.limits: Integers = np.frombuffer(offsets, np.int32, len(texts) + 1, 4 * texts.offset).astype(np.int64)
        self.data: Bytes = np.frombuffer(data or b"", np.uint8)[: self.limits[-1]]
        self.separators = _Separators(np.flatnonzero(self.data == _NAME_END), np.flatnonzero(self.data == _ENTRY_END))

    def irregular_rows(self) -> Integers:
        """Rows whose separators do not alternate."""
        if self.separators.alternate():
            return np.zeros(0, np.int64)
        places = np.flatnonzero(self.data <= _ENTRY_END)
        places = places[self.data[places] >= _NAME_END]
        rows = np.searchsorted(self.limits[1:], places, side="right")
        counts = np.bincount(rows, minlength=self.row_count)
        in_row = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        out_of_turn = self.data[places] != np.where(in_row % 2, _ENTRY_END, _NAME_END)
        return np.flatnonzero((np.bincount(rows, out_of_turn, self.row_count) > 0) | (counts % 2 == 1))


def _terminated(texts: pa.Array) -> pa.Array:
    open_ended = pc.and_(pc.not_equal(pc.binary_slice(texts, -1), b"\x02"), pc.greater(pc.binary_length(texts), 0))
    if not pc.any(open_ended).as_py():
        return texts
    return pc.if_else(open_ended, pc.binary_join_element_wise(texts, b"\x02", b""), texts)


class Entries:
    """Every name and value of property texts that are all regular and UTF-8."""

    def __init__(self, texts: PropertyTexts) -> None:
        name_ends, entry_ends = texts.separators
        name_starts = np.zeros(len(name_ends), np.int64)
        name_starts[1:] = entry_ends[:-1] + 1
        filled = (name_ends > name_starts) & (entry_ends > name_ends + 1)
        self.row_count = texts.row_count
        self._data = texts.data
        self._rows = np.searchsorted(texts.limits[1:], name_ends[filled], side="right")
        self._names = Spans(name_starts[filled], name_ends[filled])
        self._values = Spans(name_ends[filled] + 1, entry_ends[filled])

    @cached_property
    def _numbered_names(self) -> tuple[list[str], Integers]:
        """The distinct names, and for each entry the index of its name."""
        encoded = cut_spans(self._data, self._names, pa.string()).dictionary_encode()
        return encoded.dictionary.to_pylist(), np.asarray(encoded.indices)

    def values_of(self, name: str) -> pa.Array:
        """For each row that property's value, or null; of equal names the last one counts."""
        starts, ends = np.full(self.row_count, -1, np.int64), np.full(self.row_count, -1, np.int64)
        names, numbers = self._numbered_names
        if name in names:
            found = numbers == names.index(name)
            starts[self._rows[found]], ends[self._rows[found]] = self._values.where(found)
        return cut_spans(self._data, Spans(starts, ends), pa.string())

    def select(self, wanted: Callable[[str], bool]) -> tuple[pa.Array, pa.Array, pa.Array]:
        """Row limits, names and values of the properties whose names are wanted.

        Of equal names in a row the last value counts, at the place of the first.
        """
        names, numbers = self._numbered_names
        is_wanted = np.array([wanted(name) for name in names], np.bool_)
        chosen = np.flatnonzero(is_wanted[numbers]) if names else np.zeros(0, np.int64)
        first, last = self._equal_names(chosen)
        limits = np.searchsorted(self._rows[first], np.arange(self.row_count + 1)).astype(np.int32)
        keys = cut_spans(self._data, self._names.where(first), pa.string())
        return pa.array(limits), keys, cut_spans(self._data, self._values.where(last), pa.string())

    def _equal_names(self, chosen: Integers) -> tuple[Integers, Integers]:
        """First and last entry of each (row, name) among the chosen, in the order of the first."""
        names, numbers = self._numbered_names
        marks = self._rows[chosen] * len(names) + numbers[chosen]
        order = np.argsort(marks, kind="stable")
        changes = np.flatnonzero(np.diff(marks[order])) + 1
        if len(changes) + 1 >= len(chosen):
            return chosen, chosen
        first, last = order[np.r_[0, changes]], order[np.r_[changes, len(order)] - 1]
        by_place = np.argsort(first)
        return chosen[first[by_place]], chosen[last[by_place]]
