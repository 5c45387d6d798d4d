"""Read the condition of `read_where` as the messages that it keeps.

Spark applies the same text to the rows. So a text must mean here what it means there, whatever the session's settings
are: only comparisons of columns with numbers, plain texts, and times with a zone, joined by `AND`. Everything else is
refused, since a condition that is half understood would leave out rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from ..errors import OptionError
from ..offsets.strict_json import shorten
from .narrowing import EVERYTHING, Narrowing, Span

__all__ = ["read_condition"]

_TOKEN = re.compile(
    r"\s*(?:(?P<text>'[^'\\]*')|(?P<number>-?[0-9]{1,30})(?![\w.])|(?P<word>[A-Za-z]+)(?!\w)|(?P<sign><=|>=|[=<>(),]))"
)
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?(Z|[+-][0-9]{2}:[0-9]{2})")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_ADVICE = "put other conditions into .where() of the DataFrame that read_where returns"


class _Near(NamedTuple):
    """The integers next to a value: the largest that is not above it, and the smallest that is not below it."""

    floor: int
    ceiling: int


class _Choice(NamedTuple):
    """A column that narrows a read if it equals some values of its type."""

    type: type
    narrow: Callable[[frozenset[Any]], Narrowing]


class _Order(NamedTuple):
    """A column that narrows a read also by `<`, `<=`, `>`, `>=` and `BETWEEN`."""

    type: type
    place: Callable[[Any], _Near]
    """Function that returns the integers next to a value."""
    narrow: Callable[[Span], Narrowing]


def _place_time(value: datetime) -> _Near:
    """Return the whole milliseconds next to an instant, which may have microseconds."""
    since = value - _EPOCH
    return _Near(since // _MILLISECOND, -(-since // _MILLISECOND))


_QUEUE_IDS = _Choice(int, lambda found: Narrowing(queue_ids=found))
_OFFSETS = _Order(int, lambda value: _Near(value, value), lambda span: Narrowing(offsets=span))
_TIMES = _Order(datetime, _place_time, lambda span: Narrowing(times_ms=span))

_COLUMNS: Mapping[str, _Choice | _Order] = {
    "topic": _Choice(str, lambda found: Narrowing(topics=found)),
    "brokername": _Choice(str, lambda found: Narrowing(broker_names=found)),
    "queueid": _QUEUE_IDS,
    "partition": _QUEUE_IDS,
    "tags": _Choice(str, lambda found: Narrowing(tags=found)),
    "queueoffset": _OFFSETS,
    "offset": _OFFSETS,
    "storetimestamp": _TIMES,
    "timestamp": _TIMES,
}
"""The columns of both layouts that narrow a read, in lower case."""
_LIMITS: Mapping[str, Callable[[_Near], Span]] = {
    "<": lambda near: Span(end=near.ceiling),
    "<=": lambda near: Span(end=near.floor + 1),
    ">": lambda near: Span(start=near.floor + 1),
    ">=": lambda near: Span(start=near.ceiling),
}
_KINDS = {
    int: "a whole number",
    str: "a text in single quotes",
    datetime: "TIMESTAMP '2026-01-31 10:00:00Z', with a zone",
}


def read_condition(text: str) -> Narrowing:
    """Return the messages that a condition keeps; raise `OptionError` if it has anything that narrows no read."""
    if not isinstance(text, str):
        raise OptionError("condition", repr(text), "is not a text", advice="give SQL, such as tags = 'TagA'")
    return _Reader(text).read()


class _Reader:
    """Reads the tokens of one condition from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [*self._split(text), ("end", "its end")]
        self._at = 0

    def read(self) -> Narrowing:
        """Return the narrowing by all comparisons."""
        narrowing = EVERYTHING.meet(self._comparison())
        while self._takes("AND"):
            narrowing = narrowing.meet(self._comparison())
        if self._peek()[0] != "end":
            raise self._unexpected("AND, or the end")
        return narrowing

    def _split(self, text: str) -> Iterator[tuple[str, str]]:
        """Yield the kind and the text of each token."""
        at, end = 0, len(text.rstrip())
        if "${" in text:
            raise self._refuse("Spark would replace ${...} by a variable")
        while at < end:
            match = _TOKEN.match(text, at)
            if match is None or match.lastgroup is None:
                raise self._refuse(f"cannot be read from {shorten(text[at:].strip())} on")
            yield match.lastgroup, match[match.lastgroup]
            at = match.end()

    def _comparison(self) -> Narrowing:
        kind, name = self._peek()
        column = _COLUMNS.get(name.lower()) if kind == "word" else None
        if column is None:
            raise self._unexpected("a column that narrows a read")
        self._at += 1
        if self._takes("="):
            return self._among(column, [self._value(column)])
        if self._takes("IN"):
            return self._among(column, self._list(column))
        if isinstance(column, _Order):
            return column.narrow(self._span(column))
        raise self._unexpected("= or IN")

    def _among(self, column: _Choice | _Order, values: list[Any]) -> Narrowing:
        if isinstance(column, _Choice):
            return column.narrow(frozenset(values))
        near = [column.place(value) for value in values]
        return column.narrow(Span(min(each.ceiling for each in near), max(each.floor for each in near) + 1))

    def _span(self, column: _Order) -> Span:
        if self._takes("BETWEEN"):
            start = column.place(self._value(column)).ceiling
            self._require("AND")
            return Span(start, column.place(self._value(column)).floor + 1)
        for sign, limit in _LIMITS.items():
            if self._takes(sign):
                return limit(column.place(self._value(column)))
        raise self._unexpected("=, IN, <, <=, >, >= or BETWEEN")

    def _list(self, column: _Choice | _Order) -> list[Any]:
        self._require("(")
        values = [self._value(column)]
        while self._takes(","):
            values.append(self._value(column))
        self._require(")")
        return values

    def _value(self, column: _Choice | _Order) -> Any:
        if column.type is datetime:
            self._require("TIMESTAMP")
        kind, text = self._peek()
        if kind != ("number" if column.type is int else "text"):
            raise self._unexpected(_KINDS[column.type])
        self._at += 1
        if kind == "number":
            return int(text)
        return self._instant(text[1:-1]) if column.type is datetime else text[1:-1]

    def _instant(self, text: str) -> datetime:
        if _TIME.fullmatch(text):
            try:
                return datetime.fromisoformat(text)
            except ValueError:
                pass
        raise self._refuse(f"{shorten(text)} is not a time such as 2026-01-31 10:00:00Z, with a zone")

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._at]

    def _takes(self, wanted: str) -> bool:
        """Go past the next token if it is this word or sign; return whether it is."""
        kind, text = self._peek()
        is_next = kind in ("word", "sign") and text.upper() == wanted
        self._at += is_next
        return is_next

    def _require(self, wanted: str) -> None:
        if not self._takes(wanted):
            raise self._unexpected(wanted)

    def _unexpected(self, wanted: str) -> OptionError:
        return self._refuse(f"{shorten(self._peek()[1])} stands where {wanted} is expected")

    def _refuse(self, what: str) -> OptionError:
        return OptionError("condition", shorten(self._text), what, advice=_ADVICE)
