"""Which messages have property texts of one shape, so that one of them tells where the values of all lie?

Producers write the same names in the same order, and most values of a name are equally long. Texts have one *shape*
if they are equally long and have the same names and separators at the same places. The shape of one text, its
*model*, is read the careful way; of all others it is only verified: where the model has a name or a separator they
have the same byte, and elsewhere they have no separator. So every byte of a text must lie in a range: that of a name
or separator allows one byte, that of a value all that may stand in values. Two whole-array steps check the ranges of
thousands of texts, nothing is split, and a property's value is the same slice of every text.

A batch with more than a few shapes, or with an irregular text, is left to `entries`, which splits texts of any kind.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .entries import Selected
from .spans import Bytes, Integers, Spans, cut_spans, gather_windows, pack_rows

__all__ = ["ShapedEntries", "maybe_shaped"]

_MOST_SHAPES = 16
"""From about so many on splitting the texts is cheaper."""
_GATHERED_BYTES = 128 * 1024
_LEAST_IN_VALUES = 3
"""The separators are 1 and 2; a text with a zero byte is left to `entries`."""


class _Slice(NamedTuple):
    """Where a value lies, counted from the start of its text."""

    start: int
    end: int


class _Shape(NamedTuple):
    """What texts of one shape have in common."""

    slices: dict[str, _Slice]
    """The value of each name, in the order in which the names first appear."""
    least: Bytes
    """For each byte of the text the least that may stand there."""
    spread: Bytes
    """And by how much it may be larger."""
    is_ascii: bool
    """Whether values hold ASCII alone, so that any text in range is UTF-8."""


class _Group(NamedTuple):
    """The rows of one shape; a slice where these are all rows."""

    shape: _Shape
    rows: Integers | slice


def maybe_shaped(data: Bytes, texts: Spans) -> ShapedEntries | None:
    """The entries of all texts if they have few shapes and all are regular UTF-8; else None."""
    sizes = texts.ends - texts.starts
    rest, groups = np.arange(len(sizes)), list[_Group]()
    while len(rest):
        model = bytes(data[texts.starts[rest[0]] : texts.ends[rest[0]]])
        shape = _maybe_shape(model)
        if shape is None or len(groups) == _MOST_SHAPES:
            return None
        fits = sizes[rest] == len(model)
        fits[fits] = _find_fitting(shape, data, texts.starts[rest[fits]])
        if not fits[0]:
            return None
        groups.append(_Group(shape, slice(None) if len(groups) == 0 and fits.all() else rest[fits]))
        rest = rest[~fits]
    return ShapedEntries(data, texts.starts, groups)


def _maybe_shape(model: bytes) -> _Shape | None:
    """The shape of a text, unless it is irregular or no UTF-8."""
    slices: dict[str, _Slice] = {}
    least, spread = np.frombuffer(model, np.uint8).copy(), np.zeros(len(model), np.uint8)
    largest = 0x7F if model.isascii() else 0xFF
    end = -1
    try:
        for entry in model.removesuffix(b"\x02").split(b"\x02") if model else ():
            name, value = entry.split(b"\x01")
            start = end + len(name) + 2
            end = start + len(value)
            least[start:end], spread[start:end] = _LEAST_IN_VALUES, largest - _LEAST_IN_VALUES
            if name and value:
                slices[name.decode()] = _Slice(start, end)
    except ValueError:
        return None
    return _Shape(slices, least, spread, model.isascii())


def _find_fitting(shape: _Shape, data: Bytes, starts: Integers) -> npt.NDArray[np.bool_]:
    """Which of the texts, all as long as the model, have its shape; some at a time, so that they stay in the cache."""
    step = max(1, _GATHERED_BYTES // max(1, len(shape.least)))
    parts = [starts[at : at + step] for at in range(0, len(starts), step)]
    return np.concatenate([_fit(shape, gather_windows(data, part, len(shape.least))) for part in parts])


def _fit(shape: _Shape, texts: Bytes) -> npt.NDArray[np.bool_]:
    """Which of the texts have bytes in range and are UTF-8."""
    in_range: npt.NDArray[np.bool_] = texts - shape.least <= shape.spread
    fits = np.ones(len(texts), np.bool_) if in_range.all() else np.all(in_range, axis=1)
    # All texts begin with the same byte of a name or separator: no character can reach from one into the next.
    if not shape.is_ascii and not _is_utf8(texts[fits]):
        fits[fits] = [_is_utf8(text) for text in texts[fits]]
    return fits


def _is_utf8(text: Bytes) -> bool:
    try:
        text.tobytes().decode()
    except UnicodeDecodeError:
        return False
    return True


class ShapedEntries:
    """The names and values of property texts that have few shapes."""

    def __init__(self, data: Bytes, starts: Integers, groups: list[_Group]) -> None:
        self._data = data
        self._starts = starts
        self._groups = groups

    def values_of(self, name: str) -> pa.Array:
        """For each row that property's value, or null."""
        starts, ends = np.full((2, len(self._starts)), -1)
        for (slices, *_), rows in self._groups:
            if name in slices:
                starts[rows], ends[rows] = (self._starts[rows] + at for at in slices[name])
        return cut_spans(self._data, Spans(starts, ends), pa.string())

    def select(self, wanted: Callable[[str], bool]) -> Selected:
        """The properties whose names are wanted."""
        if len(self._groups) == 1:
            return self._select_alike([name for name in self._groups[0].shape.slices if wanted(name)])
        return self._select_any(wanted)

    def _select_alike(self, names: Sequence[str]) -> Selected:
        """From rows of one shape: every row has these names, and each name's values are equally long."""
        count, slices = len(self._starts), [self._groups[0].shape.slices[name] for name in names]
        limits = pa.array(np.arange(count + 1, dtype=np.int32) * np.int32(len(names)))
        if not names:
            return Selected(limits, pa.nulls(0, pa.string()), pa.nulls(0, pa.string()))
        spelled = [name.encode() for name in names]
        values = [gather_windows(self._data, self._starts + start, end - start) for start, end in slices]
        return Selected(
            limits,
            pack_rows(b"".join(spelled) * count, list(map(len, spelled)), count),
            pack_rows(np.concatenate(values, axis=1), [end - start for start, end in slices], count),
        )

    def _select_any(self, wanted: Callable[[str], bool]) -> Selected:
        found = dict.fromkeys(name for group in self._groups for name in group.shape.slices)
        numbers = {name: number for number, name in enumerate(filter(wanted, found))}
        limits = self._limits(numbers)
        named, starts, ends = np.empty((3, limits[-1]), np.int64)
        for (slices, *_), rows in self._groups:
            places, bases = limits[:-1][rows], self._starts[rows]
            for place, name in enumerate(filter(wanted, slices)):
                at = places + place
                named[at] = numbers[name]
                starts[at], ends[at] = (bases + edge for edge in slices[name])
        names = pa.array(list(numbers), pa.string()).take(pa.array(named))
        return Selected(pa.array(limits), names, cut_spans(self._data, Spans(starts, ends), pa.string()))

    def _limits(self, wanted: Container[str]) -> npt.NDArray[np.int32]:
        """Where each row's wanted properties begin if those of all rows lie one behind the other, and their end."""
        limits = np.zeros(len(self._starts) + 1, np.int32)
        for (slices, *_), rows in self._groups:
            limits[1:][rows] = sum(name in wanted for name in slices)
        return np.cumsum(limits, dtype=np.int32)
