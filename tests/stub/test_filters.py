"""Tests of `broker_stub.filters`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker_stub.filters import FilterTable, make_filter, matches, maybe_compile
from pyspark_rocketmq.wire.bodies import SubscriptionData, build_subscription
from pyspark_rocketmq.wire.properties import java_hash


def sql(expression: str, version: int = 1, topic: str = "T") -> SubscriptionData:
    """Return a SQL92 subscription with this expression and version."""
    return build_subscription(topic, expression, expression_type="SQL92", sub_version=version)


@pytest.mark.parametrize(
    ("expression", "tag", "wanted"),
    [
        ("*", "TagA", True),
        ("", "TagA", True),
        ("TagA || TagB", "TagB", True),
        ("TagA||TagB", "TagC", False),
        ("TagA || *", "TagC", False),
        ("TagA || *", "*", True),
        (" || ", "TagA", False),
        (" || ", "", False),
        ("Aa", "BB", True),
    ],
)
def test_tags_are_compared_by_hash(expression: str, tag: str, wanted: bool) -> None:
    """A star matches all tags, a list matches its tags and any tag with the same hash, blanks match nothing."""
    tag_filter = make_filter(build_subscription("T", expression))
    assert matches(tag_filter, java_hash(tag), {}) is wanted


def test_the_lower_half_of_a_tag_code_decides() -> None:
    """Only the lower 32 bits of a tag code count, as a signed number.

    Delay queues keep due times in the code.
    """
    tag_filter = make_filter(build_subscription("T", "order-created"))
    assert matches(tag_filter, -392709271, None)
    assert matches(tag_filter, (7 << 32) + 0xE897BB69, None)
    assert not matches(tag_filter, 392709271, None)


def test_what_is_unknown_may_match() -> None:
    """If tag code and properties are unknown, as in the check of held pulls, every filter matches."""
    tag_filter = make_filter(build_subscription("T", "TagA"))
    property_filter = make_filter(sql("a = 1"), maybe_compile("a = 1", "SQL92"))
    assert matches(tag_filter, None, None) and matches(property_filter, None, None)


def test_a_subscription_by_class_takes_everything() -> None:
    """A subscription in the obsolete class filter mode matches every message."""
    assert make_filter(SubscriptionData(topic="T", sub_string="A", class_filter_mode=True)) is None


def test_a_tag_filter_ignores_properties() -> None:
    """A tag filter decides by the tag code alone, whatever the properties are."""
    tag_filter = make_filter(build_subscription("T", "TagA"))
    assert tag_filter and not tag_filter.reads_properties and tag_filter.matches_properties({})


def test_sql_reads_the_properties() -> None:
    """A SQL92 filter accepts every tag code and decides by the properties."""
    property_filter = make_filter(sql("a > 5"), maybe_compile("a > 5", "SQL92"))
    assert property_filter is not None and property_filter.reads_properties
    assert matches(property_filter, java_hash("any"), {"a": "6"})
    assert not matches(property_filter, java_hash("any"), {"a": "5"})


@pytest.mark.parametrize(("expression", "kind"), [("a > > 5", "SQL92"), ("a = 1", "SQL93")])
def test_what_does_not_compile_takes_everything(expression: str, kind: str) -> None:
    """A pull whose expression does not compile, or is of an unknown kind, gets every message, as from a real broker."""
    assert maybe_compile(expression, kind) is None
    subscription = build_subscription("T", expression, expression_type=kind)
    assert make_filter(subscription, maybe_compile(expression, kind)) is None


def test_a_heartbeats_expression_is_kept_by_version() -> None:
    """A newer version of a group's expression replaces the stored one; an older or equal version does not."""
    table = FilterTable()
    table.register("g", [sql("a = 1", version=5)])
    table.register("g", [sql("a = 2", version=5), sql("a = 3", version=4)])
    found = table.find("T", "g")
    assert found and (found.sql.matches({"a": "1"}), found.client_version) == (True, 5)
    table.register("g", [sql("a = 4", version=6)])
    found = table.find("T", "g")
    assert found and (found.sql.matches({"a": "4"}), found.client_version) == (True, 6)


def test_a_newer_expression_with_a_fault_removes_the_old_one() -> None:
    """If a newer expression does not compile, the group has no compiled expression afterwards."""
    table = FilterTable()
    table.register("g", [sql("a = 1", version=1)])
    table.register("g", [sql("a = = 1", version=2)])
    assert table.find("T", "g") is None


def test_tag_subscriptions_need_no_filter_data() -> None:
    """Only expressions that are neither tags nor empty are compiled and stored."""
    table = FilterTable()
    table.register("g", [build_subscription("T", "TagA"), replace(sql("a = 1", topic="U"), sub_string="")])
    assert table.find("T", "g") is None and table.find("U", "g") is None
