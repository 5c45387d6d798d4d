"""Read the options of jobs: from arguments, properties, JSON, programs, and the WITH clauses of Flink's SQL."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

from ...errors import OptionError
from .given import GivenJob
from .programs import is_program, read_program

__all__ = ["read_arguments", "read_text"]

_SQL = re.compile(r"\bWITH\s*\(", re.IGNORECASE)
_SQL_TEXT = r"'((?:[^']|'')*)'"
_SQL_PART = re.compile(
    rf"(?P<pair>{_SQL_TEXT}\s*=\s*{_SQL_TEXT})|{_SQL_TEXT}|--[^\n]*|/\*.*?\*/|(?P<end>\))", re.DOTALL
)
_MAGIC = re.compile(r"^[%!]", re.MULTILINE)
_PROPERTY = re.compile(r"([A-Za-z][\w.*-]*)(?:\s*[=:]\s*|\s+)(.*)")


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
        jobs = list(_read_json(text, place))
    elif is_program(text):
        jobs = list(read_program(text))
    elif _SQL.search(text):
        jobs = list(_read_sql(text))
    else:
        jobs = [_read_properties(text)]
    found = [job for job in jobs if job.options or job.unread]
    if not found:
        advice = "give NAME=VALUE lines, a JSON object, or a program with calls of option"
        raise OptionError("--file", place, "no options", advice=advice)
    return found


def _read_json(text: str, place: str) -> Iterator[GivenJob]:
    """Yield the options of an object, or the reads and writes of a notebook."""
    from ...offsets.strict_json import parse_json

    try:
        value = parse_json(text, "--file")
    except OptionError as error:
        what = error.what.rpartition("': ")[2]  # Without the text, which may hold secrets.
        raise OptionError("--file", place, what, advice="give one JSON object") from None
    if isinstance(cells := value.get("cells"), list):
        yield from read_program("\n".join(map(_read_cell, cells)))
    else:
        yield GivenJob(options={name: _json_text(each) for name, each in value.items() if each is not None})


def _read_cell(cell: object) -> str:
    """Return the program in a cell of a notebook; lines for the notebook itself are comments."""
    if not isinstance(cell, dict) or cell.get("cell_type") != "code":
        return ""
    source = cell.get("source", "")
    text = "".join(map(str, source)) if isinstance(source, list) else str(source)
    return _MAGIC.sub("#", text)


def _json_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _read_properties(text: str) -> GivenJob:
    """Return the options of lines; a line of another form may be part of a secret, and is not shown."""
    job = GivenJob()
    numbered = enumerate(text.splitlines(), 1)
    for number, line in numbered:
        first = number
        while line.endswith("\\") and (more := next(numbered, None)):
            number, line = more[0], line[:-1] + more[1].lstrip()
        if not line.strip() or line.lstrip().startswith(("#", "!")):
            continue
        if found := _PROPERTY.fullmatch(line.strip()):
            job.options[found[1]] = found[2]
        else:
            job.unread.append(first)
    return job


def _read_sql(text: str) -> Iterator[GivenJob]:
    """Yield the tables of SQL; connectors other than RocketMQ's are Flink's, whatever their name."""
    for clause in _SQL.finditer(text):
        if "--" not in text[text.rfind("\n", 0, clause.start()) + 1 : clause.start()]:
            pairs = dict(_read_with(text, clause.end()))
            connector = pairs.pop("connector", None)
            is_ours = connector is None or connector.startswith("rocketmq")
            yield GivenJob(format=connector if is_ours else f"Flink's {connector}", options=pairs)


def _read_with(text: str, at: int) -> Iterator[tuple[str, str]]:
    for part in _SQL_PART.finditer(text, at):
        if part["end"]:
            return
        if part["pair"]:
            yield part[2].replace("''", "'"), part[3].replace("''", "'")
