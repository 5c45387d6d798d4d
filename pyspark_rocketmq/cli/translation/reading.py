"""Read the options of jobs: from arguments, properties, JSON, and the text of programs.

Of a program only calls of `option` and `options` after `read`, `readStream`, `write` or `writeStream` are understood,
and the WITH clause of a table in SQL. A value that is no literal stays what it is: an expression.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ...errors import OptionError

__all__ = ["USES", "GivenJob", "read_arguments", "read_text"]

USES = ("readStream", "read", "writeStream", "write")
_STRING = r"""(?:\"{3}.*?\"{3}|'{3}.*?'{3}|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')"""
_START = re.compile(r"\.\s*(readStream|writeStream|read|write)\b")
_CALL = re.compile(r"\.\s*(format|option|options)\s*\(")
_PAIR = re.compile(rf"({_STRING}|[A-Za-z_]\w*)\s*(?:=|:|,)\s*({_STRING}|[^,(){{}}]+)", re.DOTALL)
_LITERAL = re.compile(rf"\s*({_STRING})\s*", re.DOTALL)
_SQL = re.compile(r"\bWITH\s*\(", re.IGNORECASE)
_SQL_PAIR = re.compile(r"'((?:[^']|'')*)'\s*=\s*'((?:[^']|'')*)'")
_PROPERTY = re.compile(r"([^=:\s]+)\s*[=:]?\s*(.*)")
_CLOSING = {"(": ")", "[": "]", "{": "}"}


@dataclass(slots=True)
class GivenJob:
    """The options of one read or write."""

    use: str | None = None
    """One of `USES`; None if the text does not say."""
    format: str | None = None
    options: dict[str, str] = field(default_factory=dict)
    expressions: set[str] = field(default_factory=set)
    """Names of options whose values are expressions of a program."""


def read_arguments(words: Iterable[str]) -> GivenJob:
    """Return the options in words of the form NAME=VALUE; raise `OptionError` for another word."""
    job = GivenJob()
    for word in words:
        name, equals, value = word.partition("=")
        if not (equals and name.strip()):
            # The word is not shown: it may be a secret.
            raise OptionError("NAME=VALUE", None, "a word of another form", advice="for example subscribe=orders")
        job.options[name.strip()] = value
    return job


def read_text(text: str, place: str) -> list[GivenJob]:
    """Return the reads and writes in a text: JSON, properties, or a program; raise `OptionError` if there are none."""
    if text.lstrip().startswith("{"):
        jobs = [_read_json(text, place)]
    elif _START.search(text) or _CALL.search(text):
        jobs = list(_read_program(text))
    elif _SQL.search(text):
        jobs = list(_read_sql(text))
    else:
        jobs = [_read_properties(text)]
    found = [job for job in jobs if job.options]
    if not found:
        advice = "give NAME=VALUE lines, a JSON object, or a program with calls of option"
        raise OptionError("--file", place, "no options", advice=advice)
    return found


def _read_json(text: str, place: str) -> GivenJob:
    from ...offsets.strict_json import parse_json

    try:
        value = parse_json(text, "--file")
    except OptionError as error:
        what = error.what.rpartition("': ")[2]  # Without the text, which may hold secrets.
        raise OptionError("--file", place, what, advice="give one JSON object") from None
    return GivenJob(options={name: _json_text(each) for name, each in value.items()})


def _json_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _read_properties(text: str) -> GivenJob:
    job = GivenJob()
    for line in text.replace("\\\n", "").splitlines():
        if line.strip() and not line.lstrip().startswith(("#", "!")) and (found := _PROPERTY.fullmatch(line.strip())):
            job.options[found[1]] = found[2]
    return job


def _read_sql(text: str) -> Iterator[GivenJob]:
    for clause in _SQL.finditer(text):
        inner = text[clause.end() : _end_of_call(text, clause.end(), quotes="'")]
        pairs = {name.replace("''", "'"): value.replace("''", "'") for name, value in _SQL_PAIR.findall(inner)}
        yield GivenJob(format=pairs.pop("connector", None), options=pairs)


# --- programs --------------------------------------------------------------------------------------------------------


def _read_program(text: str) -> Iterator[GivenJob]:
    """Yield the reads and writes of a program; calls before the first of them are one of unknown use."""
    starts = list(_START.finditer(text))
    ends = [*(start.start() for start in starts), len(text)]
    yield _read_calls(None, text[: ends[0]])
    for start, end in zip(starts, ends[1:], strict=True):
        yield _read_calls(start[1], text[start.end() : end])


def _read_calls(use: str | None, text: str) -> GivenJob:
    job = GivenJob(use)
    for call in _CALL.finditer(text):
        arguments = text[call.end() : _end_of_call(text, call.end())]
        if call[1] == "format":
            literal = _LITERAL.fullmatch(arguments)
            job.format = _unquoted(literal[1]) if literal else job.format
            continue
        for name, value in _PAIR.findall(arguments) if call[1] == "options" else _split_pair(arguments):
            _add(job, name, value.strip())
    return job


def _split_pair(arguments: str) -> Iterator[tuple[str, str]]:
    """Yield name and value of a call of `option`; nothing if the name is no literal."""
    name = _LITERAL.match(arguments)
    if name and arguments[name.end() : name.end() + 1] == ",":
        yield name[1], arguments[name.end() + 1 :].strip().rstrip(",")


def _add(job: GivenJob, name: str, value: str) -> None:
    key = _unquoted(name)
    literal = _LITERAL.fullmatch(value)
    if literal:
        job.options[key] = _unquoted(literal[1])
        return
    job.options[key] = value.lower() if value in ("True", "False") else value
    if not re.fullmatch(r"-?\d+[lL]?|[Tt]rue|[Ff]alse", value):
        job.expressions.add(key)


def _unquoted(text: str) -> str:
    for quotes in ('"""', "'''", '"', "'"):
        if len(text) >= 2 * len(quotes) and text.startswith(quotes) and text.endswith(quotes):
            inner = text[len(quotes) : -len(quotes)]
            return re.sub(r"\\(.)", r"\1", inner) if len(quotes) == 1 else inner
    return text


def _end_of_call(text: str, at: int, quotes: str = "\"'") -> int:
    """Return where the parenthesis that is open at `at` is closed; the end of the text if it is not."""
    open_ones = [")"]
    while at < len(text):
        character = text[at]
        if character in quotes:
            at = _end_of_string(text, at)
            continue
        if character in _CLOSING:
            open_ones.append(_CLOSING[character])
        elif character == open_ones[-1]:
            open_ones.pop()
            if not open_ones:
                return at
        at += 1
    return at


def _end_of_string(text: str, at: int) -> int:
    """Return the place behind the string that begins at `at`."""
    quotes = text[at] * 3 if text.startswith(text[at] * 3, at) else text[at]
    at += len(quotes)
    while at < len(text) and not text.startswith(quotes, at):
        at += 2 if text[at] == "\\" else 1
    return at + len(quotes)
