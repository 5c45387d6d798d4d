"""Settings accept values in RocketMQ's ranges and refuse all others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyspark_rocketmq.client.settings import (
    ConsumeFrom,
    ConsumerSettings,
    MessageModel,
    ProducerSettings,
    PullConsumerSettings,
    Rhythm,
)
from pyspark_rocketmq.errors import OptionError
from pyspark_rocketmq.pull.process_queue import FlowLimits
from pyspark_rocketmq.pull.settings import Subscription
from pyspark_rocketmq.wire.compression import Compression

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
    assert (settings.pull_interval_s, settings.auto_commit, settings.post_subscription_when_pull) == (0, True, False)
    assert (settings.consume_from, settings.message_model) == (ConsumeFrom.LAST_OFFSET, MessageModel.CLUSTERING)


def test_defaults_are_those_of_the_other_java_clients() -> None:
    """The defaults of a pull consumer and of a producer are those of Java."""
    lite, producer = PullConsumerSettings(group="g"), ProducerSettings(group="g")

    assert (lite.post_subscription_when_pull, lite.auto_commit, lite.wanted) == (True, True, {})
    assert (producer.send_timeout_s, producer.retries, producer.heartbeat_s) == (3, 2, 30)
    assert (producer.compress_over_bytes, producer.max_message_bytes) == (4096, 4 * 2**20)
    assert producer.compression is Compression.ZLIB


def test_the_rhythm_is_that_of_the_java_clients() -> None:
    """Periods and pauses are Java's; `test_numbers` shows that each takes effect."""
    assert Rhythm() == Rhythm(
        heartbeat_s=30.0,
        route_s=30.0,
        rebalance_s=20.0,
        rebalance_soonest_s=1.0,
        first_persist_s=10.0,
        persist_s=5.0,
        first_lock_s=1.0,
        lock_s=20.0,
        lock_max_live_s=30.0,
        unlock_delay_s=20.0,
        pull_max_idle_s=120.0,
        dispatch_s=0.5,
        failure_pause_s=1.0,
        resubmit_s=5.0,
        longest_run_s=60.0,
        reset_pause_s=10.0,
    )


def _limits(name: str) -> Callable[[int], ConsumerSettings]:
    return lambda value: _consumer(limits=FlowLimits()._replace(**{name: value}))


def _of_consumer(name: str) -> Callable[[float], ConsumerSettings]:
    return lambda value: _consumer(**{name: value})


def _of_producer(name: str) -> Callable[[float], ProducerSettings]:
    return lambda value: ProducerSettings(**{"group": "g", name: value})  # type: ignore[arg-type]  # as users may


@pytest.mark.parametrize(
    ("make", "least", "most", "step"),
    [
        (_limits("message_count"), 1, 65535, 1),
        (_limits("body_mib"), 1, 1024, 1),
        (_limits("span"), 1, 65535, 1),
        (_of_consumer("topic_message_count"), 1, 6553500, 1),
        (_of_consumer("topic_body_mib"), 1, 102400, 1),
        (_of_consumer("pull_batch_size"), 1, 1024, 1),
        (_of_consumer("pull_interval_s"), 0, 65.535, 0.001),
        (_of_consumer("consume_timestamp_ms"), 0, 2**63 - 1, 1),
        (_of_consumer("thread_count"), 1, 1000, 1),
        (_of_consumer("batch_size"), 1, 1024, 1),
        (_of_consumer("max_reconsume_times"), -1, 2**31 - 1, 1),
        (_of_consumer("consume_timeout_s"), 0.001, 86400 * 365, 0.0005),
        (_of_consumer("suspend_s"), 0, 86400, 0.5),
        (_of_consumer("await_termination_s"), 0, 86400 * 365, 0.5),
        (_of_producer("send_timeout_s"), 0.001, 86400, 0.0005),
        (_of_producer("retries"), 0, 1000, 1),
        (_of_producer("max_message_bytes"), 1, 2**31 - 1, 1),
        (_of_producer("compress_over_bytes"), 0, 2**31 - 1, 1),
        (_of_producer("heartbeat_s"), 0.001, 86400, 0.0005),
    ],
)
def test_the_ends_of_each_range(make: Callable[[float], object], least: float, most: float, step: float) -> None:
    """Both ends of a range are accepted, and what lies just beyond is refused; only seconds may have fractions."""
    for value in (least, most, *([least + step / 2] if step < 1 else [])):
        make(value)
    for value in (least - step, most + step, *([least + 1.5] if step == 1 else [])):
        with pytest.raises(OptionError):
            make(value)


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
