"""Decide which messages a subscription matches.

A filter is asked twice: for the tag code in the consume queue, then, if it needs them, for the message's properties.
Held pulls ask the same of each new message. None stands for a filter that matches everything.

Tags are compared by their 32-bit hash alone; clients compare the text again. SQL92 from a heartbeat is compiled once
per topic and group (`FilterTable`). SQL92 from a pull that does not compile, and any unknown kind of expression,
matches everything.
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
    """Matches messages whose tag has one of these hash codes; a message without tag has code 0."""

    codes: frozenset[int]

    @property
    def reads_properties(self) -> bool:
        """False: the tag code decides alone."""
        return False

    def matches_code(self, tag_code: int) -> bool:
        """Return whether the code's lower 32 bits, read as signed, are a wanted tag's."""
        return ((tag_code + 2**31) & 0xFFFFFFFF) - 2**31 in self.codes

    def matches_properties(self, properties: Mapping[str, str]) -> bool:
        """Return True: the tag code has decided."""
        return True


@dataclass(frozen=True, slots=True)
class PropertyFilter:
    """Matches messages whose properties make an expression true."""

    sql: SqlFilter

    @property
    def reads_properties(self) -> bool:
        """True: the tag code decides nothing."""
        return True

    def matches_code(self, tag_code: int) -> bool:
        """Return True: only the properties decide."""
        return True

    def matches_properties(self, properties: Mapping[str, str]) -> bool:
        """Return whether the expression is true; null and errors are not."""
        return self.sql.matches(properties)


@dataclass(frozen=True, slots=True)
class CompiledExpression:
    """A compiled expression of a group's heartbeats, with its version."""

    client_version: int
    sql: SqlFilter


class FilterTable:
    """The compiled expressions of a broker's groups."""

    def __init__(self) -> None:
        self._filters: dict[tuple[str, str], CompiledExpression] = {}

    def find(self, topic: str, group: str) -> CompiledExpression | None:
        """Return a group's expression for a topic; None if it has none, or if the last one does not compile."""
        return self._filters.get((topic, group))

    def register(self, group: str, subscriptions: Iterable[SubscriptionData]) -> None:
        """Store a heartbeat's expressions; one that is no newer than the stored one has no effect."""
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
    """Return whether an expression is a list of tags, which is the default type."""
    return not expression_type or expression_type == TAG


def maybe_compile(expression: str, expression_type: str) -> SqlFilter | None:
    """Return the compiled expression; None if it is not SQL92 or does not compile."""
    try:
        return compile_sql(expression) if expression_type == SQL92 else None
    except SqlSyntaxError:
        return None


def make_filter(subscription: SubscriptionData, sql: SqlFilter | None = None) -> MessageFilter | None:
    """Return the filter of a subscription whose expression compiles to `sql`."""
    if subscription.class_filter_mode:
        return None
    if is_tag_type(subscription.expression_type):
        return None if subscription.sub_string == ALL else TagFilter(frozenset(subscription.code_set))
    return PropertyFilter(sql) if sql else None


def matches(message_filter: MessageFilter | None, tag_code: int | None, properties: Mapping[str, str] | None) -> bool:
    """Return whether a filter may match a message; None stands for an unknown code or unknown properties."""
    if message_filter is None:
        return True
    if tag_code is not None and not message_filter.matches_code(tag_code):
        return False
    return properties is None or not message_filter.reads_properties or message_filter.matches_properties(properties)
