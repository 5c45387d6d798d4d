"""Which options do not go together, and which do not go alone?

A rule looks at what the user gave and never at defaults, so that no default can contradict a user. Each names the
option to look at, the other one, and which to drop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..cluster.names import READER_GROUP
from ..offsets.wish import Keyword, QueueTree
from .build import broadcasts, chosen_columns, commits, locks, shares
from .given import Given
from .option import Option
from .table import batches, connection, groups, offsets, pulling, rows, security, selection

__all__ = ["RULES", "Rule", "check_rules"]

Test = Callable[[Given], bool]


@dataclass(frozen=True, slots=True)
class Rule:
    """Something that may not be."""

    option: Option[Any]
    is_broken: Test
    what: str
    advice: str
    code: str = "OPTION_CONFLICT"


def check_rules(given: Given) -> None:
    """Raise the first rule that is broken."""
    for rule in RULES:
        if rule.is_broken(given):
            raise given.refuse(rule.option, rule.what, advice=rule.advice, code=rule.code)


# --- sorts of rules ---------------------------------------------------------------------------------------------------


def _not_with(option: Option[Any], other: Option[Any], advice: str) -> Rule:
    """Two options of which only one may be given."""
    what = f"not together with {other.name}"
    return Rule(option, lambda given: given.gave(option) and given.gave(other), what, advice)


def _needs(option: Option[Any], other: Option[Any]) -> Rule:
    """An option that says nothing without another."""
    what, advice = f"has no effect without {other.name}", f"give {other.name}, or drop {option.name}"
    return Rule(option, lambda given: given.gave(option) and not given.gave(other), what, advice)


def _at_most(option: Option[int], limit: Option[int]) -> Rule:
    """A number that another bounds."""

    def is_above(given: Given) -> bool:
        number, largest = given.maybe(option), given.maybe(limit)
        return number is not None and largest is not None and number > largest

    return Rule(option, is_above, f"above {limit.name}", f"lower {option.name} or raise {limit.name}")


def _only_if(option: Option[Any], condition: Test, where: str) -> Rule:
    """An option that matters in one case."""
    what, advice = f"has no effect without {where}", f"set {where}, or drop {option.name}"
    return Rule(option, lambda given: given.gave(option) and not condition(given), what, advice)


def _strategy(*names: str) -> Test:
    """Whether one of these strategies is in use, as such or inside a room."""

    def is_used(given: Given) -> bool:
        strategy = given.get(batches.STRATEGY)
        return strategy.outer in names or strategy.inner in names

    return is_used


def _required_by(option: Option[Any], strategy: str, advice: str) -> Rule:
    """What a strategy cannot do without."""
    uses = _strategy(strategy)
    what = f"required by allocateMessageQueueStrategy={strategy}"
    return Rule(option, lambda given: uses(given) and not given.gave(option), what, advice, "OPTION_MISSING")


def _not_latest(option: Option[Any], is_latest: Callable[[Any], bool]) -> Rule:
    """In a batch read starting at the end would read nothing."""

    def is_broken(given: Given) -> bool:
        return given.use == "B" and is_latest(given.maybe(option))

    advice = "give earliest, offsets or a time"
    return Rule(option, is_broken, "latest, in a batch read, reads nothing", advice, "OPTION_VALUE")


# --- conditions -------------------------------------------------------------------------------------------------------


def _uses(wished: Any, keyword: Keyword) -> bool:
    return wished is keyword or (isinstance(wished, QueueTree) and wished.uses(keyword))


def _starts_at_group(given: Given) -> bool:
    return _uses(given.maybe(offsets.STARTING_OFFSETS), Keyword.GROUP)


def _asks_no_group(given: Given) -> bool:
    return _starts_at_group(given) and not given.gave(groups.CONSUMER_GROUP)


def _starts_at_time(given: Given) -> bool:
    return given.gave(offsets.STARTING_TIMESTAMP) or given.gave(offsets.STARTING_TIMES)


def _is_orderly(given: Given) -> bool:
    return given.get(batches.ORDERING)


def _starts_at_no_file(given: Given) -> bool:
    return _starts_at_group(given) and broadcasts(given) and not given.gave(groups.LOCAL_STORE)


def _commits_nowhere(given: Given) -> bool:
    return given.maybe(groups.COMMIT_OFFSETS) is True and broadcasts(given) and not given.gave(groups.LOCAL_STORE)


def _locks_out_of_order(given: Given) -> bool:
    return given.maybe(groups.LOCK_QUEUES) is True and not _is_orderly(given)


def _locks_as_nobody(given: Given) -> bool:
    return given.maybe(groups.LOCK_QUEUES) is True and not given.gave(groups.CONSUMER_GROUP)


def _locks_as_tool(given: Given) -> bool:
    return given.maybe(groups.LOCK_QUEUES) is True and given.maybe(groups.CONSUMER_GROUP) == READER_GROUP


def _renews_too_late(given: Given) -> bool:
    said = given.gave(groups.LOCK_INTERVAL) or given.gave(groups.LOCK_LIFETIME)
    return said and given.get(groups.LOCK_INTERVAL) >= given.get(groups.LOCK_LIFETIME)


def _bears_a_name(given: Given) -> bool:
    return broadcasts(given) or locks(given) or shares(given)


def _not_shared(option: Option[Any], is_given: Test, why: str) -> Rule:
    """What a member of a group cannot have its way in."""
    what = f"not together with groupMembership=shared: {why}"
    return Rule(option, lambda given: shares(given) and is_given(given), what, "drop one of the two")


def _gave(option: Option[Any]) -> Test:
    return lambda given: given.gave(option)


def _starts_elsewhere(given: Given) -> bool:
    return given.maybe(offsets.STARTING_OFFSETS) not in (None, Keyword.GROUP)


def _names_no_client(option: Option[str]) -> Rule:
    """A read that bears no client id; writes are another matter, so nothing is said before the use is known."""
    what = "has no effect: nothing of this read bears a client id"
    advice = f"set groupMembership=shared, lockQueues=true or messageModel=BROADCASTING, or drop {option.name}"
    return Rule(
        option,
        lambda given: given.use in ("S", "B") and given.gave(option) and not _bears_a_name(given),
        what,
        advice,
    )


def _commits_as_nobody(given: Given) -> bool:
    return given.maybe(groups.COMMIT_OFFSETS) is True and not given.gave(groups.CONSUMER_GROUP)


def _commits_as_tool(given: Given) -> bool:
    return given.maybe(groups.COMMIT_OFFSETS) is True and given.maybe(groups.CONSUMER_GROUP) == READER_GROUP


def _retries_as_nobody(given: Given) -> bool:
    return given.maybe(selection.READ_RETRY_TOPIC) is True and not given.gave(groups.CONSUMER_GROUP)


def _retries_as_tool(given: Given) -> bool:
    return given.maybe(selection.READ_RETRY_TOPIC) is True and given.maybe(groups.CONSUMER_GROUP) == READER_GROUP


def _gives_up_before_its_pulls(given: Given) -> bool:
    said = given.gave(pulling.POLL_TIMEOUT) or given.gave(pulling.PULL_TIMEOUT)
    return said and given.get(pulling.POLL_TIMEOUT) <= given.get(pulling.PULL_TIMEOUT)


def _formats_no_properties(given: Given) -> bool:
    return given.gave(rows.PROPERTIES_FORMAT) and "properties" not in chosen_columns(given)


def _adds_headers_to_rocketmq(given: Given) -> bool:
    return given.gave(rows.INCLUDE_HEADERS) and given.get(rows.ROW_LAYOUT).value == "rocketmq"


def _has_none(option: Option[Any]) -> Test:
    return lambda given: not given.gave(option)


def _not_orderly(option: Option[Any], why: str) -> Rule:
    what = f"not together with ordering=queue: {why}"
    return Rule(option, lambda given: given.gave(option) and _is_orderly(given), what, "drop one of the two")


# --- the rules --------------------------------------------------------------------------------------------------------

_ONE_OF_THREE = "give exactly one of subscribe, subscribePattern and assign"
_NEVER_SPLIT = "queues are never split then"
_TLS = (
    security.TRUST_CERT_PATH,
    security.TRUST_CERT,
    security.CLIENT_CERT_PATH,
    security.CLIENT_KEY_PATH,
    security.CLIENT_KEY_PASSWORD,
    security.VERIFY_SERVER,
)

RULES: tuple[Rule, ...] = (
    Rule(
        connection.NAME_SERVER,
        _has_none(connection.NAME_SERVER),
        "not given",
        "give nameServer (host:9876), or set NAMESRV_ADDR in the driver's environment",
        "OPTION_MISSING",
    ),
    _not_with(selection.SUBSCRIBE, selection.SUBSCRIBE_PATTERN, _ONE_OF_THREE),
    _not_with(selection.SUBSCRIBE, selection.ASSIGN, _ONE_OF_THREE),
    _not_with(selection.SUBSCRIBE_PATTERN, selection.ASSIGN, _ONE_OF_THREE),
    _not_with(selection.SQL_FILTER, selection.TAGS, "drop one of the two: a subscription is either"),
    Rule(
        selection.READ_RETRY_TOPIC,
        _retries_as_nobody,
        "not without consumerGroup, whose retries are meant",
        "give the consumerGroup that rows are sent back for",
        "OPTION_MISSING",
    ),
    Rule(
        groups.CONSUMER_GROUP,
        _retries_as_tool,
        "not together with readRetryTopic: nothing is sent back for the tools group",
        "give a group of its own, or drop readRetryTopic",
    ),
    Rule(
        offsets.STARTING_OFFSETS,
        _asks_no_group,
        "has no effect without consumerGroup, whose positions are meant",
        "give consumerGroup, or start elsewhere",
    ),
    _not_latest(offsets.STARTING_OFFSETS, lambda wished: _uses(wished, Keyword.LATEST)),
    _not_latest(offsets.STARTING_OFFSETS_DEFAULT, lambda wished: wished is Keyword.LATEST),
    _not_latest(offsets.STARTING_STRATEGY, lambda wished: wished is Keyword.LATEST),
    _not_with(
        offsets.STARTING_OFFSETS_DEFAULT,
        offsets.STARTING_TIMESTAMP,
        "drop startingOffsetsDefault: it would never be reached",
    ),
    _only_if(offsets.STARTING_STRATEGY, _starts_at_time, "startingTimestamp or startingOffsetsByTimestamp"),
    _at_most(batches.MIN_OFFSETS, batches.MAX_OFFSETS),
    _needs(batches.MAX_DELAY, batches.MIN_OFFSETS),
    _required_by(batches.QUEUE_LISTS, "CONFIG", "list the queues of each task"),
    _required_by(batches.MACHINE_ROOMS, "MACHINE_ROOM", "list the rooms to read"),
    _only_if(batches.VIRTUAL_NODES, _strategy("CONSISTENT_HASH"), "allocateMessageQueueStrategy=CONSISTENT_HASH"),
    _only_if(batches.QUEUE_LISTS, _strategy("CONFIG"), "allocateMessageQueueStrategy=CONFIG"),
    _only_if(
        batches.MACHINE_ROOMS,
        _strategy("MACHINE_ROOM", "MACHINE_ROOM_NEARBY"),
        "allocateMessageQueueStrategy=MACHINE_ROOM or MACHINE_ROOM_NEARBY",
    ),
    _only_if(
        batches.BROKER_ROOMS, _strategy("MACHINE_ROOM_NEARBY"), "allocateMessageQueueStrategy=MACHINE_ROOM_NEARBY"
    ),
    Rule(
        batches.MAX_PARTITIONS,
        lambda given: given.gave(batches.MAX_PARTITIONS) and _strategy("CONFIG")(given),
        "not together with allocateMessageQueueStrategy=CONFIG: its entries are the slots",
        "drop maxPartitions",
    ),
    _at_most(batches.MIN_PARTITIONS, batches.MAX_PARTITIONS),
    _not_orderly(batches.MIN_PARTITIONS, _NEVER_SPLIT),
    _not_orderly(batches.MAX_RECORDS, _NEVER_SPLIT),
    _not_orderly(pulling.MAX_SPAN, "orderly reads do not check the span"),
    Rule(
        groups.COMMIT_OFFSETS,
        _commits_as_nobody,
        "has no effect without consumerGroup",
        "give consumerGroup, or drop commitOffsets",
    ),
    Rule(
        groups.CONSUMER_GROUP,
        _commits_as_tool,
        "not together with commitOffsets=batch: the tools group has no positions",
        "give a group of its own, or drop commitOffsets",
    ),
    _only_if(groups.COMMIT_INTERVAL, commits, "commitOffsets=batch and a consumerGroup"),
    _only_if(groups.LOCAL_STORE, broadcasts, "messageModel=BROADCASTING"),
    _needs(groups.LOCAL_STORE, groups.CONSUMER_GROUP),
    Rule(
        offsets.STARTING_OFFSETS,
        _starts_at_no_file,
        "with messageModel=BROADCASTING the group's positions are in a file, and localOffsetStoreDir is not given",
        "give localOffsetStoreDir, or start elsewhere",
    ),
    Rule(
        groups.COMMIT_OFFSETS,
        _commits_nowhere,
        "with messageModel=BROADCASTING nothing is committed without localOffsetStoreDir",
        "give localOffsetStoreDir, or drop commitOffsets",
    ),
    Rule(
        groups.MESSAGE_MODEL,
        lambda given: broadcasts(given) and given.maybe(selection.READ_RETRY_TOPIC) is True,
        "not together with readRetryTopic: nothing is sent back where every member reads everything",
        "drop one of the two",
    ),
    Rule(
        groups.MESSAGE_MODEL,
        lambda given: broadcasts(given) and given.maybe(groups.LOCK_QUEUES) is True,
        "not together with lockQueues: every member reads every queue",
        "drop one of the two",
    ),
    Rule(
        groups.LOCK_QUEUES,
        _locks_out_of_order,
        "has no effect without ordering=queue",
        "set ordering=queue, or drop lockQueues",
    ),
    Rule(
        groups.LOCK_QUEUES,
        _locks_as_nobody,
        "has no effect without consumerGroup, which locks are taken for",
        "give consumerGroup, or drop lockQueues",
    ),
    Rule(
        groups.CONSUMER_GROUP,
        _locks_as_tool,
        "not together with lockQueues: everybody is of the tools group",
        "give a group of its own, or drop lockQueues",
    ),
    _only_if(groups.LOCK_INTERVAL, locks, "lockQueues=true"),
    _only_if(groups.LOCK_LIFETIME, locks, "lockQueues=true"),
    Rule(
        groups.LOCK_INTERVAL,
        _renews_too_late,
        "not below lockMaxLiveTime",
        "lower lockInterval or raise lockMaxLiveTime",
    ),
    _only_if(groups.REBALANCE_INTERVAL, shares, "groupMembership=shared"),
    _only_if(connection.HEARTBEAT_INTERVAL, shares, "groupMembership=shared: nothing is registered, no heartbeat sent"),
    Rule(
        groups.CONSUMER_GROUP,
        lambda given: shares(given) and given.maybe(groups.CONSUMER_GROUP) in (None, READER_GROUP),
        "not given, or the tools group, which has no members, with groupMembership=shared",
        "give the group to be a member of",
    ),
    _not_shared(groups.MESSAGE_MODEL, broadcasts, "every member reads every queue"),
    _not_shared(selection.ASSIGN, _gave(selection.ASSIGN), "the group decides on queues"),
    _not_shared(
        selection.SUBSCRIBE_PATTERN, _gave(selection.SUBSCRIBE_PATTERN), "all members subscribe the same topics"
    ),
    _not_shared(
        groups.COMMIT_OFFSETS,
        lambda given: given.maybe(groups.COMMIT_OFFSETS) is False,
        "the next owner of a queue goes on from what was committed",
    ),
    _not_shared(
        selection.READ_RETRY_TOPIC,
        lambda given: given.maybe(selection.READ_RETRY_TOPIC) is False,
        "members get what the group sent back, and nobody else would read it",
    ),
    _not_shared(offsets.STARTING_OFFSETS, _starts_elsewhere, "a member begins where the group stands"),
    *(
        _not_shared(option, _gave(option), "a member begins where the group stands")
        for option in (offsets.STARTING_TIMESTAMP, offsets.STARTING_TIMES)
    ),
    Rule(
        batches.QUEUE_LISTS,
        lambda given: shares(given) and len(given.maybe(batches.QUEUE_LISTS) or ()) > 1,
        "more than one entry with groupMembership=shared, where it is this member's own list",
        "give one entry",
    ),
    Rule(
        batches.STRATEGY,
        lambda given: shares(given) and _strategy("MACHINE_ROOM_NEARBY")(given),
        "not together with groupMembership=shared: it needs consumerRooms, which is planned, not built",
        "take another strategy",
    ),
    _names_no_client(connection.INSTANCE_NAME),
    _names_no_client(connection.UNIT_NAME),
    Rule(
        pulling.POLL_TIMEOUT,
        _gives_up_before_its_pulls,
        "must exceed pullTimeoutMs",
        "raise pollTimeoutMs or lower pullTimeoutMs",
    ),
    Rule(
        rows.INCLUDE_HEADERS,
        _adds_headers_to_rocketmq,
        "not for rowLayout=rocketmq: properties is already there",
        "drop includeHeaders, or set rowLayout=kafka",
        "OPTION_SCOPE",
    ),
    Rule(
        rows.PROPERTIES_FORMAT,
        _formats_no_properties,
        "has no effect without properties among the columns",
        "drop propertiesFormat, or add properties to columns",
    ),
    _needs(security.ACCESS_KEY, security.SECRET_KEY),
    _needs(security.SECRET_KEY, security.ACCESS_KEY),
    _needs(security.SECURITY_TOKEN, security.ACCESS_KEY),
    *(
        _not_with(security.CREDENTIALS_FILE, option, "drop one of the two: the file holds keys and token")
        for option in (security.ACCESS_KEY, security.SECRET_KEY, security.SECURITY_TOKEN)
    ),
    *(_only_if(option, lambda given: given.get(security.USE_TLS), "useTLS=true") for option in _TLS),
    _not_with(security.TRUST_CERT_PATH, security.TRUST_CERT, "drop one of the two"),
    _needs(security.CLIENT_CERT_PATH, security.CLIENT_KEY_PATH),
    _needs(security.CLIENT_KEY_PATH, security.CLIENT_CERT_PATH),
    _needs(security.CLIENT_KEY_PASSWORD, security.CLIENT_KEY_PATH),
)
