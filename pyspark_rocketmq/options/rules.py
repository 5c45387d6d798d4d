"""Build the rules about combinations of options.

A rule is an option, a test that finds the combination to refuse, an error and an advice. Tests look at what the user
gave and not at defaults, so that no default can contradict the user. The error names the option that is refused and the
one that it conflicts with; the advice says which to drop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..cluster.names import READER_GROUP
from ..offsets.requested import Keyword, QueueTree
from .build import broadcasts, locks, shares
from .given import GivenOptions
from .option import Option
from .table import batching, grouping, start_and_stop

Test = Callable[[GivenOptions], bool]


@dataclass(frozen=True, slots=True)
class Rule:
    """A combination of options that is refused, with the error's text and advice."""

    option: Option[Any]
    is_broken: Test
    what: str
    advice: str
    code: str = "OPTION_CONFLICT"


# --- kinds of rules ---------------------------------------------------------------------------------------------------


def not_with(option: Option[Any], other: Option[Any], advice: str) -> Rule:
    """Return a rule that refuses an option that is given together with another one."""
    what = f"not together with {other.name}"
    return Rule(option, lambda given: given.gave(option) and given.gave(other), what, advice)


def needs(option: Option[Any], other: Option[Any]) -> Rule:
    """Return a rule that refuses an option that is given without another one, since it would have no effect."""
    what, advice = f"has no effect without {other.name}", f"give {other.name}, or drop {option.name}"
    return Rule(option, lambda given: given.gave(option) and not given.gave(other), what, advice)


def at_most(option: Option[int], limit: Option[int]) -> Rule:
    """Return a rule that refuses a number that exceeds the value of another option, if both are given."""

    def is_above(given: GivenOptions) -> bool:
        number, largest = given.maybe(option), given.maybe(limit)
        return number is not None and largest is not None and number > largest

    return Rule(option, is_above, f"above {limit.name}", f"lower {option.name} or raise {limit.name}")


def only_if(option: Option[Any], condition: Test, where: str) -> Rule:
    """Return a rule that refuses an option unless `condition` holds, since it would have no effect."""
    what, advice = f"has no effect without {where}", f"set {where}, or drop {option.name}"
    return Rule(option, lambda given: given.gave(option) and not condition(given), what, advice)


def required_by(option: Option[Any], strategy: str, advice: str) -> Rule:
    """Return a rule that refuses an allocation strategy without the option that it needs."""
    uses, what = uses_strategy(strategy), f"required by allocateMessageQueueStrategy={strategy}"
    return Rule(option, lambda given: uses(given) and not given.gave(option), what, advice, "OPTION_MISSING")


def not_latest(option: Option[Any]) -> Rule:
    """Return a rule that refuses to start a batch read at the latest offset, since it would read nothing."""
    what, advice = "latest, in a batch read, reads nothing", "give earliest, offsets or a time"
    return Rule(
        option, lambda given: given.use == "B" and asks_for(given.maybe(option), Keyword.LATEST), what, advice,
        "OPTION_VALUE",
    )  # fmt: skip


def not_orderly(option: Option[Any], why: str) -> Rule:
    """Return a rule that refuses an option together with `ordering=queue`; the error ends with the reason `why`."""
    what = f"not together with ordering=queue: {why}"
    return Rule(option, lambda given: given.gave(option) and is_orderly(given), what, "drop one of the two")


def not_shared(option: Option[Any], test: Test, why: str) -> Rule:
    """Return a rule that refuses `groupMembership=shared` with options that pass `test`.

    The error names `option` as the refused one, and ends with the reason `why`.
    """
    what = f"not together with groupMembership=shared: {why}"
    return Rule(option, lambda given: shares(given) and test(given), what, "drop one of the two")


def names_client(option: Option[str]) -> Rule:
    """Return a rule that refuses `option`, which sets a part of the client id, for a read or write without client id.

    A read has one only if it is a member of its group, locks queues or broadcasts. A write has none.
    """
    what = "has no effect: nothing of this query bears a client id"
    advice = (
        f"set groupMembership=shared, lockQueues=true or messageModel=BROADCASTING on a read, or drop {option.name}"
    )

    def is_broken(given: GivenOptions) -> bool:
        has_client_id = broadcasts(given) or locks(given) or shares(given)
        return given.use in ("S", "B", "W") and given.gave(option) and not has_client_id

    return Rule(option, is_broken, what, advice)


# --- tests ------------------------------------------------------------------------------------------------------------


def gave(*options: Option[Any]) -> Test:
    """Return a test that passes if one of these options is given."""
    return lambda given: any(given.gave(option) for option in options)


def lacks(*options: Option[Any]) -> Test:
    """Return a test that passes if none of these options is given."""
    return lambda given: not any(given.gave(option) for option in options)


def says(option: Option[Any], value: object) -> Test:
    """Return a test that passes if the user gave this value of an option."""
    return lambda given: given.maybe(option) is value


def both(first: Test, second: Test) -> Test:
    """Return a test that passes if both of two tests pass."""
    return lambda given: first(given) and second(given)


def without_group(test: Test) -> Test:
    """Return a test that passes if `test` passes and no group is given."""
    return both(test, lacks(grouping.CONSUMER_GROUP))


def for_tools_group(test: Test) -> Test:
    """Return a test that passes if `test` passes and `consumerGroup` names the tools group.

    The tools group is the one that all readers share for which the user names no group.
    """
    return lambda given: test(given) and given.maybe(grouping.CONSUMER_GROUP) == READER_GROUP


def asks_for(offsets: Any, keyword: Keyword) -> bool:
    """Return whether requested offsets are this keyword, or hold it for some queue."""
    return offsets is keyword or (isinstance(offsets, QueueTree) and offsets.uses(keyword))


def starts_at_group(given: GivenOptions) -> bool:
    """Return whether the user lets some queue begin at the group's position."""
    return asks_for(given.maybe(start_and_stop.STARTING_OFFSETS), Keyword.GROUP)


def is_orderly(given: GivenOptions) -> bool:
    """Return whether queues are read in order (`ordering=queue`)."""
    return given.get(batching.ORDERING)


def uses_strategy(*names: str) -> Test:
    """Return a test that passes if one of these allocation strategies is set, alone or within MACHINE_ROOM_NEARBY."""

    def is_used(given: GivenOptions) -> bool:
        strategy = given.get(batching.STRATEGY)
        return strategy.outer in names or strategy.inner in names

    return is_used
