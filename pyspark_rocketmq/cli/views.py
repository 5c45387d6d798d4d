"""Define the views by which commands show results to people: tables, facts and notes; and write numbers for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .values import Moment, Trouble

__all__ = [
    "Column",
    "Facts",
    "Note",
    "Redrawn",
    "Table",
    "Text",
    "View",
    "show_count",
    "show_size",
    "show_span",
    "show_time",
    "show_troubles",
]

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_SPANS = ((86_400, "d"), (3600, "h"), (60, "min"))


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; numbers stand at its right edge."""

    title: str
    is_number: bool = False
    is_remark: bool = False
    """Whether its cells are remarks, which may be longer than names."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells below titles."""

    columns: tuple[Column, ...]
    rows: Sequence[Sequence[str]]
    title: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """Pairs of a name and a text."""

    pairs: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Note:
    """A paragraph; a warning stands out where there are colours."""

    text: str
    is_warning: bool = False


@dataclass(frozen=True, slots=True)
class Text:
    """Text that is written as it is."""

    text: str


@dataclass(frozen=True, slots=True)
class Redrawn:
    """Views that take the place of the last ones on a terminal; elsewhere a line, unless it is the last one again."""

    views: Sequence[Table | Facts | Note]
    line: str


View = Table | Facts | Note | Text | Redrawn


def show_count(count: int, noun: str) -> str:
    """Return a number with its noun, such as `1 queue` or `1,200 messages`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def show_size(count: float) -> str:
    """Return a number of bytes with a unit, such as `1.5 MiB`."""
    for unit in _UNITS:
        if count < 1024 or unit == _UNITS[-1]:
            break
        count /= 1024
    return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"


def show_span(seconds: float) -> str:
    """Return a time span with a unit, such as `45 s` or `2.5 h`."""
    for length, unit in _SPANS:
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 or seconds == 0 else f"{seconds:.1f} s"


def show_time(time: Moment | None) -> str:
    """Return a time to the second, in UTC; a dash if there is none."""
    if time is None or time.iso is None:
        return "-"
    return time.iso[:19].replace("T", " ") + "Z"


def show_troubles(troubles: Iterable[Trouble]) -> list[View]:
    """Return a warning for each missing part of a result."""
    return [Note(f"{each.what}: {each.why}", is_warning=True) for each in troubles]
