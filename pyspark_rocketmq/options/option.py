"""Describe one option: its names, where it applies, its kind of value, its default and its meaning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from .values import Kind

__all__ = ["USES", "Option", "Section", "planned", "section"]

T_co = TypeVar("T_co", covariant=True)

USES = {"S": "streaming reads", "B": "batch reads", "W": "writes", "H": "helper functions"}
"""The ways to use the library in which an option can apply, by letter."""


@dataclass(frozen=True, slots=True, eq=False)
class Option(Generic[T_co]):
    """One row of the table of options: how an option is named, read and described.

    The `Option` object itself is the key under which `GivenOptions` holds the value that the user gave.
    """

    name: str
    use: str
    """The letters of `USES` where the option applies."""
    kind: Kind[T_co]
    default: str = ""
    """Text that is read as if the user had given it; empty if there is none."""
    otherwise: str = "none"
    """For users: the behaviour if the option is not given and has no default text."""
    aliases: tuple[str, ...] = ()
    native: bool = False
    """Whether this is a property of RocketMQ's own client: also accepted as `rocketmq.<name>`."""
    is_planned: bool = False
    """Whether the option is known but not implemented, and therefore refused."""
    secret: bool = False
    meaning: str = ""

    @property
    def spellings(self) -> tuple[str, ...]:
        """All accepted names of the option, the main one first."""
        prefixed = (f"rocketmq.{self.name}",) if self.native else ()
        return self.name, *self.aliases, *prefixed

    @property
    def shown_default(self) -> str:
        """The default as the page for users shows it."""
        return f"`{self.default}`" if self.default else self.otherwise


def planned(name: str, use: str, meaning: str, *, native: bool = False) -> Option[str]:
    """Return an option that is known but not implemented, so that giving it is refused."""
    return Option(name, use, Kind("a value", lambda given: given.text), native=native, is_planned=True, meaning=meaning)


@dataclass(frozen=True, slots=True)
class Section:
    """Options that belong together on the page for users."""

    title: str
    options: tuple[Option[Any], ...]


def section(title: str, module: Mapping[str, object]) -> Section:
    """Return a section with all options that a module defines, in the order of the module."""
    return Section(title, tuple(value for value in module.values() if isinstance(value, Option)))
