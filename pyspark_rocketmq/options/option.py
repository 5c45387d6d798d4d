"""Describe one option: its names, its uses, its kind of value, its default and its meaning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from .values import Kind

__all__ = ["USES", "Option", "Section", "planned", "section"]

T_co = TypeVar("T_co", covariant=True)

USES = {"S": "streaming reads", "B": "batch reads", "W": "writes", "H": "helper functions"}
"""Uses of options, by letter."""


@dataclass(frozen=True, slots=True, eq=False)
class Option(Generic[T_co]):
    """One row of the table. The constant that holds it is also the key to the value that the user gave."""

    name: str
    use: str
    """Letters of `USES`."""
    kind: Kind[T_co]
    default: str = ""
    """Text that is read as if the user had given it; empty if there is none."""
    otherwise: str = "none"
    """In words, what holds if nothing is given and there is no default value."""
    aliases: tuple[str, ...] = ()
    native: bool = False
    """Whether this is a property of RocketMQ's own client: also accepted as `rocketmq.<name>`."""
    is_planned: bool = False
    """Whether the option is known, but not built: then it is refused."""
    secret: bool = False
    meaning: str = ""

    @property
    def spellings(self) -> tuple[str, ...]:
        """Every name that is accepted, the main one first."""
        prefixed = (f"rocketmq.{self.name}",) if self.native else ()
        return self.name, *self.aliases, *prefixed

    @property
    def shown_default(self) -> str:
        """The default as users read it."""
        return f"`{self.default}`" if self.default else self.otherwise


def planned(name: str, use: str, meaning: str, *, native: bool = False) -> Option[str]:
    """Return an option that is known, but not built."""
    return Option(name, use, Kind("a value", lambda given: given.text), native=native, is_planned=True, meaning=meaning)


@dataclass(frozen=True, slots=True)
class Section:
    """Options of one purpose."""

    title: str
    options: tuple[Option[Any], ...]


def section(title: str, module: Mapping[str, object]) -> Section:
    """Return all options that a module defines, in the order in which it does."""
    return Section(title, tuple(value for value in module.values() if isinstance(value, Option)))
