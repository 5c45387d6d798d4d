"""Read the tables in the options' contract (`tests/golden/options-contract.md`) as rows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

CONTRACT = (Path(__file__).parents[1] / "golden" / "options-contract.md").read_text()


class Row(NamedTuple):
    """One option as described in the contract."""

    name: str
    spellings: frozenset[str]
    use: str
    range: str
    default: str


def table(section: str) -> list[list[str]]:
    """Return the cells, row by row, of the first table after a heading of the contract."""
    text = re.split(rf"^#+ {re.escape(section)}", CONTRACT, flags=re.MULTILINE)[1]
    lines = re.findall(r"^\|(.*)\|$", re.split(r"^#+ ", text, flags=re.MULTILINE)[0], flags=re.MULTILINE)
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)] for line in lines[2:]]


def option_rows() -> Iterator[Row]:
    """Yield a row for every option in section 3 of the contract."""
    for part in range(1, 10):
        for names, aliases, use, accepted, default, *_ in table(f"3.{part} "):
            mains = re.findall(r"`([^`]+)`(°?)", names)
            for (name, mark), others in zip(mains, _aliases_of(aliases, len(mains)), strict=True):
                spellings = {name} | others | ({f"rocketmq.{name}"} if mark else set())
                yield Row(name, frozenset(spellings), use, plain(accepted), plain(default))


def _aliases_of(cell: str, count: int) -> list[set[str]]:
    """Return the aliases of each of the `count` options that a row of the contract lists, from its cell of aliases.

    An alias that begins with a dot gets the part before the last dot of the first alias.
    """
    found = re.findall(r"`([^`]+)`(°?)", cell)
    if count == 1:
        return [{alias for alias, _ in found} | {f"rocketmq.{alias}" for alias, mark in found if mark}]
    stem = found[0][0].rpartition(".")[0] if found else ""
    full = [{stem + alias if alias.startswith(".") else alias} for alias, _ in found]
    return full + [set() for _ in range(count - len(full))]


def plain(text: str) -> str:
    """Return the text of a cell without marks, code quotes and remarks in brackets."""
    return re.sub(r"\s+", " ", re.sub(r"\([^)]*\)|[†`]", "", text)).strip()
