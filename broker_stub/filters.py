"""Which messages does a subscription want?

A filter is asked twice: with the tag code that the consume queue holds, then, if it must know more, with the message's
properties. Held pulls ask the same questions of each new message. None stands for a filter that takes everything.

Tags are compared by their 32-bit hash alone (clients compare the text again). SQL92 that comes with a heartbeat is
compiled once per topic and group and kept (`FilterTable`); SQL92 that comes with a pull and does not compile, and any
unknown kind of expression, takes everything.
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
    """Wants messages whose tag has one of these hash codes; a message without tag has code 0."""

    codes: frozenset[int]

    @property
    def reads_properties(self) -> bool:
        """The tag code decides alone."""
        return False

    def matches_code(self, tag_code: int) -> bool:
        """Only the code's lower 32 bits count, read as signed."""
        return ((tag_code + 2**31) & 0xFFFFFFFF) - 2**31 in self.codes

    def matches_properties(self, properties: Mapping[str, str]) -> bool:
        """Nothing left to object to."""
        return True


@dataclass(frozen=True, slots=True)
class PropertyFilter:
    """Wants messages whose properties make an expression true."""

    sql: SqlFilter

    @property
    def reads_properties(self) -> bool:
        """The tag code says nothing."""
        return True

    def matches_code(self, tag_code: int) -> bool:
        """Cannot tell yet."""
        return True

    def matches_properties(self, properties: Mapping[str, str]) -> bool:
        """Null, errors and false keep nothing."""
        return self.sql.matches(properties)


@dataclass(frozen=True, slots=True)
class CompiledExpression:
    """An expression as a group's heartbeats gave it."""

    client_version: int
    sql: SqlFilter


class FilterTable:
    """The compiled expressions of a broker's groups."""

    def __init__(self) -> None:
        self._filters: dict[tuple[str, str], CompiledExpression] = {}

    def find(self, topic: str, group: str) -> CompiledExpression | None:
        """The expression by which a group reads a topic; None if none came or the last one does not compile."""
        return self._filters.get((topic, group))

    def register(self, group: str, subscriptions: Iterable[SubscriptionData]) -> None:
        """Take note of a heartbeat's expressions; an older version than the known one changes nothing."""
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
    """Whether an expression is a list of tags, as it is unless said otherwise."""
    return not expression_type or expression_type == TAG


def maybe_compile(expression: str, expression_type: str) -> SqlFilter | None:
    """The compiled expression; None if it is no SQL92 or has a fault."""
    try:
        return compile_sql(expression) if expression_type == SQL92 else None
    except SqlSyntaxError:
        return None


def make_filter(subscription: SubscriptionData, sql: SqlFilter | None = None) -> MessageFilter | None:
    """The filter of a subscription; `sql` is what its expression compiles to."""
    if subscription.class_filter_mode:
        return None
    if is_tag_type(subscription.expression_type):
        return None if subscription.sub_string == ALL else TagFilter(frozenset(subscription.code_set))
    return PropertyFilter(sql) if sql else None


def matches(wanted: MessageFilter | None, tag_code: int | None, properties: Mapping[str, str] | None) -> bool:
    """Whether a filter lets a message through; what is not known (None) speaks for the message."""
    if wanted is None:
        return True
    if tag_code is not None and not wanted.matches_code(tag_code):
        return False
    return properties is None or not wanted.reads_properties or wanted.matches_properties(properties)
