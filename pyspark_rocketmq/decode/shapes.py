"""Which property texts are of one shape, so that a few of them tell where the values of all lie?

Producers write the same names in the same order. Most values of a name are equally long, and a few, such as keys, are
not. Texts have one *shape* if they have the same names with separators in turn, and *rigid* values of one length each;
the other values are *flexible*. Names, separators and rigid values between two flexible ones lie at fixed distances:
they are a *stretch*.

A shape is learned from a few samples, read the careful way. All other texts are only verified, a stretch of all texts
at a time. Every byte of a stretch must lie in a range: that of a name or separator allows one byte, that of a value
all that may stand in values. A flexible value ends at the first byte that may not, where the next stretch must begin.
Nothing is split, and where a value lies follows from where its stretch begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .spans import Bytes, Integers, Spans, cut_spans, not_utf8, peek_windows

__all__ = ["Edge", "Fitting", "Shape", "Slice", "find_fitting", "maybe_learn"]

_LEAST_IN_VALUES = 3
"""The separators are 1 and 2; no shape has texts with a zero byte."""
_GATHERED_BYTES = 256 * 1024
"""So much is looked at together, that it stays in the cache."""
_MOST_SEARCHED_BYTES = 2048
"""A text with a flexible value that is longer has no shape: looking further would cost more than splitting."""
_FOLD = 16
"""So many texts are compared as one row, because every row of an array step has its price."""


class Edge(NamedTuple):
    """A place in a text, counted from the start of a stretch."""

    stretch: int
    offset: int


class Slice(NamedTuple):
    """Where a value lies; a flexible one ends where the next stretch begins."""

    start: Edge
    end: Edge


class _Stretch(NamedTuple):
    """The least byte that may stand at each place, and by how much one may be larger; for a fold of texts."""

    width: int
    least: Bytes
    spread: Bytes


class Shape(NamedTuple):
    """What texts of one shape have in common."""

    slices: dict[str, Slice]
    """The value of each name, in the order in which the names first appear."""
    stretches: list[_Stretch]
    widths: list[int]
    """Behind each stretch but the last: among how many bytes the end of the flexible value is looked for."""
    largest: int
    """The largest byte in values: 0x7F, which makes any text in range UTF-8, or 0xFF."""


class Fitting(NamedTuple):
    """The texts that have a shape, and where each of its stretches begins in them."""

    texts: Integers
    begins: Integers


# --- learning --------------------------------------------------------------------------------------------------------


class _Kind(NamedTuple):
    """What samples of one shape agree in. An empty value is no property, so none may be empty only at times."""

    names: tuple[bytes, ...]
    is_filled: tuple[bool, ...]
    is_terminated: bool


class _Split(NamedTuple):
    """A text that was read the careful way, with the sizes of its values."""

    kind: _Kind
    sizes: list[int]


class _Sizes(NamedTuple):
    """How long the values of a name are."""

    least: int
    most: int


def maybe_learn(samples: Sequence[bytes]) -> Shape | None:
    """The shape of the first sample, flexible where others of its kind differ from it; None if it is irregular."""
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
    """The shape of texts of a kind whose values have these sizes."""
    slices, stretches, widths = dict[str, Slice](), [_Growing(largest)], list[int]()
    for place, (name, sizes) in enumerate(zip(kind.names, all_sizes, strict=True)):
        stretches[-1].add_exact((b"\x02" if place else b"") + name + b"\x01")
        start = Edge(len(stretches) - 1, stretches[-1].width)
        if sizes.least == sizes.most:
            stretches[-1].add_value(sizes.most)
        else:
            widths.append(min(2 * sizes.most, _MOST_SEARCHED_BYTES))
            stretches.append(_Growing(largest))
        if name and sizes.most:
            slices[name.decode()] = Slice(start, Edge(len(stretches) - 1, stretches[-1].width))
    if kind.is_terminated:
        stretches[-1].add_exact(b"\x02")
    return Shape(slices, [stretch.grown() for stretch in stretches], widths, largest)


class _Growing:
    """A stretch that is being learned."""

    def __init__(self, largest: int) -> None:
        self._least = bytearray()
        self._spread = bytearray()
        self._value_spread = largest - _LEAST_IN_VALUES

    @property
    def width(self) -> int:
        """How long it has become."""
        return len(self._least)

    def add_exact(self, text: bytes) -> None:
        """These very bytes come next."""
        self._least += text
        self._spread += bytes(len(text))

    def add_value(self, size: int) -> None:
        """A rigid value comes next."""
        self._least += bytes([_LEAST_IN_VALUES]) * size
        self._spread += bytes([self._value_spread]) * size

    def grown(self) -> _Stretch:
        """What has been learned."""
        least, spread = (np.frombuffer(ranges * _FOLD, np.uint8) for ranges in (self._least, self._spread))
        return _Stretch(self.width, least, spread)


# --- verifying -------------------------------------------------------------------------------------------------------


def find_fitting(shape: Shape, data: Bytes, texts: Spans) -> Fitting:
    """The texts of this shape, verified from left to right."""
    walk = _Walk(data, texts, shape.largest)
    for stretch, width in zip(shape.stretches, (0, *shape.widths), strict=True):
        if width:
            walk.pass_value(width)
        walk.pass_stretch(stretch)
    return walk.end()


class _Walk:
    """A walk over many texts at once, on which those that do not fit are left behind."""

    def __init__(self, data: Bytes, texts: Spans, largest: int) -> None:
        self._data = data
        self._largest = largest
        self._texts = np.arange(len(texts.starts))
        self._at, self._ends = texts
        self._begins: list[Integers] = []

    def pass_value(self, width: int) -> None:
        """Go to where flexible values end, each within so many bytes."""
        sizes, spread = np.empty(len(self._at), np.int64), np.uint8(self._largest - _LEAST_IN_VALUES)
        for part in _parts(len(sizes), width + 1):
            windows = peek_windows(self._data, self._at[part], width + 1)
            windows -= np.uint8(_LEAST_IN_VALUES)
            is_end = windows > spread
            is_end[:, -1] = True  # whatever is longer; the next stretch will not be found there
            sizes[part] = is_end.argmax(axis=1)
        sizes = np.minimum(sizes, self._ends - self._at)
        self._at = self._at + sizes
        self._keep(sizes > 0)

    def pass_stretch(self, stretch: _Stretch) -> None:
        """Go to the end of a stretch."""
        self._begins.append(self._at)
        self._at = self._at + stretch.width
        self._keep(self._are_in_range(stretch, self._begins[-1]))

    def end(self) -> Fitting:
        """What has come to its end, and is UTF-8."""
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
    """So many rows of so many bytes, some folds at a time."""
    step = _FOLD * max(1, _GATHERED_BYTES // (_FOLD * max(1, width)))
    return (slice(at, at + step) for at in range(0, count, step))
