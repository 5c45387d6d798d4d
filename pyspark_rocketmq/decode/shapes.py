"""Group property texts by their shape, and find values by their places in the shape.

Producers write the same names in the same order. The values of most names always have the same length; values of some,
such as keys, do not. Texts have the same *shape* if they have the same names in the same order, and the same lengths of
all *rigid* values. The other values are *flexible*: their lengths may differ from text to text.

Flexible values cut a text into stretches. A *stretch* is the part of a text from the end of one flexible value (or the
start of the text) to the start of the next (or the end of the text). It consists of names, separators and rigid values,
so its length is the same in all texts of the shape. A *slice* says where a value begins and ends; each of its two
*edges* is a stretch and a distance from the start of that stretch.

A shape is learned from a few sample texts, which are split. All other texts are only verified: one array operation
compares one stretch of all texts. Each byte must lie in a range: a byte of a name or separator must be that very byte,
a byte of a value may be any byte that is allowed in values. A flexible value ends at the first byte that is not allowed
in values; the next stretch must begin there.

A batch with too many shapes, or with an irregular text, is left to `entries`, which splits any regular texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .entries import Selected
from .spans import (
    Bytes,
    Integers,
    Spans,
    cut_pairs,
    cut_spans,
    cut_windows,
    not_utf8,
    pack_numbers,
    pack_texts,
    peek_windows,
    repeat_texts,
)

__all__ = ["ShapeFinder", "ShapedEntries"]

_LEAST_IN_VALUES = 3
"""Smallest byte allowed in values: the separators are 1 and 2, and texts with a zero byte have no shape."""
_GATHERED_BYTES = 256 * 1024
"""Number of bytes that are compared together; few enough to stay in the processor's cache."""
_MOST_SEARCHED_BYTES = 2048
"""Longest flexible value of a shape; to search for the end of a longer one costs more than to split the text."""
_FOLD = 16
"""Number of texts that are compared as one array row, because each row of an array operation costs time."""


class Edge(NamedTuple):
    """The start or the end of a value within a property text: `offset` bytes after a stretch begins.

    A stretch is a part of the text with a fixed length; `stretch` is its index among the stretches of the shape.
    """

    stretch: int
    offset: int


class Slice(NamedTuple):
    """The place of a property's value in a text: its start and its end.

    A value of varying length ends where the next part of fixed length (stretch) begins.
    """

    start: Edge
    end: Edge


class _Stretch(NamedTuple):
    """A part that has the same length in all texts of a shape, and the bytes that are allowed at each place of it.

    `width` is that length. The byte at place i must lie between `least[i]` and `least[i] + spread[i]`. The two arrays
    repeat the stretch `_FOLD` times, because so many texts are compared as one array row.
    """

    width: int
    least: Bytes
    spread: Bytes


class Shape(NamedTuple):
    """The common form of some property texts: where each value begins and ends, and which bytes each place allows.

    A text of this shape consists of the `stretches`, parts of fixed length (names, separators and values of fixed
    length), with one flexible value between each two, whose length may differ from text to text.
    """

    slices: dict[str, Slice]
    """Place of the value of each name, in the order in which the names first appear."""
    stretches: list[_Stretch]
    widths: list[int]
    """For each flexible value, the number of bytes in which its end is searched."""
    largest: int
    """Largest byte allowed in values: 0x7F for ASCII, else 0xFF; with 0xFF, texts are checked for UTF-8 separately."""


class Fitting(NamedTuple):
    """The texts that have a given shape, and where the shape's parts of fixed length (stretches) begin in each text."""

    texts: Integers
    """Indices of these texts."""
    begins: Integers
    """Byte positions in the buffer: one row for each stretch, one column for each text."""


# --- learning --------------------------------------------------------------------------------------------------------


class _Kind(NamedTuple):
    """Traits that texts of one shape share: names, which values are not empty, whether a separator ends the text."""

    names: tuple[bytes, ...]
    is_filled: tuple[bool, ...]
    is_terminated: bool


class _Split(NamedTuple):
    """One property text after splitting: its names, which of its values are not empty, and the values' lengths."""

    kind: _Kind
    sizes: list[int]


class _Sizes(NamedTuple):
    """The smallest and the largest length, in bytes, that one property's value has in the sample texts."""

    least: int
    most: int


def maybe_learn(samples: Sequence[bytes]) -> Shape | None:
    """Return the shape of the first property text in `samples`; None if the text is irregular.

    The shape says at which places names and values stand. Where samples with the same names have values of different
    lengths, it allows for the shortest and the longest. A text is irregular if its separators do not alternate, or if a
    name is not UTF-8.
    """
    first, *others = map(_maybe_split, samples)
    if first is None:
        return None
    alike = [first.sizes, *(other.sizes for other in others if other and other.kind == first.kind)]
    largest = 0x7F if all(map(bytes.isascii, samples)) else 0xFF
    try:
        return _learn(first.kind, tuple(_Sizes(min(sizes), max(sizes)) for sizes in zip(*alike, strict=True)), largest)
    except UnicodeDecodeError:
        return None


def _maybe_split(text: bytes) -> _Split | None:
    entries = text.removesuffix(b"\x02").split(b"\x02") if text else []
    pairs = [entry.split(b"\x01") for entry in entries]
    if any(len(pair) != 2 for pair in pairs):
        return None
    sizes = [len(value) for _, value in pairs]
    return _Split(_Kind(tuple([name for name, _ in pairs]), tuple(map(bool, sizes)), text.endswith(b"\x02")), sizes)


@lru_cache(maxsize=32)
def _learn(kind: _Kind, all_sizes: tuple[_Sizes, ...], largest: int) -> Shape:
    """Return the shape of the texts of this kind, given the smallest and the largest length of each property's value.

    If these two differ, the value is flexible: its length may differ from text to text. `largest` is the largest byte
    allowed in values.
    """
    slices, stretches, widths = dict[str, Slice](), [_StretchBuilder(largest)], list[int]()
    for place, (name, sizes) in enumerate(zip(kind.names, all_sizes, strict=True)):
        stretches[-1].add_exact((b"\x02" if place else b"") + name + b"\x01")
        start = Edge(len(stretches) - 1, stretches[-1].width)
        if sizes.least == sizes.most:
            stretches[-1].add_value(sizes.most)
        else:
            widths.append(min(2 * sizes.most, _MOST_SEARCHED_BYTES))
            stretches.append(_StretchBuilder(largest))
        if name and sizes.most:
            slices[name.decode()] = Slice(start, Edge(len(stretches) - 1, stretches[-1].width))
    if kind.is_terminated:
        stretches[-1].add_exact(b"\x02")
    return Shape(slices, [stretch.finish() for stretch in stretches], widths, largest)


class _StretchBuilder:
    """The allowed bytes of a stretch (a part of fixed length of a property text), added part by part."""

    def __init__(self, largest: int) -> None:
        self._least = bytearray()
        self._spread = bytearray()
        self._value_spread = largest - _LEAST_IN_VALUES

    @property
    def width(self) -> int:
        """Length, in bytes, of the parts that were added so far."""
        return len(self._least)

    def add_exact(self, text: bytes) -> None:
        """Append bytes that must be the same in all texts."""
        self._least += text
        self._spread += bytes(len(text))

    def add_value(self, size: int) -> None:
        """Append a value of exactly `size` bytes, each of which may be any byte allowed in values."""
        self._least += bytes([_LEAST_IN_VALUES]) * size
        self._spread += bytes([self._value_spread]) * size

    def finish(self) -> _Stretch:
        """Return a stretch that consists of the parts that were added."""
        least, spread = (np.frombuffer(ranges * _FOLD, np.uint8) for ranges in (self._least, self._spread))
        return _Stretch(self.width, least, spread)


# --- verifying -------------------------------------------------------------------------------------------------------


def find_fitting(shape: Shape, data: Bytes, texts: Spans) -> Fitting:
    """Return those of the texts at the spans `texts` of `data` that have this shape.

    The result also holds where each part of fixed length (stretch) of the shape begins in each of these texts.
    """
    walk = _Walk(data, texts, shape.largest)
    for stretch, width in zip(shape.stretches, (0, *shape.widths), strict=True):
        if width:
            walk.pass_value(width)
        walk.pass_stretch(stretch)
    return walk.finish()


class _Walk:
    """Verifies many texts against a shape, from left to right in all texts at once; drops texts that do not fit."""

    def __init__(self, data: Bytes, texts: Spans, largest: int) -> None:
        self._data = data
        self._largest = largest
        self._texts = np.arange(len(texts.starts))
        self._at, self._ends = texts
        self._begins: list[Integers] = []

    def pass_value(self, width: int) -> None:
        """Move to the end of a value of varying length in all texts; drop texts in which the value is empty.

        The end is searched in the next `width` bytes only. A text with a longer value is dropped by `pass_stretch`,
        which does not find the next stretch in the middle of the value.
        """
        sizes, spread = np.empty(len(self._at), np.int64), np.uint8(self._largest - _LEAST_IN_VALUES)
        for part in _parts(len(sizes), width + 1):
            windows = peek_windows(self._data, self._at[part], width + 1)
            windows -= np.uint8(_LEAST_IN_VALUES)
            is_end = windows > spread
            is_end[:, -1] = True  # for a longer value; the next stretch is not found at this place
            sizes[part] = is_end.argmax(axis=1)
        sizes = np.minimum(sizes, self._ends - self._at)
        self._at = self._at + sizes
        self._keep(sizes > 0)

    def pass_stretch(self, stretch: _Stretch) -> None:
        """Move to the end of the next stretch (part of fixed length) in all texts.

        Drop texts with a byte that the stretch does not allow at its place.
        """
        self._begins.append(self._at)
        self._at = self._at + stretch.width
        self._keep(self._are_in_range(stretch, self._begins[-1]))

    def finish(self) -> Fitting:
        """Return the texts that end where the shape ends and are UTF-8; drop all others."""
        self._keep(self._at == self._ends)
        if self._largest > 0x7F:
            is_text = np.ones(len(self._texts), np.bool_)
            is_text[not_utf8(cut_spans(self._data, Spans(self._begins[0], self._ends)))] = False
            self._keep(is_text)
        return Fitting(self._texts, np.stack(self._begins))

    def _are_in_range(self, stretch: _Stretch, starts: Integers) -> npt.NDArray[np.bool_]:
        fits = np.ones(len(starts), np.bool_)
        if not stretch.width or not len(starts):
            return fits
        folded = np.concatenate((starts, np.full(-len(starts) % _FOLD, starts[0])))
        for part in _parts(len(folded), stretch.width):
            windows = peek_windows(self._data, folded[part], stretch.width).reshape(-1, len(stretch.least))
            windows -= stretch.least
            if np.count_nonzero(windows.max(axis=0) > stretch.spread):
                in_range = (windows <= stretch.spread).reshape(-1, stretch.width)
                fits[part] = np.all(in_range, axis=1)[: len(fits[part])]
        return fits

    def _keep(self, fits: npt.NDArray[np.bool_]) -> None:
        if np.count_nonzero(fits) < len(fits):
            self._texts, self._at, self._ends = self._texts[fits], self._at[fits], self._ends[fits]
            self._begins = [begins[fits] for begins in self._begins]


def _parts(count: int, width: int) -> Iterator[slice]:
    """Yield slices that divide `count` rows of `width` bytes into parts, each of which is compared at once.

    All parts but the last have the largest multiple of `_FOLD` rows that is within `_GATHERED_BYTES`, but at least
    `_FOLD`.
    """
    step = _FOLD * max(1, _GATHERED_BYTES // (_FOLD * max(1, width)))
    return (slice(at, at + step) for at in range(0, count, step))


# --- grouping --------------------------------------------------------------------------------------------------------

_MOST_VERIFICATIONS = 4
"""Splitting is cheaper if each text is expected to be verified more often than this.

The estimate assumes that each further shape fits the same fraction of the remaining texts as the last shape did. It is
not made for the first shape, which may come from an unusual message.
"""
_SAMPLES = 5
"""Number of texts that show which values are flexible; if they miss a flexible value, another shape is needed."""


class _Group(NamedTuple):
    """The rows whose property texts have one shape, and where its parts of fixed length (stretches) begin in each text.

    `rows` holds the indices of these rows; it is a slice if all rows have the shape. `begins` holds byte positions in
    the buffer: one array row for each stretch, one column for each text.
    """

    shape: Shape
    rows: Integers | slice
    begins: Integers

    def spans_of(self, name: str) -> Spans:
        """Return where the values of one property start and end in the buffer; one value for each row of the group."""
        return Spans(*(self.begins[stretch] + offset for stretch, offset in self.shape.slices[name]))

    def edges_of(self, names: Sequence[str]) -> npt.NDArray[np.int32]:
        """Return an array with a row for each text: where the values of these properties start and end in the buffer.

        An array row holds start and end of the first property's value, then start and end of the second's, and so on.
        """
        begins = self.begins.astype(np.int32)
        edges = np.empty((begins.shape[1], 2 * len(names)), np.int32)
        for column, (stretch, offset) in enumerate(chain.from_iterable(self.shape.slices[name] for name in names)):
            np.add(begins[stretch], offset, out=edges[:, column])
        return edges

    def cut(self, data: Bytes, name: str) -> pa.Array:
        """Return the values of one property, cut out of the buffer `data`; one for each row of the group."""
        start, end = self.shape.slices[name]
        if start.stretch != end.stretch:
            return cut_pairs(data, self.edges_of([name]), pa.string())
        return cut_windows(data, self.begins[start.stretch] + start.offset, end.offset - start.offset, pa.string())


class ShapeFinder:
    """Finds the shapes of property texts, and remembers shapes from batch to batch.

    Each text is verified against its shape, so remembered shapes save time and cannot change a result.
    """

    def __init__(self) -> None:
        self._known: list[Shape] = []

    def maybe_find(self, data: Bytes, texts: Spans) -> ShapedEntries | None:
        """Return the properties of all texts; None if they have many shapes, or one is irregular or not UTF-8."""
        sorting = _Sorting(data, texts)
        for shape in self._known:
            if len(sorting.rest):
                sorting.take(shape)
        if not len(sorting.rest):
            return sorting.entries()
        has_learned_before, self._known = bool(self._known), []
        if not sorting.learn():
            return None
        if not has_learned_before:  # otherwise the list of shapes would grow from batch to batch
            self._known = [group.shape for group in sorting.groups]
        return sorting.entries()


class _Sorting:
    """Texts that are being grouped by shape; `rest` holds the indices of the texts without a group so far."""

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
        """Make a group of the remaining texts that have this shape; return how many they are."""
        fitting, begins = find_fitting(shape, self._data, self._rest_texts)
        if len(fitting) == self._count:
            self.groups.append(_Group(shape, slice(None), begins))
            self.rest = self.rest[:0]
        elif len(fitting):
            self.groups.append(_Group(shape, self.rest[fitting], begins))
            self.rest = np.delete(self.rest, fitting)
        return len(fitting)

    def learn(self) -> bool:
        """Learn shapes and group the texts by them; return True when each text is in a group.

        Return False if the separators of a text do not alternate, or if there are so many shapes that it is cheaper to
        split every text.
        """
        is_first = True
        while count := len(self.rest):
            shape = maybe_learn(_samples(self._data, self._rest_texts))
            taken = self.take(shape) if shape else 0
            if not taken or (not is_first and len(self.rest) * count > _MOST_VERIFICATIONS * self._count * taken):
                return False
            is_first = False
        return True

    def entries(self) -> ShapedEntries:
        """Return the properties of all texts; only allowed once each text has a shape (`rest` is empty)."""
        return ShapedEntries(self._data, self._count, self.groups)


def _samples(data: Bytes, texts: Spans) -> list[bytes]:
    """Return sample texts: the first, and some of different sizes, with one of the smallest and one of the largest."""
    sizes = texts.ends - texts.starts
    rows = np.full(sizes.max() + 1, -1)
    rows[sizes] = np.arange(len(sizes))
    different = rows[rows >= 0]
    chosen = different[np.arange(_SAMPLES) * (len(different) - 1) // (_SAMPLES - 1)]
    return [bytes(data[start:end]) for start, end in zip(*texts.where(np.append(0, chosen)), strict=True)]


class ShapedEntries:
    """Names and values of the properties of all rows, whose property texts were found to have few different shapes."""

    def __init__(self, data: Bytes, row_count: int, groups: list[_Group]) -> None:
        self._data = data
        self._row_count = row_count
        self._groups = groups

    @property
    def shape_count(self) -> int:
        """Number of different shapes."""
        return len(self._groups)

    def values_of(self, name: str) -> pa.Array:
        """Return the value of one property for each row; null where a row lacks it."""
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
        """Return the wanted properties of all rows: those for whose names `wanted` returns True.

        A row that has a name twice gets one property: the last value, at the place of the first.
        """
        chosen = [[name for name in group.shape.slices if wanted(name)] for group in self._groups]
        if len(chosen) == 1 and chosen[0]:
            return self._select_alike(self._groups[0], chosen[0])
        return self._select_any(chosen)

    def _select_alike(self, group: _Group, names: list[str]) -> Selected:
        """Return the properties `names` of all rows, which must all be in `group` and have these properties."""
        spelled = [name.encode() for name in names]
        return Selected(
            pack_numbers(np.arange(self._row_count + 1, dtype=np.int32) * np.int32(len(names))),
            repeat_texts(spelled, self._row_count),
            cut_pairs(self._data, group.edges_of(names), pa.string()),
        )

    def _select_any(self, chosen: list[list[str]]) -> Selected:
        """Return chosen properties of all rows; item i of `chosen` lists the names to return for the rows of group i.

        The rows of a group are those whose property texts have one shape.
        """
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
        """Return the index of each row's first property in a list of the chosen properties of all rows.

        One more item at the end is the length of this list. Item i of `counts` is the number of chosen properties that
        each row of group i has; the rows of a group are those whose property texts have one shape.
        """
        limits = np.zeros(self._row_count + 1, np.int32)
        for group, count in zip(self._groups, counts, strict=True):
            limits[1:][group.rows] = count
        return np.cumsum(limits, dtype=np.int32)
