"""Which options of groups do not go together: commits, local files, locks, membership?"""

from __future__ import annotations

from typing import Any

from ..cluster.names import READER_GROUP
from ..offsets.requested import Keyword
from .build import broadcasts, commits, locks, shares
from .given import Given
from .option import Option
from .rules import (
    Rule,
    Test,
    for_nobody,
    for_tools,
    gave,
    is_orderly,
    needs,
    only_if,
    says,
    starts_at_group,
    uses_strategy,
)
from .table import batches, connection, groups, offsets, selection

__all__ = ["GROUP_RULES"]

# --- conditions -------------------------------------------------------------------------------------------------------


def _starts_at_no_file(given: Given) -> bool:
    return starts_at_group(given) and broadcasts(given) and not given.gave(groups.LOCAL_STORE)


def _commits_nowhere(given: Given) -> bool:
    return given.maybe(groups.COMMIT_OFFSETS) is True and broadcasts(given) and not given.gave(groups.LOCAL_STORE)


def _locks_out_of_order(given: Given) -> bool:
    return given.maybe(groups.LOCK_QUEUES) is True and not is_orderly(given)


def _renews_too_late(given: Given) -> bool:
    said = given.gave(groups.LOCK_INTERVAL) or given.gave(groups.LOCK_LIFETIME)
    return said and given.get(groups.LOCK_INTERVAL) >= given.get(groups.LOCK_LIFETIME)


def _bears_a_name(given: Given) -> bool:
    return broadcasts(given) or locks(given) or shares(given)


def _not_shared(option: Option[Any], is_given: Test, why: str) -> Rule:
    """What a member of a group cannot have its way in."""
    what = f"not together with groupMembership=shared: {why}"
    return Rule(option, lambda given: shares(given) and is_given(given), what, "drop one of the two")


def _divides_by_rooms(given: Given) -> bool:
    return shares(given) and uses_strategy("MACHINE_ROOM_NEARBY")(given)


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


# --- the rules --------------------------------------------------------------------------------------------------------

GROUP_RULES: tuple[Rule, ...] = (
    Rule(
        groups.COMMIT_OFFSETS,
        for_nobody(says(groups.COMMIT_OFFSETS, True)),
        "has no effect without consumerGroup",
        "give consumerGroup, or drop commitOffsets",
    ),
    Rule(
        groups.CONSUMER_GROUP,
        for_tools(says(groups.COMMIT_OFFSETS, True)),
        "not together with commitOffsets=batch: the tools group has no positions",
        "give a group of its own, or drop commitOffsets",
    ),
    only_if(groups.COMMIT_INTERVAL, commits, "commitOffsets=batch and a consumerGroup"),
    only_if(groups.LOCAL_STORE, broadcasts, "messageModel=BROADCASTING"),
    needs(groups.LOCAL_STORE, groups.CONSUMER_GROUP),
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
        for_nobody(says(groups.LOCK_QUEUES, True)),
        "has no effect without consumerGroup, which locks are taken for",
        "give consumerGroup, or drop lockQueues",
    ),
    Rule(
        groups.CONSUMER_GROUP,
        for_tools(says(groups.LOCK_QUEUES, True)),
        "not together with lockQueues: everybody is of the tools group",
        "give a group of its own, or drop lockQueues",
    ),
    only_if(groups.LOCK_INTERVAL, locks, "lockQueues=true"),
    only_if(groups.LOCK_LIFETIME, locks, "lockQueues=true"),
    Rule(
        groups.LOCK_INTERVAL,
        _renews_too_late,
        "not below lockMaxLiveTime",
        "lower lockInterval or raise lockMaxLiveTime",
    ),
    only_if(groups.REBALANCE_INTERVAL, shares, "groupMembership=shared"),
    Rule(
        connection.HEARTBEAT_INTERVAL,
        lambda given: given.gave(connection.HEARTBEAT_INTERVAL) and not shares(given),
        "has no effect without groupMembership=shared: nothing is registered, no heartbeat is sent",
        "set groupMembership=shared, or drop heartbeatBrokerInterval",
    ),
    Rule(
        groups.CONSUMER_GROUP,
        lambda given: shares(given) and given.maybe(groups.CONSUMER_GROUP) in (None, READER_GROUP),
        "not given, or the tools group, which has no members, with groupMembership=shared",
        "give the group to be a member of",
    ),
    _not_shared(groups.MESSAGE_MODEL, broadcasts, "every member reads every queue"),
    _not_shared(selection.ASSIGN, gave(selection.ASSIGN), "the group decides on queues"),
    _not_shared(
        selection.SUBSCRIBE_PATTERN, gave(selection.SUBSCRIBE_PATTERN), "all members subscribe the same topics"
    ),
    _not_shared(
        groups.COMMIT_OFFSETS,
        says(groups.COMMIT_OFFSETS, False),
        "the next owner of a queue goes on from what was committed",
    ),
    _not_shared(
        selection.READ_RETRY_TOPIC,
        says(selection.READ_RETRY_TOPIC, False),
        "members get what the group sent back, and nobody else would read it",
    ),
    _not_shared(offsets.STARTING_OFFSETS, _starts_elsewhere, "a member begins where the group stands"),
    *(
        _not_shared(option, gave(option), "a member begins where the group stands")
        for option in (offsets.STARTING_TIMESTAMP, offsets.STARTING_TIMES)
    ),
    Rule(
        batches.QUEUE_LISTS,
        lambda given: shares(given) and len(given.maybe(batches.QUEUE_LISTS) or ()) > 1,
        "more than one entry with groupMembership=shared, where it is this member's own list",
        "give one entry",
    ),
    only_if(
        batches.CONSUMER_ROOMS,
        _divides_by_rooms,
        "groupMembership=shared and allocateMessageQueueStrategy=MACHINE_ROOM_NEARBY",
    ),
    Rule(
        batches.CONSUMER_ROOMS,
        lambda given: _divides_by_rooms(given) and not given.gave(batches.CONSUMER_ROOMS),
        "required by allocateMessageQueueStrategy=MACHINE_ROOM_NEARBY with groupMembership=shared",
        "say in which room each member is",
        "OPTION_MISSING",
    ),
    Rule(
        batches.MACHINE_ROOMS,
        lambda given: _divides_by_rooms(given) and given.gave(batches.MACHINE_ROOMS),
        "not together with groupMembership=shared and MACHINE_ROOM_NEARBY: rooms are those of the members",
        "drop machineRooms, and give consumerRooms",
    ),
    _names_no_client(connection.INSTANCE_NAME),
    _names_no_client(connection.UNIT_NAME),
)
