"""Define the rules by which options are translated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

__all__ = ["RESET_NOTE", "Convert", "Product", "Rule", "Untranslatable", "cut", "dropped", "renamed", "same"]

Convert = Callable[[str, Mapping[str, str]], Mapping[str, str]]
"""Gets a value and all options that were given, by name in lower case; returns options of ours and their values."""
RESET_NOTE = "for queues in which the group has no position; in the others the query goes on where it stands"


class Untranslatable(Exception):
    """A value without a counterpart; the text says why, and what to do instead."""


@dataclass(frozen=True, slots=True)
class Rule:
    """The translation of options with the same meaning."""

    names: tuple[str, ...]
    """Names of the other connector; `*` at the end stands for any ending."""
    ours: str | None
    """The option that takes their place; None if there is no counterpart."""
    note: str = ""
    """The difference in meaning, or the reason why there is no counterpart."""
    convert: Convert | None = None
    """None: the value stays."""
    is_secret: bool = False
    ignores_value: bool = False
    """Whether the conversion needs no value, so that it may be an expression of a program."""


@dataclass(frozen=True, slots=True)
class Product:
    """A connector whose options can be translated."""

    name: str
    title: str
    formats: tuple[str, ...]
    """The names by which programs choose it."""
    reads: tuple[Rule, ...]
    writes: tuple[Rule, ...]
    read_extra: Mapping[str, str]
    """Options that a read needs to go on as before."""
    read_start: str = ""
    """The start of reads without an option for it, if it is not the same here."""
    read_remarks: tuple[str, ...] = ()
    """Differences of reads that no option shows."""
    write_remarks: tuple[str, ...] = ()
    """Differences of writes that no option shows."""


def same(*names: str, note: str = "") -> tuple[Rule, ...]:
    """Return rules for options that have the same name and the same values here."""
    return tuple(Rule((name,), name, note) for name in names)


def renamed(
    ours: str,
    *names: str,
    note: str = "",
    convert: Convert | None = None,
    is_secret: bool = False,
    ignores_value: bool = False,
) -> Rule:
    """Return the rule for options that one option of ours takes the place of."""
    return Rule(names, ours, note, convert, is_secret, ignores_value)


def dropped(why: str, *names: str, is_secret: bool = False) -> Rule:
    """Return the rule for options without a counterpart."""
    return Rule(names, None, why, is_secret=is_secret)


def cut(name: str, least: int, most: int) -> Convert:
    """Return a conversion of an integer into the range that an option of ours accepts."""

    def convert(value: str, given: Mapping[str, str]) -> Mapping[str, str]:
        try:
            number = int(value)
        except ValueError:
            raise Untranslatable(f"the value is no integer; set {name} yourself") from None
        return {name: str(min(max(number, least), most))}

    return convert
