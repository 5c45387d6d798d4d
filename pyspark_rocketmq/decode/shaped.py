"""What are the properties of texts that have few shapes?

Texts are put into groups of one shape: a few samples tell the first, what has it is a group, and what is left goes the
same way. In a group a value of a property lies everywhere at one distance from the start of a stretch.

A batch with too many shapes, or with an irregular text, is left to `entries`, which splits texts of any kind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .entries import Selected
from .shapes import Shape, find_fitting, maybe_learn
from .spans import Bytes, Integers, Spans, cut_pairs, cut_spans, cut_windows, pack_numbers, pack_texts, repeat_texts

__all__ = ["ShapeFinder", "ShapedEntries"]

_MOST_LOOKS = 4
"""If the next shapes take as few of the rest as the last one, every text may be looked at so often; from then on
splitting is cheaper. The first shape says little: an odd message may have come first."""
_SAMPLES = 5
"""So many texts show which values are flexible; one that was overlooked costs another shape."""


class _Group(NamedTuple):
    """The rows of one shape (a slice where these are all rows), and where its stretches begin in each."""

    shape: Shape
    rows: Integers | slice
    begins: Integers

    def spans_of(self, name: str) -> Spans:
        """Where the values of a name lie."""
        return Spans(*(self.begins[stretch] + offset for stretch, offset in self.shape.slices[name]))

    def edges_of(self, names: Sequence[str]) -> npt.NDArray[np.int32]:
        """For each row start and end of each name's value, in turn."""
        begins = self.begins.astype(np.int32)
        edges = np.empty((begins.shape[1], 2 * len(names)), np.int32)
        for column, (stretch, offset) in enumerate(chain.from_iterable(self.shape.slices[name] for name in names)):
            np.add(begins[stretch], offset, out=edges[:, column])
        return edges

    def cut(self, data: Bytes, name: str) -> pa.Array:
        """The values of a name."""
        start, end = self.shape.slices[name]
        if start.stretch != end.stretch:
            return cut_pairs(data, self.edges_of([name]), pa.string())
        return cut_windows(data, self.begins[start.stretch] + start.offset, end.offset - start.offset, pa.string())


class ShapeFinder:
    """Puts texts into groups of one shape, and remembers the shapes for the next texts.

    A shape only says where to look, and every text is verified. So what is remembered saves time and changes nothing.
    """

    def __init__(self) -> None:
        self._known: list[Shape] = []

    def maybe_find(self, data: Bytes, texts: Spans) -> ShapedEntries | None:
        """The entries of all texts if they have few shapes and all are regular UTF-8; else None."""
        sorting = _Sorting(data, texts)
        for shape in self._known:
            if len(sorting.rest):
                sorting.take(shape)
        if not len(sorting.rest):
            return sorting.sorted()
        has_learned_before, self._known = bool(self._known), []
        if not sorting.learn():
            return None
        if not has_learned_before:  # else the next texts are better looked at afresh than with an ever longer list
            self._known = [group.shape for group in sorting.groups]
        return sorting.sorted()


class _Sorting:
    """Texts that are being put into groups."""

    def __init__(self, data: Bytes, texts: Spans) -> None:
        self._data = data
        self._texts = texts
        self._count = len(texts.starts)
        self.rest: Integers = np.arange(self._count)
        self.groups: list[_Group] = []

    @property
    def _rest_texts(self) -> Spans:
        return self._texts if len(self.rest) == self._count else self._texts.where(self.rest)

    def take(self, shape: Shape) -> int:
        """Make a group of what has this shape; how many that are."""
        fitting, begins = find_fitting(shape, self._data, self._rest_texts)
        if len(fitting) == self._count:
            self.groups.append(_Group(shape, slice(None), begins))
            self.rest = self.rest[:0]
        elif len(fitting):
            self.groups.append(_Group(shape, self.rest[fitting], begins))
            self.rest = np.delete(self.rest, fitting)
        return len(fitting)

    def learn(self) -> bool:
        """Group the rest by shapes to be learned; False if that is hopeless or dearer than splitting."""
        is_first = True
        while looked_at := len(self.rest):
            shape = maybe_learn(_samples(self._data, self._rest_texts))
            taken = self.take(shape) if shape else 0
            if not taken or (not is_first and len(self.rest) * looked_at > _MOST_LOOKS * self._count * taken):
                return False
            is_first = False
        return True

    def sorted(self) -> ShapedEntries:
        """What the groups hold together."""
        return ShapedEntries(self._data, self._count, self.groups)


def _samples(data: Bytes, texts: Spans) -> list[bytes]:
    """The first text, and others of different sizes, the smallest and largest among them."""
    sizes = texts.ends - texts.starts
    rows = np.full(sizes.max() + 1, -1)
    rows[sizes] = np.arange(len(sizes))
    different = rows[rows >= 0]
    chosen = different[np.arange(_SAMPLES) * (len(different) - 1) // (_SAMPLES - 1)]
    return [bytes(data[start:end]) for start, end in zip(*texts.where(np.append(0, chosen)), strict=True)]


class ShapedEntries:
    """The names and values of property texts that have few shapes."""

    def __init__(self, data: Bytes, row_count: int, groups: list[_Group]) -> None:
        self._data = data
        self._row_count = row_count
        self._groups = groups

    @property
    def shape_count(self) -> int:
        """How many shapes they have."""
        return len(self._groups)

    def values_of(self, name: str) -> pa.Array:
        """For each row that property's value, or null."""
        if len(self._groups) == 1 and name in self._groups[0].shape.slices:
            return self._groups[0].cut(self._data, name)
        return cut_spans(self._data, self._spans_of(name), pa.string())

    def _spans_of(self, name: str) -> Spans:
        spans = Spans(*np.full((2, self._row_count), -1))
        for group in self._groups:
            if name in group.shape.slices:
                spans.starts[group.rows], spans.ends[group.rows] = group.spans_of(name)
        return spans

    def select(self, wanted: Callable[[str], bool]) -> Selected:
        """The properties whose names are wanted."""
        chosen = [[name for name in group.shape.slices if wanted(name)] for group in self._groups]
        if len(chosen) == 1 and chosen[0]:
            return self._select_alike(self._groups[0], chosen[0])
        return self._select_any(chosen)

    def _select_alike(self, group: _Group, names: list[str]) -> Selected:
        """From rows of one shape: every row has these names."""
        spelled = [name.encode() for name in names]
        return Selected(
            pack_numbers(np.arange(self._row_count + 1, dtype=np.int32) * np.int32(len(names))),
            repeat_texts(spelled, self._row_count),
            cut_pairs(self._data, group.edges_of(names), pa.string()),
        )

    def _select_any(self, chosen: list[list[str]]) -> Selected:
        """From each group those of its names."""
        numbers = {name: number for number, name in enumerate(dict.fromkeys(chain.from_iterable(chosen)))}
        limits = self._limits([len(names) for names in chosen])
        named, edges = np.empty(limits[-1], np.int64), np.empty((limits[-1], 2), np.int32)
        for group, names in zip(self._groups, chosen, strict=True):
            if names:
                at = np.add.outer(limits[:-1][group.rows], np.arange(len(names)))
                named[at] = [numbers[name] for name in names]
                edges[at] = group.edges_of(names).reshape(*at.shape, 2)
        names_found = pack_texts(list(numbers)).take(pack_numbers(named))
        return Selected(pack_numbers(limits), names_found, cut_pairs(self._data, edges, pa.string()))

    def _limits(self, counts: list[int]) -> npt.NDArray[np.int32]:
        """Where each row's properties begin if each group's rows have so many, and their end."""
        limits = np.zeros(self._row_count + 1, np.int32)
        for group, count in zip(self._groups, counts, strict=True):
            limits[1:][group.rows] = count
        return np.cumsum(limits, dtype=np.int32)
