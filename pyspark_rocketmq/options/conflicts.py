"""Which options do not go together, and which do not go alone?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..offsets.requested import Keyword
from .build import chosen_columns
from .given import Given
from .group_conflicts import GROUP_RULES
from .option import Option
from .rules import (
    Rule,
    Test,
    at_most,
    for_nobody,
    for_tools,
    is_orderly,
    needs,
    not_with,
    only_if,
    says,
    starts_at_group,
    uses_strategy,
    wishes,
)
from .table import batches, connection, groups, offsets, pulling, rows, security, selection

__all__ = ["RULES", "Rule", "check_rules"]


def check_rules(given: Given) -> None:
    """Raise the first rule that is broken."""
    for rule in RULES:
        if rule.is_broken(given):
            raise given.refuse(rule.option, rule.what, advice=rule.advice, code=rule.code)


# --- sorts of rules ---------------------------------------------------------------------------------------------------


def _required_by(option: Option[Any], strategy: str, advice: str) -> Rule:
    """What a strategy cannot do without."""
    uses = uses_strategy(strategy)
    what = f"required by allocateMessageQueueStrategy={strategy}"
    return Rule(option, lambda given: uses(given) and not given.gave(option), what, advice, "OPTION_MISSING")


def _not_latest(option: Option[Any], is_latest: Callable[[Any], bool]) -> Rule:
    """In a batch read starting at the end would read nothing."""

    def is_broken(given: Given) -> bool:
        return given.use == "B" and is_latest(given.maybe(option))

    advice = "give earliest, offsets or a time"
    return Rule(option, is_broken, "latest, in a batch read, reads nothing", advice, "OPTION_VALUE")


# --- conditions -------------------------------------------------------------------------------------------------------


def _starts_at_time(given: Given) -> bool:
    return given.gave(offsets.STARTING_TIMESTAMP) or given.gave(offsets.STARTING_TIMES)


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
    return Rule(option, lambda given: given.gave(option) and is_orderly(given), what, "drop one of the two")


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
    not_with(selection.SUBSCRIBE, selection.SUBSCRIBE_PATTERN, _ONE_OF_THREE),
    not_with(selection.SUBSCRIBE, selection.ASSIGN, _ONE_OF_THREE),
    not_with(selection.SUBSCRIBE_PATTERN, selection.ASSIGN, _ONE_OF_THREE),
    not_with(selection.SQL_FILTER, selection.TAGS, "drop one of the two: a subscription is either"),
    Rule(
        selection.READ_RETRY_TOPIC,
        for_nobody(says(selection.READ_RETRY_TOPIC, True)),
        "not without consumerGroup, whose retries are meant",
        "give the consumerGroup that rows are sent back for",
        "OPTION_MISSING",
    ),
    Rule(
        groups.CONSUMER_GROUP,
        for_tools(says(selection.READ_RETRY_TOPIC, True)),
        "not together with readRetryTopic: nothing is sent back for the tools group",
        "give a group of its own, or drop readRetryTopic",
    ),
    Rule(
        offsets.STARTING_OFFSETS,
        for_nobody(starts_at_group),
        "has no effect without consumerGroup, whose positions are meant",
        "give consumerGroup, or start elsewhere",
    ),
    _not_latest(offsets.STARTING_OFFSETS, lambda wished: wishes(wished, Keyword.LATEST)),
    _not_latest(offsets.STARTING_OFFSETS_DEFAULT, lambda wished: wished is Keyword.LATEST),
    _not_latest(offsets.STARTING_STRATEGY, lambda wished: wished is Keyword.LATEST),
    not_with(
        offsets.STARTING_OFFSETS_DEFAULT,
        offsets.STARTING_TIMESTAMP,
        "drop startingOffsetsDefault: it would never be reached",
    ),
    only_if(offsets.STARTING_STRATEGY, _starts_at_time, "startingTimestamp or startingOffsetsByTimestamp"),
    at_most(batches.MIN_OFFSETS, batches.MAX_OFFSETS),
    needs(batches.MAX_DELAY, batches.MIN_OFFSETS),
    _required_by(batches.QUEUE_LISTS, "CONFIG", "list the queues of each task"),
    _required_by(batches.MACHINE_ROOMS, "MACHINE_ROOM", "list the rooms to read"),
    only_if(batches.VIRTUAL_NODES, uses_strategy("CONSISTENT_HASH"), "allocateMessageQueueStrategy=CONSISTENT_HASH"),
    only_if(batches.QUEUE_LISTS, uses_strategy("CONFIG"), "allocateMessageQueueStrategy=CONFIG"),
    only_if(
        batches.MACHINE_ROOMS,
        uses_strategy("MACHINE_ROOM", "MACHINE_ROOM_NEARBY"),
        "allocateMessageQueueStrategy=MACHINE_ROOM or MACHINE_ROOM_NEARBY",
    ),
    only_if(
        batches.BROKER_ROOMS, uses_strategy("MACHINE_ROOM_NEARBY"), "allocateMessageQueueStrategy=MACHINE_ROOM_NEARBY"
    ),
    Rule(
        batches.MAX_PARTITIONS,
        lambda given: given.gave(batches.MAX_PARTITIONS) and uses_strategy("CONFIG")(given),
        "not together with allocateMessageQueueStrategy=CONFIG: its entries are the slots",
        "drop maxPartitions",
    ),
    at_most(batches.MIN_PARTITIONS, batches.MAX_PARTITIONS),
    _not_orderly(batches.MIN_PARTITIONS, _NEVER_SPLIT),
    _not_orderly(batches.MAX_RECORDS, _NEVER_SPLIT),
    _not_orderly(pulling.MAX_SPAN, "orderly reads do not check the span"),
    *GROUP_RULES,
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
    needs(security.ACCESS_KEY, security.SECRET_KEY),
    needs(security.SECRET_KEY, security.ACCESS_KEY),
    needs(security.SECURITY_TOKEN, security.ACCESS_KEY),
    *(
        not_with(security.CREDENTIALS_FILE, option, "drop one of the two: the file holds keys and token")
        for option in (security.ACCESS_KEY, security.SECRET_KEY, security.SECURITY_TOKEN)
    ),
    *(only_if(option, lambda given: given.get(security.USE_TLS), "useTLS=true") for option in _TLS),
    not_with(security.TRUST_CERT_PATH, security.TRUST_CERT, "drop one of the two"),
    needs(security.CLIENT_CERT_PATH, security.CLIENT_KEY_PATH),
    needs(security.CLIENT_KEY_PATH, security.CLIENT_CERT_PATH),
    needs(security.CLIENT_KEY_PASSWORD, security.CLIENT_KEY_PATH),
)
