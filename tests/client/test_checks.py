"""Test the ends of the ranges of messages, and conversions of what users give."""

from __future__ import annotations

from typing import Any

import pytest

from pyspark_rocketmq.client.checks import check_message, to_cluster_settings, to_subscription
from pyspark_rocketmq.cluster.settings import ClusterSettings
from pyspark_rocketmq.errors import OptionError
from pyspark_rocketmq.model import Address, Message
from pyspark_rocketmq.pull.settings import Subscription


@pytest.mark.parametrize(("field", "least"), [("flag", -(2**31)), ("delay_level", 0)])
def test_numbers_of_messages_fit_into_31_bits(field: str, least: int) -> None:
    """A flag may have any 32 bits, a delay level none below 0."""
    for value in (least, 2**31 - 1):
        check_message(Message("orders", b"", **{field: value}))  # type: ignore[arg-type]
    for value in (least - 1, 2**31):
        with pytest.raises(OptionError, match=f"message.{field}.*out of range"):
            check_message(Message("orders", b"", **{field: value}))  # type: ignore[arg-type]


def test_a_message_has_a_level_or_a_time() -> None:
    """A message with a delay level and a delivery time is refused."""
    with pytest.raises(OptionError, match=r"message\.deliver_at_ms = '5': given with delay_level"):
        check_message(Message("orders", b"x", delay_level=1, deliver_at_ms=5))


@pytest.mark.parametrize("given", [Subscription(3), Subscription(None), 3])  # type: ignore[arg-type]
def test_an_expression_is_text(given: Any) -> None:
    """A filter expression that is no text is refused with the parameter's name."""
    with pytest.raises(OptionError, match="wanted"):
        to_subscription("wanted", given)


def test_subscriptions_stay_and_text_is_a_tag_expression() -> None:
    """A `Subscription` is returned unchanged; a text becomes one."""
    sql = Subscription("a > 1", "SQL92")
    assert to_subscription("wanted", sql) is sql
    assert to_subscription("wanted", "paid || sent") == Subscription("paid || sent", "TAG")


def test_name_servers_may_be_text() -> None:
    """The cluster, or the name servers in its settings, may be given as text with several addresses."""
    wanted = (Address("a", 1), Address("b", 2))
    assert to_cluster_settings("a:1;b:2") == ClusterSettings(wanted)
    as_text: Any = "a:1;b:2"
    assert to_cluster_settings(ClusterSettings(as_text)) == ClusterSettings(wanted)
    kept = ClusterSettings(wanted)
    assert to_cluster_settings(kept) is kept
