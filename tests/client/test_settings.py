"""Settings accept values in RocketMQ's ranges and refuse all others."""

from __future__ import annotations

from typing import Any

import pytest

from pyspark_rocketmq.client.settings import ConsumerSettings, ProducerSettings
from pyspark_rocketmq.errors import OptionError
from pyspark_rocketmq.pull.process_queue import FlowLimits
from pyspark_rocketmq.pull.settings import Subscription

ANY = {"orders": Subscription()}


def _consumer(**given: Any) -> ConsumerSettings:
    return ConsumerSettings(**{"group": "g", "subscriptions": ANY, **given})


def test_defaults_are_those_of_the_java_consumer() -> None:
    """The defaults are those of the Java consumer."""
    settings = _consumer()

    assert (settings.thread_count, settings.batch_size, settings.pull_batch_size) == (20, 1, 32)
    assert settings.limits == FlowLimits(1000, 100, 2000)
    assert (settings.consume_timeout_s, settings.suspend_s, settings.await_termination_s) == (900, 1, 0)
    assert (settings.most_retries(16), _consumer(max_reconsume_times=3).most_retries(16)) == (16, 3)


@pytest.mark.parametrize(
    "given",
    [
        {"thread_count": 0},
        {"thread_count": 1001},
        {"batch_size": 1025},
        {"pull_batch_size": 0},
        {"pull_interval_s": 66},
        {"limits": FlowLimits(message_count=65536)},
        {"limits": FlowLimits(body_mib=1025)},
        {"limits": FlowLimits(span=0)},
        {"topic_message_count": 6553501},
        {"topic_body_mib": 0},
        {"max_reconsume_times": -2},
    ],
    ids=str,
)
def test_numbers_out_of_range_are_refused(given: dict[str, Any]) -> None:
    """A number outside RocketMQ's range raises an error that names the range."""
    with pytest.raises(OptionError, match="out of range; give"):
        _consumer(**given)


@pytest.mark.parametrize("group", ["", " ", "with space", "a" * 121, "DEFAULT_CONSUMER", "ü"])
def test_names_no_broker_takes_are_refused(group: str) -> None:
    """If brokers would refuse a group's name, making the settings raises an error."""
    for make in (_consumer, ProducerSettings):
        with pytest.raises(OptionError) as refused:
            make(group=group)
        assert refused.value.option == "group"


@pytest.mark.parametrize("topic", ["", "a topic", "t" * 128, "%RETRY%" + "t" * 249])
def test_topics_no_broker_takes_are_refused(topic: str) -> None:
    """If brokers would refuse a topic's name, making the settings raises an error."""
    with pytest.raises(OptionError) as refused:
        _consumer(subscriptions={topic: Subscription()})
    assert refused.value.option == "subscriptions"


@pytest.mark.parametrize("group", ["g", "%RETRY%g", "a-b_c|1", "x" * 120])
def test_names_brokers_take_are_accepted(group: str) -> None:
    """Group names with any allowed character, and of the greatest length, are accepted."""
    assert _consumer(group=group).group == group


@pytest.mark.parametrize("topic", ["t" * 127, "%RETRY%" + "t" * 248, "%DLQ%NS%" + "g" * 120])
def test_topics_brokers_have_are_accepted(topic: str) -> None:
    """Names of the greatest length are accepted; topics that brokers create for groups may have 255 characters."""
    assert topic in _consumer(subscriptions=topic).wanted
