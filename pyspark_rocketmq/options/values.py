"""Read the text of an option as a value: a number, a duration, a list, a name, ...

A `Kind` is one sort of value: the function that reads its text, and the accepted texts in words. Any other text raises
an `OptionError` that quotes these words. All texts of options are read here, except JSON that names queues
(`queue_json`).
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from ..errors import OptionError
from ..model import MOST_GROUP, MOST_GROUP_TOPIC, MOST_TOPIC, Address, is_group_name, is_topic_name, parse_addresses
from ..offsets.strict_json import LAST_OFFSET, parse_json, shorten

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
E = TypeVar("E", bound=Enum)

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_SIZE = re.compile(r"\+?([0-9]{1,19})\s*([kmg]?)", re.IGNORECASE)
_SIZE_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}
_MEBIBYTE = 2**20
_UNITS_MS = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"([0-9]{1,19})\s*(ms|s|m|h|d|)", re.IGNORECASE)
_EPOCH_MS = re.compile(r"\+?[0-9]{1,19}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class OptionText(NamedTuple):
    """The text of one option as the user gave it, and the name under which it was given."""

    option: str
    text: str
    now_ms: int = 0
    """The present time in milliseconds, from which times like `-2h` count back."""


@dataclass(frozen=True, slots=True)
class Kind(Generic[T_co]):
    """One sort of option value, such as integers in a range, and the function that reads it."""

    accepts: str
    """The accepted texts in words, for the page and for errors."""
    read: Callable[[OptionText], T_co]


# --- words ------------------------------------------------------------------------------------------------------------


TEXT: Kind[str] = Kind("text", lambda given: given.text)
PATH: Kind[str] = Kind("path of a file", lambda given: given.text)


def choice(values: Mapping[str, T]) -> Kind[T]:
    """Return a `Kind` of option value: the keys of `values`, in upper or lower case, each read as its value."""
    by_word = {word.lower(): value for word, value in values.items()}
    accepts = ", ".join(f"`{word}`" for word in values)

    def read(given: OptionText) -> T:
        word = given.text.lower()
        if word in by_word:
            return by_word[word]
        raise _refuse(given, "unknown", accepts)

    return Kind(accepts, read)


def words(values: type[E]) -> Kind[E]:
    """Return a `Kind` of option value: words that are the values of an enumeration, read as its members."""
    return choice({member.value: member for member in values})


BOOLEAN = choice({"true": True, "false": False})


# --- numbers ----------------------------------------------------------------------------------------------------------


def integer(first: int, last: int | None = None, hint: str = "") -> Kind[int]:
    """Return a `Kind` of option value: integers from `first` to `last` (None: no limit).

    Errors about the range end with `hint`.
    """
    accepts = f"integer {_range(first, last)}"

    def read(given: OptionText) -> int:
        if not _INTEGER.fullmatch(given.text):
            raise _refuse(given, "not an integer", accepts)
        return _within(given, int(given.text), first, last, accepts + hint)

    return Kind(accepts, read)


def duration(first_ms: int, last_ms: int | None = None, hint: str = "") -> Kind[float]:
    """Return a `Kind` of option value: durations such as `500` (milliseconds), `30s` or `2h`, read as seconds.

    They may be from `first_ms` to `last_ms` (None: no limit); errors about the range end with `hint`.
    """
    accepts = f"duration {_range(first_ms, last_ms)} ms"

    def read(given: OptionText) -> float:
        if given.text.startswith("-"):
            raise _refuse(given, "below 0", accepts + hint)
        return _within(given, read_duration_ms(given), first_ms, last_ms, accepts + hint) / 1000

    return Kind(accepts, read)


def size(first: str, last: str = "") -> Kind[int]:
    """Return a `Kind` of option value: sizes such as `64k`, from `first` to `last` (empty: no limit), read as bytes."""
    accepts = f"size {_range(first, last)}"
    smallest, largest = _read_bytes(first), _read_bytes(last)

    def read(given: OptionText) -> int:
        found = _read_bytes(given.text)
        if found is None:
            raise _refuse(given, "not a size", f"{accepts}: bytes, or a number with k, m or g")
        return _within(given, found, smallest or 0, largest, accepts)

    return Kind(accepts, read)


def mebibytes(first: int, last: int) -> Kind[int]:
    """Return a `Kind` of option value: sizes from `first` to `last` MiB, read as whole MiB, rounded down.

    A plain number means MiB; a number may also have a unit, as in `2g`.
    """
    accepts = f"MiB {_range(first, last)}, or a size"

    def read(given: OptionText) -> int:
        found = _read_bytes(given.text)
        if found is None:
            raise _refuse(given, "not a size", accepts)
        return _within(given, found if given.text[-1].isdigit() else found // _MEBIBYTE, first, last, accepts)

    return Kind(accepts, read)


def optional(kind: Kind[T]) -> Kind[T | None]:
    """Return a `Kind` of option value: those of `kind`, and -1, which is read as None and turns the option off."""
    accepts = f"-1 or {kind.accepts}"

    def read(given: OptionText) -> T | None:
        if given.text == "-1":
            return None
        try:
            return kind.read(given)
        except OptionError as error:
            error.advice = f"give {accepts}"
            raise

    return Kind(accepts, read)


def _read_bytes(text: str) -> int | None:
    match = _SIZE.fullmatch(text)
    return int(match[1]) * _SIZE_UNITS[match[2].lower()] if match else None


def _within(given: OptionText, number: int, first: int, last: int | None, accepts: str) -> int:
    if number < first or (last is not None and number > last):
        raise _refuse(given, "out of range", accepts)
    return number


def _range(first: int | str, last: int | str | None) -> str:
    return f"{first}..{last}" if last else f"≥ {first}"


# --- lists and names --------------------------------------------------------------------------------------------------


def split_list(given: OptionText, separator: str = ",") -> tuple[str, ...]:
    """Return the parts of a list, split at a regular expression; raise `OptionError` for a blank or repeated part."""
    parts = tuple(part.strip() for part in re.split(separator, given.text))
    if not all(parts):
        raise _refuse(given, "a blank part", "a comma-separated list")
    twice = next((part for part in parts if parts.count(part) > 1), None)
    if twice is not None:
        raise _refuse(given, f"'{shorten(twice)}' appears twice", "each part once")
    return parts


def read_list(accepts: str) -> Kind[tuple[str, ...]]:
    """Return a `Kind` of option value: comma-separated lists of texts; `accepts` describes the list to users."""
    return Kind(accepts, split_list)


def addresses() -> Kind[tuple[Address, ...]]:
    """Return a `Kind` of option value: lists of server addresses, separated by commas or semicolons."""

    def read(given: OptionText) -> tuple[Address, ...]:
        return parse_addresses(";".join(split_list(given, "[,;]")), given.option)

    return Kind("list of `host:port`, `;` or `,` between them", read)


def topic_names() -> Kind[tuple[str, ...]]:
    """Return a `Kind` of option value: comma-separated lists of topic names."""
    accepts = f"list of topics, up to {MOST_TOPIC} characters of %|a-zA-Z0-9_- ({MOST_GROUP_TOPIC} for groups')"

    def read(given: OptionText) -> tuple[str, ...]:
        topics = split_list(given)
        for topic in topics:
            if not is_topic_name(topic):
                raise _refuse(given, f"'{shorten(topic)}' is not a name of a topic", accepts)
        return topics

    return Kind(accepts, read)


def group_name(refused: Mapping[str, str]) -> Kind[str]:
    """Return a `Kind` of option value: names of consumer groups; `refused` has forbidden names with the reasons."""
    accepts = f"1..{MOST_GROUP} characters of %|a-zA-Z0-9_-"

    def read(given: OptionText) -> str:
        if not is_group_name(given.text):
            raise _refuse(given, "not a name of a group", accepts)
        if given.text in refused:
            raise _refuse(given, refused[given.text], "a group of its own")
        return given.text

    return Kind(accepts, read)


# --- times, patterns, JSON --------------------------------------------------------------------------------------------


def _read_pattern(given: OptionText) -> str:
    try:
        with warnings.catch_warnings():
            # Python warns of patterns that a later version may read otherwise; they are what the user wrote.
            warnings.simplefilter("ignore")
            re.compile(given.text)
    except (re.error, OverflowError, RecursionError) as cause:
        raise _refuse(given, f"not a regular expression ({cause})", PATTERN.accepts) from cause
    return given.text


def _read_directory(given: OptionText) -> Path:
    try:
        return Path(given.text).expanduser()
    except RuntimeError as cause:  # The home of an unknown user.
        raise _refuse(given, str(cause), DIRECTORY.accepts) from cause


DIRECTORY = Kind("directory on the driver, `~` allowed", _read_directory)
PATTERN = Kind("regular expression, matched in full", _read_pattern)


def read_duration_ms(given: OptionText) -> int:
    """Return a duration such as `500`, `30s` or `2h` in milliseconds."""
    match = _DURATION.fullmatch(given.text.strip().removeprefix("+"))
    if match is None:
        advice = "give milliseconds, or a number with ms, s, m, h or d"
        raise OptionError(given.option, given.text, "not a duration", advice=advice)
    return int(match[1]) * _UNITS_MS[match[2].lower()]


def read_time_ms(given: OptionText) -> int:
    """Return a time as milliseconds since 1970; a time before 1970 means 1970."""
    text = given.text.strip()
    if text.startswith("-") and _DURATION.fullmatch(text[1:]):
        return max(0, given.now_ms - read_duration_ms(given._replace(text=text[1:])))
    if _EPOCH_MS.fullmatch(text) and int(text) <= LAST_OFFSET:
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        advice = "give milliseconds since 1970, ISO-8601 with a zone (2026-01-31T00:00:00Z), or a time ago (-2h)"
        raise OptionError(given.option, text, "not a time", advice=advice) from error
    if moment.tzinfo is None:
        plain = moment.isoformat()
        raise OptionError(given.option, text, "a time without a zone", advice=f"write {plain}Z or {plain}+08:00")
    # Rounded up: brokers store whole milliseconds, and the first message at or after this time is wanted.
    return max(0, -((_EPOCH - moment) // _MILLISECOND))


TIME = Kind("time: milliseconds since 1970, ISO-8601 with a zone, or a time ago such as `-2h`", read_time_ms)


def text_map(given: OptionText) -> dict[str, str]:
    """Return the JSON object in a text as a dict of texts; raise `OptionError` if it is empty or holds blank text."""
    value = parse_json(given.text, given.option)
    pairs = value.items() if isinstance(value, dict) else ()
    if not pairs or not all(isinstance(text, str) and text.strip() and name.strip() for name, text in pairs):
        raise _refuse(given, "not a JSON object from text to text", '{"name": "value"}')
    return dict(pairs)


# --- errors -----------------------------------------------------------------------------------------------------------


def _refuse(given: OptionText, what: str, accepted: str) -> OptionError:
    return OptionError(given.option, shorten(given.text), what, advice=f"give {accepted.replace('`', '')}")
