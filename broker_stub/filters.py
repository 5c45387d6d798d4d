"""Decide which messages a subscription matches.

A filter first checks the tag code in the consume queue; if that does not decide, it checks the message's properties.
Held pulls use the same filters for each new message. A filter of None matches everything.

Tags are compared by their 32-bit hash alone; clients compare the text again. A SQL92 expression in a heartbeat is
compiled once per topic and group (`FilterTable`). A pull that brings SQL92 that does not compile, or an unknown kind
of expression, gets every message.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyspark_rocketmq.wire.bodies import SubscriptionData

from .queue_scan import MessageFilter
from .sql92 import SqlFilter, SqlSyntaxError, compile_sql

ALL = "*"
TAG = "TAG"
SQL92 = "SQL92"


@dataclass(frozen=True, slots=True)
class TagFilter:
    """A filter that matches tags by their hash codes; a message without a tag has code 0."""

    codes: frozenset[int]

    @property
    def reads_properties(self) -> bool:
        """False, because a tag filter decides by the tag code alone."""
        return False

    def matches_code(self, tag_code: int) -> bool:
        """Return whether the lower 32 bits of the code, as a signed number, are one of the filter's codes."""
        return ((tag_code + 2**31) & 0xFFFFFFFF) - 2**31 in self.codes

    def matches_properties(self, properties: Mapping[str, str]) -> bool:
        """Return True for all properties, because a tag filter decides by the tag code alone."""
        return True


@dataclass(frozen=True, slots=True)
class PropertyFilter:
    """A filter that matches messages for whose properties a SQL92 expression is true."""

    sql: SqlFilter

    @property
    def reads_properties(self) -> bool:
        """True, because a SQL92 filter decides by a message's properties, not by its tag code."""
        return True

    def matches_code(self, tag_code: int) -> bool:
        """Return True for every tag code, because a SQL92 filter decides by a message's properties alone."""
        return True

    def matches_properties(self, properties: Mapping[str, str]) -> bool:
        """Return whether the expression is true for these properties; null and errors count as false."""
        return self.sql.matches(properties)


@dataclass(frozen=True, slots=True)
class CompiledExpression:
    """A compiled expression from a group's heartbeat, and the subscription version that it came with."""

    client_version: int
    sql: SqlFilter


class FilterTable:
    """The compiled expressions from heartbeats of one broker's groups."""

    def __init__(self) -> None:
        self._filters: dict[tuple[str, str], CompiledExpression] = {}

    def find(self, topic: str, group: str) -> CompiledExpression | None:
        """Return a group's compiled SQL92 filter of a topic; None if it sent none, or the latest does not compile."""
        return self._filters.get((topic, group))

    def register(self, group: str, subscriptions: Iterable[SubscriptionData]) -> None:
        """Compile and store a group's SQL92 expressions from a heartbeat; ignore those not newer than the stored ones.

        A newer expression that does not compile removes the stored one.
        """
        for subscription in subscriptions:
            if not is_tag_type(subscription.expression_type) and subscription.sub_string:
                self._register((subscription.topic, group), subscription)

    def _register(self, key: tuple[str, str], new: SubscriptionData) -> None:
        old = self._filters.get(key)
        if old and new.sub_version <= old.client_version:
            return
        sql = maybe_compile(new.sub_string, new.expression_type)
        if sql:
            self._filters[key] = CompiledExpression(new.sub_version, sql)
        else:
            self._filters.pop(key, None)


def is_tag_type(expression_type: str | None) -> bool:
    """Return whether this kind of expression is a list of tags, which is the default."""
    return not expression_type or expression_type == TAG


def maybe_compile(expression: str, expression_type: str) -> SqlFilter | None:
    """Return the compiled expression; None if its type is not SQL92, or if it does not compile."""
    try:
        return compile_sql(expression) if expression_type == SQL92 else None
    except SqlSyntaxError:
        return None


def make_filter(subscription: SubscriptionData, sql: SqlFilter | None = None) -> MessageFilter | None:
    """Return the filter of a subscription, or None if every message matches.

    `sql` is the compiled expression of a subscription that is not a list of tags; without it, every message matches.
    """
    if subscription.class_filter_mode:
        return None
    if is_tag_type(subscription.expression_type):
        return None if subscription.sub_string == ALL else TagFilter(frozenset(subscription.code_set))
    return PropertyFilter(sql) if sql else None


def matches(message_filter: MessageFilter | None, tag_code: int | None, properties: Mapping[str, str] | None) -> bool:
    """Return whether a message may match a filter; every message matches a filter of None.

    A tag code or properties of None are unknown, and count as matching.
    """
    if message_filter is None:
        return True
    if tag_code is not None and not message_filter.matches_code(tag_code):
        return False
    return properties is None or not message_filter.reads_properties or message_filter.matches_properties(properties)
