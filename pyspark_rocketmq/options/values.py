"""How is the text of an option read?

A `Kind` is one sort of value: what it accepts, in words, and the function that reads it. There is one reader for each
sort, whatever the option is called. A text that is not accepted is an `OptionError` that quotes what is.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from ..errors import OptionError
from ..offsets.strict_json import parse_json, shorten
from ..offsets.times import parse_duration_ms, parse_time_ms

__all__ = [
    "BOOLEAN",
    "DIRECTORY",
    "PATH",
    "PATTERN",
    "TEXT",
    "TIME",
    "Entry",
    "Kind",
    "checked_list",
    "choice",
    "duration",
    "group_name",
    "integer",
    "mebibytes",
    "optional",
    "read_json",
    "read_list",
    "size",
    "split_list",
    "text_map",
    "to_come",
    "topic_names",
    "words",
]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
E = TypeVar("E", bound=Enum)

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_SIZE = re.compile(r"\+?([0-9]{1,19})\s*([kmg]?)", re.IGNORECASE)
_SIZE_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}
_MEBIBYTE = 2**20
_NAME = re.compile(r"[%|a-zA-Z0-9_-]+")
_GROUP_LENGTH, _TOPIC_LENGTH, _GROUP_TOPIC_LENGTH = 120, 127, 255


class Entry(NamedTuple):
    """One option as the user gave it, under the name that was used."""

    option: str
    text: str
    now_ms: int = 0
    """What times like `-2h` count from."""


@dataclass(frozen=True, slots=True)
class Kind(Generic[T_co]):
    """One sort of value."""

    accepts: str
    read: Callable[[Entry], T_co]


# --- words ------------------------------------------------------------------------------------------------------------


TEXT: Kind[str] = Kind("text", lambda entry: entry.text)
PATH: Kind[str] = Kind("path of a file", lambda entry: entry.text)


def choice(values: Mapping[str, T]) -> Kind[T]:
    """One of some words in any case."""
    by_word = {word.lower(): value for word, value in values.items()}
    accepts = ", ".join(f"`{word}`" for word in values)

    def read(entry: Entry) -> T:
        word = entry.text.lower()
        if word in by_word:
            return by_word[word]
        raise _refuse(entry, "unknown", accepts)

    return Kind(accepts, read)


def words(values: type[E]) -> Kind[E]:
    """One of the values of an enumeration."""
    return choice({member.value: member for member in values})


BOOLEAN = choice({"true": True, "false": False})


def to_come(accepts: str) -> Kind[str]:
    """What an option will accept that is not built yet."""
    return Kind(accepts, lambda entry: entry.text)


# --- numbers ----------------------------------------------------------------------------------------------------------


def integer(first: int, last: int | None = None, hint: str = "") -> Kind[int]:
    """A whole number in a range; `hint` says why others are of no use."""
    accepts = f"integer {_range(first, last)}"

    def read(entry: Entry) -> int:
        if not _INTEGER.fullmatch(entry.text):
            raise _refuse(entry, "no integer", accepts)
        return _within(entry, int(entry.text), first, last, accepts + hint)

    return Kind(accepts, read)


def duration(first_ms: int, last_ms: int | None = None, hint: str = "") -> Kind[float]:
    """A time span in seconds; plain numbers are milliseconds; `hint` says why others are of no use."""
    accepts = f"duration {_range(first_ms, last_ms)} ms"

    def read(entry: Entry) -> float:
        if entry.text.startswith("-"):
            raise _refuse(entry, "below 0", accepts + hint)
        milliseconds = parse_duration_ms(entry.text, entry.option)
        return _within(entry, milliseconds, first_ms, last_ms, accepts + hint) / 1000

    return Kind(accepts, read)


def size(first: str, last: str = "") -> Kind[int]:
    """A number of bytes."""
    accepts = f"size {_range(first, last)}"
    smallest, largest = _read_bytes(first), _read_bytes(last)

    def read(entry: Entry) -> int:
        found = _read_bytes(entry.text)
        if found is None:
            raise _refuse(entry, "no size", f"{accepts}: bytes, or a number with k, m or g")
        return _within(entry, found, smallest or 0, largest, accepts)

    return Kind(accepts, read)


def mebibytes(first: int, last: int) -> Kind[int]:
    """A number of MiB, or of bytes with a unit, which is rounded down."""
    accepts = f"MiB {_range(first, last)}, or a size"

    def read(entry: Entry) -> int:
        found = _read_bytes(entry.text)
        if found is None:
            raise _refuse(entry, "no size", accepts)
        return _within(entry, found if entry.text[-1].isdigit() else found // _MEBIBYTE, first, last, accepts)

    return Kind(accepts, read)


def optional(kind: Kind[T]) -> Kind[T | None]:
    """Something that -1 turns off."""
    accepts = f"-1 or {kind.accepts}"

    def read(entry: Entry) -> T | None:
        if entry.text == "-1":
            return None
        try:
            return kind.read(entry)
        except OptionError as error:
            error.advice = f"give {accepts}"
            raise

    return Kind(accepts, read)


def _read_bytes(text: str) -> int | None:
    match = _SIZE.fullmatch(text)
    return int(match[1]) * _SIZE_UNITS[match[2].lower()] if match else None


def _within(entry: Entry, number: int, first: int, last: int | None, accepts: str) -> int:
    if number < first or (last is not None and number > last):
        raise _refuse(entry, "out of range", accepts)
    return number


def _range(first: int | str, last: int | str | None) -> str:
    return f"{first}..{last}" if last else f"≥ {first}"


# --- lists and names --------------------------------------------------------------------------------------------------


def split_list(entry: Entry, separator: str = ",") -> tuple[str, ...]:
    """The parts between separators (a regular expression); none may be blank or given twice."""
    parts = tuple(part.strip() for part in re.split(separator, entry.text))
    if not all(parts):
        raise _refuse(entry, "a blank part", "a comma-separated list")
    twice = next((part for part in parts if parts.count(part) > 1), None)
    if twice is not None:
        raise _refuse(entry, f"'{shorten(twice)}' appears twice", "each part once")
    return parts


def read_list(accepts: str) -> Kind[tuple[str, ...]]:
    """A list of anything."""
    return Kind(accepts, split_list)


def checked_list(accepts: str, read_parts: Callable[[str, str], T]) -> Kind[T]:
    """A list in which commas and semicolons separate, read as a whole by a room's own reader (text, option)."""

    def read(entry: Entry) -> T:
        parts = split_list(entry, "[,;]")
        return read_parts(";".join(parts), entry.option)

    return Kind(accepts, read)


def topic_names() -> Kind[tuple[str, ...]]:
    """A list of topics."""
    accepts = f"list of topics, up to {_TOPIC_LENGTH} characters of %|a-zA-Z0-9_- ({_GROUP_TOPIC_LENGTH} for groups')"

    def read(entry: Entry) -> tuple[str, ...]:
        topics = split_list(entry)
        for topic in topics:
            longest = _GROUP_TOPIC_LENGTH if topic.startswith(("%RETRY%", "%DLQ%")) else _TOPIC_LENGTH
            if not _NAME.fullmatch(topic) or len(topic) > longest:
                raise _refuse(entry, f"'{shorten(topic)}' is no topic", accepts)
        return topics

    return Kind(accepts, read)


def group_name(refused: Mapping[str, str]) -> Kind[str]:
    """The name of a group; `refused` tells why some are none to use."""
    accepts = f"1..{_GROUP_LENGTH} characters of %|a-zA-Z0-9_-"

    def read(entry: Entry) -> str:
        if not _NAME.fullmatch(entry.text) or len(entry.text) > _GROUP_LENGTH:
            raise _refuse(entry, "no group", accepts)
        if entry.text in refused:
            raise _refuse(entry, refused[entry.text], "a group of its own")
        return entry.text

    return Kind(accepts, read)


# --- times, patterns, JSON --------------------------------------------------------------------------------------------


def _read_pattern(entry: Entry) -> str:
    try:
        with warnings.catch_warnings():
            # Python warns of patterns that a later version may read otherwise; they are what the user wrote.
            warnings.simplefilter("ignore")
            re.compile(entry.text)
    except (re.error, OverflowError, RecursionError) as cause:
        raise _refuse(entry, f"no regular expression ({cause})", PATTERN.accepts) from cause
    return entry.text


def _read_directory(entry: Entry) -> Path:
    try:
        return Path(entry.text).expanduser()
    except RuntimeError as cause:  # A home that nobody knows.
        raise _refuse(entry, str(cause), DIRECTORY.accepts) from cause


DIRECTORY = Kind("directory on the driver, `~` allowed", _read_directory)
PATTERN = Kind("regular expression, matched in full", _read_pattern)
TIME = Kind(
    "time: milliseconds since 1970, ISO-8601 with a zone, or a time ago such as `-2h`",
    lambda entry: parse_time_ms(entry.text, entry.option, now_ms=entry.now_ms),
)


def read_json(accepts: str, read: Callable[[str, str], T]) -> Kind[T]:
    """JSON that a room's own reader (text, option) understands; duplicate keys are refused before it is asked."""

    def checked(entry: Entry) -> T:
        parse_json(entry.text, entry.option)
        return read(entry.text, entry.option)

    return Kind(accepts, checked)


def text_map(value: Any, entry: Entry) -> dict[str, str]:
    """A JSON object from text to text, none of it blank."""
    pairs = value.items() if isinstance(value, dict) else ()
    if not pairs or not all(isinstance(text, str) and text.strip() and name.strip() for name, text in pairs):
        raise _refuse(entry, "no JSON object of names", '{"name": "value"}')
    return dict(pairs)


# --- errors -----------------------------------------------------------------------------------------------------------


def _shown(entry: Entry) -> tuple[str, str]:
    return entry.option, shorten(entry.text)


def _refuse(entry: Entry, what: str, accepted: str) -> OptionError:
    return OptionError(*_shown(entry), what, advice=f"give {accepted.replace('`', '')}")
