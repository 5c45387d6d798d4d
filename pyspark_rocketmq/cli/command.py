"""Describe one command: its parameters, examples and result, and the functions that run and show it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from .views import View

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Parameter:
    """An argument such as `TOPIC`, or an option such as `--max`."""

    name: str
    """For an argument, its name in capitals; for an option, its spellings with slashes between: `-n/--count`."""
    help: str
    kind: type = str
    """Type of the value: str, int or float; bool for an option without a value."""
    default: Any = None
    choices: tuple[str, ...] = ()
    is_repeatable: bool = False
    is_required: bool = False
    metavar: str | None = None

    @property
    def spellings(self) -> tuple[str, ...]:
        """The spellings of an option, or the name of an argument."""
        return tuple(self.name.split("/"))

    @property
    def is_argument(self) -> bool:
        """Whether this is an argument, which is given by its place and without a name."""
        return not self.name.startswith("-")

    @property
    def key(self) -> str:
        """The name under which a command's function gets the value."""
        return self.spellings[-1].lstrip("-").replace("-", "_").lower()


@dataclass(frozen=True, slots=True)
class Command(Generic[R]):
    """A command of `pyspark-rocketmq`."""

    name: str
    """Its words, for example `offsets seek`; `table` has its summary."""
    result: type[R]
    """The class of the result; the command's JSON Schema is made from it."""
    run: Callable[..., R | Iterator[R]]
    """Gets the session, then the parameters by key; returns the result, or yields one after the other."""
    show: Callable[[R], Iterable[View]]
    """Returns the result as people see it."""
    parameters: tuple[Parameter, ...] = ()
    details: str = ""
    examples: tuple[str, ...] = ()
    """Lines as a user types them; a test runs each."""
    connects: bool = True
    """Whether the command talks to a cluster, so that it takes the options of a connection."""
    is_stream: bool = False
    """Whether the command always yields results one after the other."""
    streams_if: str | None = None
    """The key of a parameter with which the command yields results one after the other."""
    verdict: Callable[[R, dict[str, Any]], int] | None = None
    """Gets result and values and returns the exit code; None: 0 always."""

    def streams(self, values: dict[str, Any]) -> bool:
        """Return whether the command yields results one after the other if it is run with these values."""
        return self.is_stream or (self.streams_if is not None and bool(values.get(self.streams_if)))


@dataclass(frozen=True, slots=True)
class Invocation:
    """A command with the values that the user gave."""

    command: Command[Any]
    values: dict[str, Any] = field(default_factory=dict)
    """The values of the command's own parameters, by key."""
    common: dict[str, Any] = field(default_factory=dict)
    """The values of the parameters that all commands have."""
