"""What does a rule about options look like?

A rule looks at what the user gave and never at defaults, so that no default can contradict a user. Each names the
option to look at, the other one, and which to drop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..cluster.names import READER_GROUP
from ..offsets.requested import Keyword, QueueTree
from .given import Given
from .option import Option
from .table import batches, groups, offsets

__all__ = [
    "Rule",
    "Test",
    "at_most",
    "for_nobody",
    "for_tools",
    "gave",
    "is_orderly",
    "needs",
    "not_with",
    "only_if",
    "says",
    "starts_at_group",
    "uses_strategy",
    "wishes",
]

Test = Callable[[Given], bool]
"""A question to what was given."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Something that may not be."""

    option: Option[Any]
    is_broken: Test
    what: str
    advice: str
    code: str = "OPTION_CONFLICT"


def not_with(option: Option[Any], other: Option[Any], advice: str) -> Rule:
    """Two options of which only one may be given."""
    what = f"not together with {other.name}"
    return Rule(option, lambda given: given.gave(option) and given.gave(other), what, advice)


def needs(option: Option[Any], other: Option[Any]) -> Rule:
    """An option that says nothing without another."""
    what, advice = f"has no effect without {other.name}", f"give {other.name}, or drop {option.name}"
    return Rule(option, lambda given: given.gave(option) and not given.gave(other), what, advice)


def at_most(option: Option[int], limit: Option[int]) -> Rule:
    """A number that another bounds."""

    def is_above(given: Given) -> bool:
        number, largest = given.maybe(option), given.maybe(limit)
        return number is not None and largest is not None and number > largest

    return Rule(option, is_above, f"above {limit.name}", f"lower {option.name} or raise {limit.name}")


def only_if(option: Option[Any], condition: Test, where: str) -> Rule:
    """An option that matters in one case."""
    what, advice = f"has no effect without {where}", f"set {where}, or drop {option.name}"
    return Rule(option, lambda given: given.gave(option) and not condition(given), what, advice)


def gave(option: Option[Any]) -> Test:
    """Whether an option is given at all."""
    return lambda given: given.gave(option)


def says(option: Option[Any], value: object) -> Test:
    """Whether the user gives an option this very value."""
    return lambda given: given.maybe(option) is value


def for_nobody(is_wanted: Test) -> Test:
    """Whether something is wanted that is done for a group, and no group is given."""
    return lambda given: is_wanted(given) and not given.gave(groups.CONSUMER_GROUP)


def for_tools(is_wanted: Test) -> Test:
    """Whether it is wanted for the tools group, which is nobody's own."""
    return lambda given: is_wanted(given) and given.maybe(groups.CONSUMER_GROUP) == READER_GROUP


# --- questions that many rules ask ------------------------------------------------------------------------------------


def wishes(wished: Any, keyword: Keyword) -> bool:
    """Whether a wish is a keyword, or holds it for some queue."""
    return wished is keyword or (isinstance(wished, QueueTree) and wished.uses(keyword))


def starts_at_group(given: Given) -> bool:
    """Whether some queue is to begin where the group stands, because the user says so."""
    return wishes(given.maybe(offsets.STARTING_OFFSETS), Keyword.GROUP)


def is_orderly(given: Given) -> bool:
    """Whether queues are read in order."""
    return given.get(batches.ORDERING)


def uses_strategy(*names: str) -> Test:
    """Whether one of these strategies is in use, as such or inside a room."""

    def is_used(given: Given) -> bool:
        strategy = given.get(batches.STRATEGY)
        return strategy.outer in names or strategy.inner in names

    return is_used
