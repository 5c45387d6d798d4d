"""List and check the rules about combinations of options: conflicts, and options that need another one."""

from __future__ import annotations

from ..cluster.names import READER_GROUP
from ..offsets.requested import Keyword
from .build import broadcasts, chosen_columns, commits, largest_body, locks, shares
from .given import GivenOptions
from .rules import (
    Rule,
    at_most,
    both,
    for_tools_group,
    gave,
    is_orderly,
    lacks,
    names_client,
    needs,
    not_latest,
    not_orderly,
    not_shared,
    not_with,
    only_if,
    required_by,
    says,
    starts_at_group,
    uses_strategy,
    without_group,
)
from .table import addressing, batching, grouping, pulling, row_format, security, selection, start_and_stop, writing
from .writer_options import BadRows, QueueChoice

__all__ = ["RULES", "check_rules"]


def check_rules(given: GivenOptions) -> None:
    """Raise the error of the first rule that the given options break."""
    for rule in RULES:
        if rule.is_broken(given):
            raise given.refuse(rule.option, rule.what, advice=rule.advice, code=rule.code)


# --- tests ------------------------------------------------------------------------------------------------------------


def _gives_up_before_its_pulls(given: GivenOptions) -> bool:
    is_given = given.gave(pulling.POLL_TIMEOUT) or given.gave(pulling.PULL_TIMEOUT)
    return is_given and given.get(pulling.POLL_TIMEOUT) <= given.get(pulling.PULL_TIMEOUT)


def _renews_too_late(given: GivenOptions) -> bool:
    is_given = given.gave(grouping.LOCK_INTERVAL) or given.gave(grouping.LOCK_LIFETIME)
    return is_given and given.get(grouping.LOCK_INTERVAL) >= given.get(grouping.LOCK_LIFETIME)


def _formats_no_properties(given: GivenOptions) -> bool:
    return given.gave(row_format.PROPERTIES_FORMAT) and "properties" not in chosen_columns(given)


def _adds_headers_to_rocketmq(given: GivenOptions) -> bool:
    return given.gave(row_format.INCLUDE_HEADERS) and given.get(row_format.ROW_LAYOUT).value == "rocketmq"


def _starts_elsewhere(given: GivenOptions) -> bool:
    return given.maybe(start_and_stop.STARTING_OFFSETS) not in (None, Keyword.GROUP)


def _sends_more_than_a_frame(given: GivenOptions) -> bool:
    return given.gave(writing.MAX_MESSAGE_SIZE) and given.get(writing.MAX_MESSAGE_SIZE) > largest_body(given)


def _has_one_topic_for_all(given: GivenOptions) -> bool:
    topic = given.maybe(writing.TOPIC)
    return topic is not None and topic == given.maybe(writing.DEAD_LETTER_TOPIC)


_commits = says(grouping.COMMIT_OFFSETS, True)
_locks = says(grouping.LOCK_QUEUES, True)
_reads_retries = says(selection.READ_RETRY_TOPIC, True)
_has_no_file = both(broadcasts, lacks(grouping.LOCAL_STORE))
_divides_by_rooms = both(shares, uses_strategy("MACHINE_ROOM_NEARBY"))

# --- the rules --------------------------------------------------------------------------------------------------------

_ONE_OF_THREE = "give exactly one of subscribe, subscribePattern and assign"
_DROP_ONE = "drop one of the two"
_NEVER_SPLIT = "queues are never split then"
_AT_GROUP = "a member begins where the group stands"
_STRATEGY = "allocateMessageQueueStrategy"
_TLS = (
    security.TRUST_CERT_PATH,
    security.TRUST_CERT,
    security.CLIENT_CERT_PATH,
    security.CLIENT_KEY_PATH,
    security.CLIENT_KEY_PASSWORD,
    security.VERIFY_SERVER,
)

_READING: tuple[Rule, ...] = (
    Rule(
        addressing.NAME_SERVER,
        lacks(addressing.NAME_SERVER),
        "not given",
        "give nameServer (host:9876), or set NAMESRV_ADDR in the driver's environment",
        "OPTION_MISSING",
    ),
    not_with(selection.SUBSCRIBE, selection.SUBSCRIBE_PATTERN, _ONE_OF_THREE),
    not_with(selection.SUBSCRIBE, selection.ASSIGN, _ONE_OF_THREE),
    not_with(selection.SUBSCRIBE_PATTERN, selection.ASSIGN, _ONE_OF_THREE),
    not_with(selection.SQL_FILTER, selection.TAGS, "drop one of the two: a subscription is either"),
    Rule(
        selection.READ_RETRY_TOPIC,
        without_group(_reads_retries),
        "not without consumerGroup, whose retries are meant",
        "give the consumerGroup that rows are sent back for",
        "OPTION_MISSING",
    ),
    Rule(
        grouping.CONSUMER_GROUP,
        for_tools_group(_reads_retries),
        "not together with readRetryTopic: nothing is sent back for the tools group",
        "give a group of its own, or drop readRetryTopic",
    ),
    Rule(
        start_and_stop.STARTING_OFFSETS,
        without_group(starts_at_group),
        "has no effect without consumerGroup, whose positions are meant",
        "give consumerGroup, or start elsewhere",
    ),
    not_latest(start_and_stop.STARTING_OFFSETS),
    not_latest(start_and_stop.STARTING_OFFSETS_DEFAULT),
    not_latest(start_and_stop.STARTING_STRATEGY),
    not_with(
        start_and_stop.STARTING_OFFSETS_DEFAULT,
        start_and_stop.STARTING_TIMESTAMP,
        "drop startingOffsetsDefault: it would never be reached",
    ),
    only_if(
        start_and_stop.STARTING_STRATEGY,
        gave(start_and_stop.STARTING_TIMESTAMP, start_and_stop.STARTING_TIMES),
        "startingTimestamp or startingOffsetsByTimestamp",
    ),
    at_most(batching.MIN_OFFSETS, batching.MAX_OFFSETS),
    needs(batching.MAX_DELAY, batching.MIN_OFFSETS),
    required_by(batching.QUEUE_LISTS, "CONFIG", "list the queues of each task"),
    required_by(batching.MACHINE_ROOMS, "MACHINE_ROOM", "list the rooms to read"),
    only_if(batching.VIRTUAL_NODES, uses_strategy("CONSISTENT_HASH"), f"{_STRATEGY}=CONSISTENT_HASH"),
    only_if(batching.QUEUE_LISTS, uses_strategy("CONFIG"), f"{_STRATEGY}=CONFIG"),
    only_if(
        batching.MACHINE_ROOMS,
        uses_strategy("MACHINE_ROOM", "MACHINE_ROOM_NEARBY"),
        f"{_STRATEGY}=MACHINE_ROOM or MACHINE_ROOM_NEARBY",
    ),
    only_if(batching.BROKER_ROOMS, uses_strategy("MACHINE_ROOM_NEARBY"), f"{_STRATEGY}=MACHINE_ROOM_NEARBY"),
    Rule(
        batching.MAX_PARTITIONS,
        both(gave(batching.MAX_PARTITIONS), uses_strategy("CONFIG")),
        f"not together with {_STRATEGY}=CONFIG: its entries are the slots",
        "drop maxPartitions",
    ),
    at_most(batching.MIN_PARTITIONS, batching.MAX_PARTITIONS),
    not_orderly(batching.MIN_PARTITIONS, _NEVER_SPLIT),
    not_orderly(batching.MAX_RECORDS, _NEVER_SPLIT),
    not_orderly(pulling.MAX_SPAN, "orderly reads do not check the span"),
)
_GROUPS: tuple[Rule, ...] = (
    Rule(
        grouping.COMMIT_OFFSETS,
        without_group(_commits),
        "has no effect without consumerGroup",
        "give consumerGroup, or drop commitOffsets",
    ),
    Rule(
        grouping.CONSUMER_GROUP,
        for_tools_group(_commits),
        "not together with commitOffsets=batch: the tools group has no positions",
        "give a group of its own, or drop commitOffsets",
    ),
    only_if(grouping.COMMIT_INTERVAL, commits, "commitOffsets=batch and a consumerGroup"),
    only_if(grouping.LOCAL_STORE, broadcasts, "messageModel=BROADCASTING"),
    needs(grouping.LOCAL_STORE, grouping.CONSUMER_GROUP),
    Rule(
        start_and_stop.STARTING_OFFSETS,
        both(starts_at_group, _has_no_file),
        "with messageModel=BROADCASTING the group's positions are in a file, and localOffsetStoreDir is not given",
        "give localOffsetStoreDir, or start elsewhere",
    ),
    Rule(
        grouping.COMMIT_OFFSETS,
        both(_commits, _has_no_file),
        "with messageModel=BROADCASTING nothing is committed without localOffsetStoreDir",
        "give localOffsetStoreDir, or drop commitOffsets",
    ),
    Rule(
        grouping.MESSAGE_MODEL,
        both(broadcasts, _reads_retries),
        "not together with readRetryTopic: nothing is sent back where every member reads everything",
        _DROP_ONE,
    ),
    Rule(
        grouping.MESSAGE_MODEL,
        both(broadcasts, _locks),
        "not together with lockQueues: every member reads every queue",
        _DROP_ONE,
    ),
    Rule(
        grouping.LOCK_QUEUES,
        lambda given: _locks(given) and not is_orderly(given),
        "has no effect without ordering=queue",
        "set ordering=queue, or drop lockQueues",
    ),
    Rule(
        grouping.LOCK_QUEUES,
        without_group(_locks),
        "has no effect without consumerGroup, which locks are taken for",
        "give consumerGroup, or drop lockQueues",
    ),
    Rule(
        grouping.CONSUMER_GROUP,
        for_tools_group(_locks),
        "not together with lockQueues: every reader without a group is of the tools group",
        "give a group of its own, or drop lockQueues",
    ),
    only_if(grouping.LOCK_INTERVAL, locks, "lockQueues=true"),
    only_if(grouping.LOCK_LIFETIME, locks, "lockQueues=true"),
    Rule(
        grouping.LOCK_INTERVAL,
        _renews_too_late,
        "not below lockMaxLiveTime",
        "lower lockInterval or raise lockMaxLiveTime",
    ),
    only_if(grouping.REBALANCE_INTERVAL, shares, "groupMembership=shared"),
    Rule(
        addressing.HEARTBEAT_INTERVAL,
        lambda given: given.gave(addressing.HEARTBEAT_INTERVAL) and not shares(given),
        "has no effect without groupMembership=shared: nothing is registered, no heartbeat is sent",
        "set groupMembership=shared, or drop heartbeatBrokerInterval",
    ),
)
_WRITING: tuple[Rule, ...] = (
    Rule(
        writing.ON_BAD_ROW,
        both(says(writing.ON_BAD_ROW, BadRows.DEAD_LETTER), lacks(writing.DEAD_LETTER_TOPIC)),
        "not without deadLetterTopic",
        "give deadLetterTopic, or drop onBadRow",
    ),
    Rule(
        writing.DEAD_LETTER_TOPIC,
        lambda given: (
            given.use == "W"
            and given.gave(writing.DEAD_LETTER_TOPIC)
            and given.get(writing.ON_BAD_ROW) is not BadRows.DEAD_LETTER
        ),
        "has no effect without onBadRow=deadLetter",
        "set onBadRow=deadLetter, or drop deadLetterTopic",
    ),
    Rule(
        writing.DEAD_LETTER_TOPIC,
        _has_one_topic_for_all,
        "the same as topic, which cannot take these rows",
        "give another topic",
    ),
    Rule(
        writing.KEY_ORDER,
        both(says(writing.KEY_ORDER, True), says(writing.QUEUE_SELECTOR, QueueChoice.ROUND_ROBIN)),
        "not together with queueSelector=roundRobin, which ignores keys",
        _DROP_ONE,
    ),
    Rule(
        writing.MAX_MESSAGE_SIZE,
        _sends_more_than_a_frame,
        "must be 64 KiB below maxFrameSize",
        "lower maxMessageSize or raise maxFrameSize; brokers have limits of their own for both",
    ),
)
_MEMBERS: tuple[Rule, ...] = (
    Rule(
        grouping.CONSUMER_GROUP,
        lambda given: shares(given) and given.maybe(grouping.CONSUMER_GROUP) in (None, READER_GROUP),
        "not given, or the tools group, which has no members, with groupMembership=shared",
        "give the group to be a member of",
    ),
    not_shared(grouping.MESSAGE_MODEL, broadcasts, "every member reads every queue"),
    not_shared(selection.ASSIGN, gave(selection.ASSIGN), "the group decides on queues"),
    not_shared(selection.SUBSCRIBE_PATTERN, gave(selection.SUBSCRIBE_PATTERN), "all members subscribe the same topics"),
    not_shared(
        grouping.COMMIT_OFFSETS,
        says(grouping.COMMIT_OFFSETS, False),
        "the next owner of a queue goes on from what was committed",
    ),
    not_shared(
        selection.READ_RETRY_TOPIC,
        says(selection.READ_RETRY_TOPIC, False),
        "members get what the group sent back, and nobody else would read it",
    ),
    not_shared(start_and_stop.STARTING_OFFSETS, _starts_elsewhere, _AT_GROUP),
    not_shared(start_and_stop.STARTING_TIMESTAMP, gave(start_and_stop.STARTING_TIMESTAMP), _AT_GROUP),
    not_shared(start_and_stop.STARTING_TIMES, gave(start_and_stop.STARTING_TIMES), _AT_GROUP),
    Rule(
        batching.QUEUE_LISTS,
        lambda given: shares(given) and len(given.maybe(batching.QUEUE_LISTS) or ()) > 1,
        "more than one entry with groupMembership=shared, where it is this member's own list",
        "give one entry",
    ),
    only_if(batching.CONSUMER_ROOMS, _divides_by_rooms, f"groupMembership=shared and {_STRATEGY}=MACHINE_ROOM_NEARBY"),
    Rule(
        batching.CONSUMER_ROOMS,
        both(_divides_by_rooms, lacks(batching.CONSUMER_ROOMS)),
        f"required by {_STRATEGY}=MACHINE_ROOM_NEARBY with groupMembership=shared",
        "say in which room each member is",
        "OPTION_MISSING",
    ),
    Rule(
        batching.MACHINE_ROOMS,
        both(_divides_by_rooms, gave(batching.MACHINE_ROOMS)),
        "not together with groupMembership=shared and MACHINE_ROOM_NEARBY: rooms are those of the members",
        "drop machineRooms, and give consumerRooms",
    ),
    names_client(addressing.INSTANCE_NAME),
    names_client(addressing.UNIT_NAME),
)
RULES: tuple[Rule, ...] = (
    *_READING,
    *_GROUPS,
    *_MEMBERS,
    *_WRITING,
    Rule(
        pulling.POLL_TIMEOUT,
        _gives_up_before_its_pulls,
        "must exceed pullTimeoutMs",
        "raise pollTimeoutMs or lower pullTimeoutMs",
    ),
    Rule(
        row_format.INCLUDE_HEADERS,
        _adds_headers_to_rocketmq,
        "not for rowLayout=rocketmq: properties is already there",
        "drop includeHeaders, or set rowLayout=kafka",
        "OPTION_SCOPE",
    ),
    Rule(
        row_format.PROPERTIES_FORMAT,
        _formats_no_properties,
        "has no effect without properties among the columns",
        "drop propertiesFormat, or add properties to columns",
    ),
    needs(security.ACCESS_KEY, security.SECRET_KEY),
    needs(security.SECRET_KEY, security.ACCESS_KEY),
    needs(security.SECURITY_TOKEN, security.ACCESS_KEY),
    *(
        not_with(security.CREDENTIALS_FILE, option, "drop one of the two: the file holds keys and token")
        for option in (security.ACCESS_KEY, security.SECRET_KEY, security.SECURITY_TOKEN)
    ),
    *(only_if(option, lambda given: given.get(security.USE_TLS), "useTLS=true") for option in _TLS),
    not_with(security.TRUST_CERT_PATH, security.TRUST_CERT, _DROP_ONE),
    needs(security.CLIENT_CERT_PATH, security.CLIENT_KEY_PATH),
    needs(security.CLIENT_KEY_PATH, security.CLIENT_CERT_PATH),
    needs(security.CLIENT_KEY_PASSWORD, security.CLIENT_KEY_PATH),
)
